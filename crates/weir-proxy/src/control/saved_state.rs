//! States of servers that a predecessor saved (`load-server-state-from-file`): the output of `show servers state`.
//!
//! Owns reading the files and what of them counts at the start; a file that is not there or not understood changes
//! nothing, as at a first start.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use weir_balance::Admin;
use weir_config::model::{Config, Proxy, StateOrigin};

use crate::log::level;
use crate::state::{ServerState, Shared};

/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// What is kept of a server's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Saved {
    /// Its address, when it had one.
    pub(crate) addr: Option<IpAddr>,
    stopped: bool,
    admin: u8,
    weight: u32,
    /// Weight of the configuration at that time.
    initial_weight: u32,
}

/// Saved states by names of backend and server.
#[derive(Default)]
pub(crate) struct SavedStates(HashMap<(Arc<str>, Box<str>), Saved>);

impl SavedStates {
    /// Reads the files that backends name.
    pub(crate) fn read(shared: &Shared) -> Self {
        let config = &shared.config;
        let mut files: HashMap<PathBuf, Option<String>> = HashMap::new();
        let mut all = Self::default();
        for proxy in config.proxies.iter().filter(|proxy| proxy.backend) {
            let Some(path) = path(config, proxy) else { continue };
            let text = files.entry(path).or_insert_with_key(|path| {
                let read = read(path);
                if let Err(error) = &read {
                    shared.log(
                        level::NOTICE,
                        &format!("cannot read the server state file '{}': {error}", path.display()),
                    );
                }
                read.ok()
            });
            all.add(&proxy.name, text.as_deref().unwrap_or_default());
        }
        all
    }

    /// Takes the lines of a backend over.
    fn add(&mut self, backend: &Arc<str>, text: &str) {
        for (name, server, saved) in lines(text) {
            if name == &**backend {
                self.0.insert((Arc::clone(backend), server.into()), saved);
            }
        }
    }

    /// What is known of a server.
    pub(crate) fn of(&self, backend: &Arc<str>, server: &str) -> Option<&Saved> {
        self.0.get(&(Arc::clone(backend), server.into()))
    }

    /// Puts the servers into their states, before anybody looks.
    pub(crate) fn apply(&self, shared: &Shared) {
        for (state, proxy) in shared.proxies.iter().zip(&shared.config.proxies) {
            for server in state.servers.load().iter() {
                if let Some(saved) = self.of(&proxy.name, &server.config.name) {
                    saved.apply(server);
                }
            }
        }
    }
}

impl Saved {
    fn apply(self, server: &Arc<ServerState>) {
        let was_disabled = Admin(self.admin).has(Admin::CONFIG_MAINT);
        let mut forced = Admin(self.admin & (Admin::FORCED_MAINT.0 | Admin::FORCED_DRAIN.0));
        if was_disabled && forced.has(Admin::FORCED_MAINT) {
            // That was the configuration's wish, and now it is the new one that says.
            forced.0 &= !Admin::FORCED_MAINT.0;
        } else if was_disabled {
            server.standing.start_enabled(server);
        }
        if forced.0 != 0 {
            server.standing.start_with(server, forced);
        }
        let checked = server.config.check.is_some() || server.config.agent_check.is_some();
        if self.stopped && forced.0 & Admin::FORCED_MAINT.0 == 0 && checked {
            server.standing.start_down(server);
        }
        // A weight that was changed in the configuration since is the newer wish.
        if self.initial_weight == server.config.weight {
            server.weight.store(self.weight, std::sync::atomic::Ordering::Relaxed);
        }
        server.changed();
    }
}

/// The file for a backend.
fn path(config: &Config, proxy: &Proxy) -> Option<PathBuf> {
    let name = match proxy.load_server_state? {
        StateOrigin::Global => config.global.server_state_file.clone()?,
        StateOrigin::Local => proxy.server_state_file.clone().unwrap_or_else(|| PathBuf::from(&*proxy.name)),
    };
    // An absolute name replaces the folder.
    Some(config.global.server_state_base.clone().unwrap_or_default().join(name))
}

fn read(path: &PathBuf) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Backend, server and state of each line of a file in version 1.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str, Saved)> {
    let mut lines = text.lines();
    let known = lines.next() == Some("1");
    lines.filter(move |line| known && !line.starts_with('#')).filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        // Management manual, `show servers state`: the columns of version 1.
        let [_, backend, _, server, addr, op, admin, weight, initial, ..] = words[..] else { return None };
        let saved = Saved {
            addr: addr.parse().ok(),
            stopped: op.parse::<u8>().ok()? == 0,
            admin: admin.parse().ok()?,
            weight: weight.parse().ok().filter(|weight| *weight <= 256)?,
            initial_weight: initial.parse().ok()?,
        };
        Some((backend, server, saved))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::{backend, server};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn files_are_read() {
        let check = |text: &str, expected: &[(&str, &str, bool, u8, u32)]| {
            let found: Vec<_> =
                lines(text).map(|(b, s, saved)| (b, s, saved.stopped, saved.admin, saved.weight)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "1\n# be_id ...\n3 b 1 a 127.0.0.1 2 0 7 1 9 6 3 4 6 0 0 0 - 80 - 0 0 - - 0\n",
            &[("b", "a", false, 0, 7)],
        );
        check("1\n3 b 1 a - 0 1 1 1 9", &[("b", "a", true, 1, 1)]);
        check("2\n3 b 1 a - 0 1 1 1 9", &[]);
        check("1\n3 b 1 a - 0 1 999 1 9\n\nx\n", &[]);
        check("", &[]);
    }

    #[test]
    fn servers_go_on_where_they_were() {
        let shared = backend(
            " server up 127.0.0.1:1 check\n server down 127.0.0.1:2 check\n server maint 127.0.0.1:3\n server drain 127.0.0.1:4\n server heavy 127.0.0.1:5 weight 10\n server new 127.0.0.1:6 weight 20\n \
             server was 127.0.0.1:7\n server on 127.0.0.1:8 disabled\n server off 127.0.0.1:9 disabled",
        );
        let text = "1\n3 b 1 up - 2 0 1 1 9\n3 b 2 down - 0 0 1 1 9\n3 b 3 maint - 0 1 1 1 9\n3 b 4 drain - 2 8 1 1 9\n3 b 5 heavy - 2 0 5 10 9\n3 b 6 new - 2 0 5 10 9\n3 other 1 up - 0 1 1 1 9\n\
                    3 b 7 was - 0 5 1 1 9\n3 b 8 on - 2 4 1 1 9\n3 b 9 off - 0 5 1 1 9\n";
        let mut saved = SavedStates::default();
        saved.add(&shared.config.proxies[0].name, text);
        saved.apply(&shared);
        let state = &shared.proxies[0];
        let check = |name: &str, expected: (bool, bool, bool, u32)| {
            let s = server(state, name);
            let found = (s.is_running(), s.in_maintenance(), s.draining(), s.weight.load(Relaxed));
            assert_eq!(found, expected, "{name}");
        };
        check("up", (true, false, false, 1));
        check("down", (false, false, false, 1));
        check("maint", (false, true, false, 1));
        check("drain", (true, false, true, 1));
        check("heavy", (true, false, false, 5));
        check("new", (true, false, false, 20));
        // Disabled by the old configuration, and enabled or not by somebody since.
        check("was", (true, false, false, 1));
        check("on", (true, false, false, 1));
        check("off", (false, true, false, 1));
    }
}
