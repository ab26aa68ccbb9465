//! `-v` and `-vv`: which version this is and what is in it.

use std::fmt::Write as _;

use weir_config::language::conditional;
pub(crate) use weir_config::language::environment::HAPROXY_VERSION;

/// Weir's own version.
pub(crate) const WEIR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version as tools of HAProxy read it.
pub(crate) fn full() -> String {
    format!("{HAPROXY_VERSION}-weir")
}

/// `-v`
pub(crate) fn short() -> String {
    format!(
        "HAProxy version {} compatible\n\
         Weir version {WEIR_VERSION}\n",
        full()
    )
}

/// `-vv`
pub(crate) fn long() -> String {
    let mut text = short();
    // The string is in memory: writing to it cannot fail.
    text.push_str("Build options :\n");
    let target = if cfg!(target_env = "musl") { "linux-musl" } else { "linux-glibc" };
    writeln!(text, "  TARGET  = {target}").ok();
    writeln!(text, "  CPU     = {}", std::env::consts::ARCH).ok();
    text.push_str("\nFeature list :");
    let mut features: Vec<_> = conditional::features().collect();
    features.sort_unstable();
    for (name, there) in features {
        write!(text, " {}{name}", if there { '+' } else { '-' }).ok();
    }
    text.push_str("\n\nDefault settings :\n  bufsize = 16384, maxrewrite = 1024\n\n");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    writeln!(text, "Built with multi-threading support (default={threads}).").ok();
    text.push_str(
        "Built with TLS by rustls and aws-lc-rs (TLSv1.2 TLSv1.3).\n\
         Available polling systems :\n      epoll : pref=300,  test result OK\n\
         Total: 1 (1 usable), will use epoll.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_find_the_version_before_the_target() {
        let text = long();
        let version = text.find("HAProxy version 3.").unwrap();
        let target = text.find("\n  TARGET  = linux-").unwrap();
        assert!(version < target);
        assert!(text.contains(&format!("Weir version {WEIR_VERSION}\n")));
    }
}
