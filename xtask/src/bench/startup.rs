//! How long a large configuration takes from the program's start to its first accepted connection.

use super::subject::{Place, Subject, free_port};
use crate::place;
use std::fmt::Write;
use std::time::Duration;

pub(super) const NAME: &str = "start-10k";

/// Servers in the configuration, a hundred in each backend.
pub(super) const SERVERS: usize = 10_000;

const BACKEND_SERVERS: usize = 100;

pub(super) const BAR: Duration = Duration::from_secs(1);

const ROUNDS: usize = 3;

/// The median of some starts.
pub(super) fn measure(place: &Place, subject: &Subject) -> Result<Duration, String> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let port = free_port()?;
        let file = place.scratch.path().join("start.cfg");
        place::write(&file, &configuration(port))?;
        times.push(subject.start_with(place, &file, port)?.ready_after);
    }
    times.sort();
    times.get(ROUNDS / 2).copied().ok_or_else(|| "no start was measured".to_owned())
}

/// A configuration with all servers.
pub(crate) fn configuration(port: u16) -> String {
    let mut text = format!(
        "global\n    nbthread 1\n    maxconn 1000\n\n\
         defaults\n    mode http\n    timeout client 60s\n    timeout server 60s\n    timeout connect 5s\n\n\
         frontend clients\n    bind 127.0.0.1:{port}\n    \
         use_backend b%[path,field(2,/)]\n    default_backend b0\n"
    );
    for backend in 0..SERVERS / BACKEND_SERVERS {
        let _written = write!(text, "\nbackend b{backend}\n    balance roundrobin\n");
        for server in 0..BACKEND_SERVERS {
            let _written =
                writeln!(text, "    server s{server} 127.{}.{}.1:8080 weight 10", backend + 1, server + 1);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_all_servers() {
        let servers = configuration(80).lines().filter(|line| line.trim().starts_with("server ")).count();
        assert_eq!(servers, SERVERS);
    }
}
