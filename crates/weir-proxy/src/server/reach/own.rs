//! Connections of this process to its own listeners: a request that goes round in a circle is cut.
//!
//! Chains of proxies in one process are usual, and so the connections of such a chain are not limited in number.  What
//! is limited is how often one request comes through here: each connection to a listener of ours is known by its two
//! ends, and says with which connection its request came before.  Leaves out unix sockets, whose clients have no name,
//! and circles through other hosts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use weir_net::timers::now_ms;

use crate::control::certificates::locked;
use crate::edge::Edge;
use crate::exchange::Exchange;
use crate::log::level;
use crate::log::reminder::Reminder;
use crate::server::reach::ConnectError;
use crate::server::reach::pool::ConnectionFacts;

/// How often a request may come through this process: far above the longest chain of proxies that anybody builds.
const MAX_PASSES: u8 = 16;

/// The end that connected, and the listener's.
type Ends = (SocketAddr, SocketAddr);

/// The listeners' ports, and the connections to them.
#[derive(Debug, Default)]
pub(crate) struct OwnConnections {
    /// In order.
    ports: OnceLock<Vec<u16>>,
    /// Whose client each of them speaks for.  A chain, not a number: a listener may look before the end that connected
    /// has noted its own link, and then the links before it still count for the next one.
    links: Mutex<HashMap<Ends, Option<Ends>>>,
    /// Each request that comes into a circle would say it again.
    reminder: Reminder,
}

/// A connection to a listener of ours, until it is closed.
#[derive(Debug)]
pub(crate) struct OwnConnection {
    all: Arc<OwnConnections>,
    ends: Ends,
}

impl OwnConnections {
    /// The ports that this process listens on.
    pub(crate) fn listen_on(&self, mut ports: Vec<u16>) {
        ports.sort_unstable();
        // Set once, at the start.
        let _set = self.ports.set(ports);
    }

    /// Notes a new connection if it leads back to this process.
    pub(crate) fn note(
        self: &Arc<Self>,
        local: Option<SocketAddr>,
        remote: Option<SocketAddr>,
    ) -> Option<Arc<OwnConnection>> {
        let ends = (canonical(local?), canonical(remote?));
        // Who connects to itself has the same address at both ends; any of 127.0.0.0/8 is this host as well.
        let same_host = ends.0.ip() == ends.1.ip() || ends.1.ip().is_loopback();
        let ours = self.ports.get().is_some_and(|ports| ports.binary_search(&ends.1.port()).is_ok());
        (same_host && ours).then(|| Arc::new(OwnConnection { all: Arc::clone(self), ends }))
    }

    /// How often the request on a client's connection was here before, as far as that matters.
    fn passes_of(&self, client: Option<Ends>) -> u8 {
        let links = locked(&self.links);
        let mut at = client;
        for passes in 0..MAX_PASSES {
            let Some(before) = at.and_then(|ends| links.get(&ends)) else { return passes };
            at = *before;
        }
        MAX_PASSES
    }

    /// Notes for whom a connection speaks; false when that request was here too often.
    fn link(&self, own: Ends, client: Option<Ends>) -> bool {
        if self.passes_of(client) >= MAX_PASSES {
            return false;
        }
        locked(&self.links).insert(own, client);
        true
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        locked(&self.all.links).remove(&self.ends);
    }
}

fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// Notes for whom a connection speaks from now on; an error once its request was here too often.
pub(crate) fn pass(x: &Exchange, facts: &ConnectionFacts) -> Result<(), ConnectError> {
    let Some(own) = &facts.own else { return Ok(()) };
    if own.all.link(own.ends, client_ends(x)) {
        return Ok(());
    }
    if own.all.reminder.is_due(now_ms()) {
        let name = x.worker.shared.full_name(&facts.server);
        let text = format!(
            "{name} leads back to this process at {}: a request that came through here {MAX_PASSES} times was ended.",
            own.ends.1
        );
        x.worker.shared.log_of(&facts.server, level::ALERT, text);
    }
    Err(ConnectError::Circle)
}

/// The ends of the client's connection.
fn client_ends(x: &Exchange) -> Option<Ends> {
    let Edge::H1(edge) = &x.client else {
        // The socket is the connection's; what a PROXY header says instead is not known here.
        return Some((canonical(x.txn.session.src.get()?), canonical(x.txn.session.dst.get()?)));
    };
    let ends = [edge.stream.peer_addr(), edge.stream.local_addr()];
    let [Ok(peer), Ok(local)] = ends else { return None };
    Some((canonical(peer.socket_addr()?), canonical(local.socket_addr()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_ourselves_are_known_by_their_ends() {
        let all = Arc::new(OwnConnections::default());
        all.listen_on(vec![8080, 80]);
        let check = |local: &str, remote: &str, expected: bool| {
            let noted = all.note(local.parse().ok(), remote.parse().ok());
            assert_eq!(noted.is_some(), expected, "{local} {remote}");
        };
        check("127.0.0.1:4000", "127.0.0.1:80", true);
        check("127.0.0.1:4000", "127.0.0.2:8080", true);
        check("[::1]:4000", "[::1]:80", true);
        check("[::ffff:127.0.0.1]:4000", "[::ffff:127.0.0.1]:80", true);
        check("10.0.0.1:4000", "10.0.0.1:80", true);
        check("10.0.0.1:4000", "10.0.0.2:80", false);
        check("127.0.0.1:4000", "127.0.0.1:81", false);
    }

    #[test]
    fn a_chain_is_as_long_as_its_links() {
        let all = Arc::new(OwnConnections::default());
        all.listen_on(vec![80]);
        let ends = |port: u8| -> Ends {
            (
                SocketAddr::from(([127, 0, 0, 1], 4000 + u16::from(port))),
                SocketAddr::from(([127, 0, 0, 1], 80)),
            )
        };
        // The request of client 0 comes back on connection 1, and so on.
        let open = |port: u8| all.note(Some(ends(port).0), Some(ends(port).1)).unwrap();
        let held: Vec<_> = (1..=MAX_PASSES).map(open).collect();
        for port in 1..=MAX_PASSES {
            assert!(all.link(ends(port), Some(ends(port - 1))), "{port}");
        }
        assert!(!all.link(ends(100), Some(ends(MAX_PASSES))));
        // Somebody else's request on the first of them is a new one.
        assert!(all.link(ends(100), Some(ends(99))));
        assert_eq!(all.passes_of(Some(ends(MAX_PASSES - 1))), MAX_PASSES - 1);
        drop(held);
        assert_eq!(all.passes_of(Some(ends(MAX_PASSES))), 0);
        assert_eq!(locked(&all.links).len(), 1, "closed connections are forgotten");
    }

    #[test]
    fn links_that_are_noted_late_count_for_the_next_one() {
        let all = Arc::new(OwnConnections::default());
        let ends = |port: u16| -> Ends {
            (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 1], 80)))
        };
        // Connection 2 was accepted and went on as 3 before it was noted that it speaks for 1.
        assert!(
            all.link(ends(1), None) && all.link(ends(3), Some(ends(2))) && all.link(ends(2), Some(ends(1)))
        );
        assert_eq!(all.passes_of(Some(ends(3))), 3);
    }
}
