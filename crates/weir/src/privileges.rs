//! Limits, root folder, group and user of the process that serves.
//!
//! Owns their order.  Each of them is the thread's own in Linux, so all of this happens before the process
//! starts a second thread; what needs rights (sockets, certificates, the pid file) is open by then.

use std::io;

use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use weir_balance::Limit;
use weir_config::model::Global;

/// Descriptors for other things than connections: logs, command sockets, epoll, files.
const OTHER_DESCRIPTORS: u64 = 100;

/// Connections that a process without `maxconn` is given descriptors for, as far as the hard limit goes.
const DEFAULT_MAX_CONNECTIONS: u64 = 100_000;

/// The system's tables of users and groups.  Names from other sources are given as numbers (`uid`, `gid`).
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Raises or lowers the number of descriptors, says what is too low, and takes from it how many connections
/// there can be where the configuration does not say (`maxconn`).
///
/// Returns a warning where `no strict-limits` makes one of what would be an error.
pub(crate) fn limit_descriptors(global: &mut Global, listeners: usize) -> Result<Option<String>, String> {
    let (granted, warning) = set_descriptor_limit(global, listeners)?;
    if !global.maxconn.is_set() {
        global.maxconn = Limit::new(connections_for(granted, listeners));
    }
    Ok(warning)
}

fn set_descriptor_limit(global: &Global, listeners: usize) -> Result<(u64, Option<String>), String> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = descriptors_wanted(global, listeners);
    let wanted = global.fd_hard_limit.map_or(wanted, |most| wanted.min(most));
    if let Some(current) = limit.current.filter(|current| *current >= wanted)
        && global.ulimit_n.is_none()
        && global.fd_hard_limit.is_none()
    {
        return Ok((current, None));
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let explicit = (global.ulimit_n.is_some() || global.maxconn.is_set()) && global.strict_limits;
    let set = |current, maximum| {
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: Some(maximum) })
    };
    // Beyond the hard limit there is no way without rights; then the most that is allowed is the next best.
    if explicit && wanted > hard && set(wanted, wanted).is_ok() {
        return Ok((wanted, None));
    }
    let granted = wanted.min(hard);
    match set(granted, hard) {
        Err(error) if global.strict_limits => {
            return Err(format!("cannot set the limit of file descriptors: {error}"));
        }
        Err(_) => return Ok((limit.current.unwrap_or(granted), None)),
        Ok(()) => {}
    }
    if explicit && granted < wanted {
        let message = format!(
            "the limit of file descriptors is {hard}, and {wanted} are needed: raise it or lower maxconn"
        );
        return if global.strict_limits { Err(message) } else { Ok((granted, Some(message))) };
    }
    Ok((granted, None))
}

/// Each connection has one descriptor to the client and one to the server.
fn descriptors_wanted(global: &Global, listeners: usize) -> u64 {
    let connections = global.maxconn.most().map_or(DEFAULT_MAX_CONNECTIONS, |maxconn| maxconn as u64);
    let computed = connections.saturating_mul(2) + listeners as u64 + OTHER_DESCRIPTORS;
    global.ulimit_n.unwrap_or(computed)
}

/// The connections that a number of descriptors is enough for.
fn connections_for(descriptors: u64, listeners: usize) -> usize {
    let left = descriptors.saturating_sub(listeners as u64 + OTHER_DESCRIPTORS);
    usize::try_from((left / 2).clamp(1, DEFAULT_MAX_CONNECTIONS)).unwrap_or(usize::MAX)
}

/// Keeps the kernel from giving 2 MB for the first byte used of them: an idle connection is to cost what it holds. A
/// kernel that cannot be told so only uses more memory.
pub(crate) fn use_small_pages() {
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
}

/// Who the process becomes; read before the root folder changes, where the tables of names are out of reach.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    user: Option<u32>,
    group: Option<u32>,
}

impl Identity {
    /// Of `user`, `group`, `uid` and `gid`.
    pub(crate) fn of(global: &Global) -> Result<Self, String> {
        Ok(Self {
            user: global.user.as_deref().map(user).transpose()?.or(global.uid),
            group: global.group.as_deref().map(group).transpose()?.or(global.gid),
        })
    }

    /// Changes the root folder, then the group, then the user; the capabilities of `setcap` stay.
    pub(crate) fn assume(&self, global: &Global) -> Result<(), String> {
        if let Some(root) = global.chroot.as_deref() {
            rustix::process::chroot(root)
                .and_then(|()| rustix::process::chdir("/"))
                .map_err(|error| format!("cannot change the root folder to {}: {error}", root.display()))?;
        }
        if let Some(number) = self.group.filter(|number| *number != 0) {
            let group = Gid::from_raw(number);
            // The groups of whoever started the process would stay in force otherwise.
            rustix::thread::set_thread_groups(&[])
                .and_then(|()| rustix::thread::set_thread_gid(group))
                .map_err(|error| format!("cannot set gid {number}: {error}"))?;
        }
        if let Some(number) = self.user.filter(|number| *number != 0) {
            rustix::thread::set_keep_capabilities(!global.setcap.is_empty())
                .and_then(|()| rustix::thread::set_thread_uid(Uid::from_raw(number)))
                .map_err(|error| format!("cannot set uid {number}: {error}"))?;
            keep_capabilities(&global.setcap)?;
        }
        // A program that somebody makes this process start gains no rights from its file.
        if !global.insecure_setuid_wanted {
            rustix::thread::set_no_new_privs(true)
                .map_err(|error| format!("cannot give up the right to more rights: {error}"))?;
        }
        if global.set_dumpable {
            allow_core_dumps()?;
        }
        Ok(())
    }
}

/// Keeps the capabilities of `setcap`, and no other one, after the user was changed.
fn keep_capabilities(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let kept = names.iter().map(|name| capability(name)).fold(CapabilitySet::empty(), CapabilitySet::union);
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
        .map_err(|error| format!("cannot keep the capabilities of 'setcap': {error}"))
}

fn capability(name: &str) -> CapabilitySet {
    match name {
        "cap_net_admin" => CapabilitySet::NET_ADMIN,
        "cap_net_raw" => CapabilitySet::NET_RAW,
        "cap_net_bind_service" => CapabilitySet::NET_BIND_SERVICE,
        "cap_sys_admin" => CapabilitySet::SYS_ADMIN,
        _ => CapabilitySet::empty(),
    }
}

/// `set-dumpable`: the system forbids core dumps to processes that changed their user.
fn allow_core_dumps() -> Result<(), String> {
    let unlimited = Rlimit { current: None, maximum: None };
    // Without the right to raise the limit, what the system allows is the limit.
    let _raised = setrlimit(Resource::Core, unlimited);
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(|error| format!("cannot allow core dumps: {error}"))
}

/// The priority of this process.
pub(crate) fn priority() -> Result<i32, String> {
    rustix::process::getpriority_process(None).map_err(|error| format!("cannot read the priority: {error}"))
}

/// `tune.renice`: changes the priority of this process.
pub(crate) fn set_priority(priority: Option<i32>) -> Result<(), String> {
    let Some(priority) = priority else { return Ok(()) };
    rustix::process::setpriority_process(None, priority)
        .map_err(|error| format!("cannot set the priority {priority}: {error}"))
}

/// The number of a user.
pub(crate) fn user(name: &str) -> Result<u32, String> {
    look_up("user", name, USERS)
}

/// The number of a group.
pub(crate) fn group(name: &str) -> Result<u32, String> {
    look_up("group", name, GROUPS)
}

fn look_up(what: &str, name: &str, table: &str) -> Result<u32, String> {
    let text =
        std::fs::read_to_string(table).map_err(|error: io::Error| format!("cannot read {table}: {error}"))?;
    number_of(&text, name).ok_or_else(|| format!("cannot find {what} '{name}' in {table}"))
}

/// The third column of the line whose first is the name; both tables have it there.
fn number_of(table: &str, name: &str) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut columns = line.split(':');
        (columns.next()? == name).then(|| columns.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_tables() {
        const TABLE: &str = "root:x:0:0:root:/root:/bin/sh\nproxy:x:13:13:proxy:/bin:/sbin/nologin\nbad:x\n";
        let check = |name, expected| assert_eq!(number_of(TABLE, name), expected, "{name}");
        check("root", Some(0));
        check("proxy", Some(13));
        check("pro", None);
        check("bad", None);
        check("", None);
    }

    #[test]
    fn descriptors() {
        let check = |maxconn, ulimit_n, expected| {
            let global = Global { maxconn: Limit::new(maxconn), ulimit_n, ..Global::default() };
            assert_eq!(descriptors_wanted(&global, 5), expected);
        };
        check(1000, None, 2105);
        check(1000, Some(500), 500);
        check(0, None, 200_105);
    }

    #[test]
    fn connections() {
        let check =
            |descriptors, expected| assert_eq!(connections_for(descriptors, 5), expected, "{descriptors}");
        check(1024, 459);
        check(200_105, 100_000);
        check(1_048_576, 100_000);
        check(50, 1);
    }
}
