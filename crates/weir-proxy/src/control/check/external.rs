//! `option external-check`: a program that says by its exit code whether a server is well.
//!
//! Owns the program's arguments, environment and time; a thread beside the event loops waits for it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_config::model::{BindAddr, Global, Proto, Proxy};
use weir_net::Address;

use super::status::{Outcome, Status};
use crate::state::ServerState;

/// What stands for an address or port that there is none of (manual, `external-check command`).
const NOT_USED: &str = "NOT_USED";

/// Runs the program for a server; it is killed when its time is over.
pub(super) async fn run(
    global: &Global,
    proxy: &Proxy,
    server: &Arc<ServerState>,
    limit: Duration,
) -> Outcome {
    let started = command(global, proxy, server).map(|mut command| command.spawn());
    let mut child = match started {
        None => return Outcome::new(Status::ProcessError, "no 'external-check command'"),
        Some(Err(error)) => return Outcome::new(Status::ProcessError, error.to_string()),
        Some(Ok(child)) => child,
    };
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut waiting = tokio::task::spawn_blocking(move || child.wait());
    let ended = tokio::time::timeout(limit, &mut waiting).await;
    if ended.is_err() {
        if let Some(number) = number {
            // It may end by itself at this moment; its number is its own until it has been waited for.
            let _killed = kill_process(number, Signal::KILL);
        }
        let _ended = waiting.await;
        return Outcome::new(Status::ProcessTimeout, "");
    }
    match ended {
        Ok(Ok(Ok(status))) if status.success() => Outcome::new(Status::ProcessOk, ""),
        Ok(Ok(Ok(status))) => {
            let code = status.code().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
            Outcome::new(Status::ProcessError, "").with_code(code)
        }
        _ => Outcome::new(Status::ProcessError, "the program could not be waited for"),
    }
}

/// The program with its arguments, and an environment that is clean unless it is to be preserved.
fn command(global: &Global, proxy: &Proxy, server: &ServerState) -> Option<Command> {
    let (proxy_addr, proxy_port) = first_bind(proxy);
    let (addr, port) = match server.addr.load().address.clone() {
        Some(Address::Ip(ip)) => (ip.ip().to_string(), ip.port().to_string()),
        Some(Address::Unix(path)) => (path.display().to_string(), String::new()),
        _ => (String::new(), String::new()),
    };
    let shown = |text: &str| if text.is_empty() { NOT_USED.to_owned() } else { text.to_owned() };
    let config = &server.config;
    let protocol = match config.proto {
        Some(Proto::H2) => "h2",
        _ if proxy.mode == weir_config::model::Mode::Http => "h1",
        _ => "tcp",
    };
    let variables = [
        ("HAPROXY_PROXY_ADDR", proxy_addr.clone()),
        ("HAPROXY_PROXY_PORT", proxy_port.clone()),
        ("HAPROXY_PROXY_ID", proxy.id.to_string()),
        ("HAPROXY_PROXY_NAME", proxy.name.to_string()),
        ("HAPROXY_SERVER_ADDR", addr.clone()),
        ("HAPROXY_SERVER_PORT", port.clone()),
        ("HAPROXY_SERVER_ID", config.id.to_string()),
        ("HAPROXY_SERVER_NAME", config.name.to_string()),
        ("HAPROXY_SERVER_CURCONN", server.served.now().to_string()),
        ("HAPROXY_SERVER_MAXCONN", server.maxconn.load(Relaxed).to_string()),
        ("HAPROXY_SERVER_SSL", u8::from(server.tls_switch() > 0).to_string()),
        ("HAPROXY_SERVER_PROTO", protocol.to_owned()),
    ];
    let mut command = Command::new(proxy.external_check_command.as_ref()?);
    command.args([shown(&proxy_addr), shown(&proxy_port), shown(&addr), shown(&port)]);
    if !global.external_check_preserve_env {
        command.env_clear().env("PATH", "");
    }
    command.envs(variables).envs(proxy.external_check_path.as_ref().map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command)
}

/// Address and port of the first bind line that has them.
fn first_bind(proxy: &Proxy) -> (String, String) {
    let found = proxy.binds.iter().find_map(|bind| match &bind.addr {
        BindAddr::Inet(address) => Some((address.ip().to_string(), address.port().to_string())),
        BindAddr::Unix(path) => Some((path.display().to_string(), String::new())),
        _ => None,
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::{server, shared};

    fn check(words: &str, script: &str, limit: Duration, expected: (Status, u16)) {
        check_with("", words, script, limit, expected);
    }

    fn check_with(environment: &str, words: &str, script: &str, limit: Duration, expected: (Status, u16)) {
        let folder =
            std::env::temp_dir().join(format!("weir-external-check-{}-{}", std::process::id(), expected.1));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("check.sh");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, executable).unwrap();
        let text = format!(
            "global\n external-check {environment}\ndefaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n\
             listen l\n bind 127.0.0.1:18999\n option external-check\n external-check command {}\n{words}\
             server s 192.0.2.7:81 check maxconn 5\n",
            file.display()
        );
        let shared = shared(&text);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(run(
            &shared.config.global,
            &shared.config.proxies[0],
            &server(&shared.proxies[0], "s"),
            limit,
        ));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((outcome.status, outcome.code), expected, "{script}");
    }

    #[test]
    fn programs_judge_servers() {
        let long = Duration::from_secs(60);
        let facts = "[ \"$*\" = '127.0.0.1 18999 192.0.2.7 81' ] && [ $HAPROXY_SERVER_NAME = s ] \
                     && [ $HAPROXY_SERVER_MAXCONN = 5 ] && [ $PATH = /some/where ] && [ -z \"$HOME\" ]";
        check(" external-check path /some/where\n", facts, long, (Status::ProcessOk, 0));
        let kept =
            "[ $HAPROXY_SERVER_NAME = s ] && [ $PATH = /some/where ] && [ -n \"$CARGO_MANIFEST_DIR\" ]";
        check_with("preserve-env", " external-check path /some/where\n", kept, long, (Status::ProcessOk, 0));
        check("", "exit 3", long, (Status::ProcessError, 3));
        // It waits for input that never comes rather than for time.
        check("", "while :; do :; done", Duration::from_millis(1), (Status::ProcessTimeout, 0));
    }
}
