//! Consistent hashing: servers as many points on a ring, a key goes to the nearest.

use crate::hash::avalanche;

/// Most points; with more, each server gets fewer.
pub const MAX_RING_NODES: usize = 1 << 20;

/// Most servers that are tried in turn when the nearest ones are not eligible.
const MAX_WALK: usize = 1000;

/// Points sorted by their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    places: Vec<u32>,
    servers: Vec<u32>,
}

impl Ring {
    /// A ring of servers given as (index, key, number of points): a server's points are its key and the numbers after it,
    /// spread (as HAProxy 3.0 does; 2.x had other keys).
    pub(crate) fn new(servers: &[(usize, u32, u32)]) -> Self {
        let total: u64 = servers.iter().map(|&(_, _, points)| u64::from(points)).sum();
        let limit = MAX_RING_NODES as u64;
        let mut nodes = Vec::with_capacity(total.min(limit) as usize);
        for &(server, key, points) in servers {
            let points = match u64::from(points) {
                points if total <= limit || points == 0 => points as u32,
                points => (points * limit / total).max(1) as u32,
            };
            nodes.extend((0..points).map(|point| {
                let place = avalanche(key.wrapping_add(point));
                u64::from(place) << 32 | server as u64
            }));
        }
        nodes.sort_unstable();
        let places = nodes.iter().map(|node| (node >> 32) as u32).collect();
        Self { places, servers: nodes.iter().map(|&node| node as u32).collect() }
    }

    /// The server nearest to a hash, or the next one along the ring that is eligible.  When none in reach
    /// is, the last one looked at.
    pub(crate) fn pick(&self, hash: u32, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let len = self.places.len();
        let after = self.places.partition_point(|&place| place < hash) % len.max(1);
        let next = *self.places.get(after)?;
        let before = match self.places.partition_point(|&place| place <= hash) {
            0 => len - 1,
            at => at - 1,
        };
        let backward = hash.wrapping_sub(self.places[before]) <= next.wrapping_sub(hash);
        let mut at = if backward { before } else { after };
        for _ in 0..MAX_WALK.min(len) {
            if eligible(self.servers[at] as usize) {
                break;
            }
            at = (at + 1) % len;
        }
        Some(self.servers[at] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashFunction, HashType};
    use proptest::prelude::*;

    fn ring(weights: &[u32]) -> Ring {
        let servers = weights.iter().enumerate();
        let servers: Vec<_> =
            servers.map(|(at, &weight)| (at, avalanche(at as u32 + 1), weight * 16)).collect();
        Ring::new(&servers)
    }

    #[test]
    fn keys_go_where_the_peer_sends_them() {
        // Of a running HAProxy, for the paths /p0 to /p25.
        let check = |weights: &[u32], hash: HashType, expected: &str| {
            let ring = ring(weights);
            let servers =
                (0..26).map(|at| ring.pick(hash.hash(format!("/p{at}").as_bytes()), |_| true).unwrap());
            assert_eq!(servers.map(|server| server.to_string()).collect::<String>(), expected);
        };
        check(&[1, 1, 1], HashType::CONSISTENT, "21111002221002220221022010");
        let wt6 = HashType { function: HashFunction::Wt6, avalanche: false, ..HashType::CONSISTENT };
        check(&[3, 2, 1], wt6, "11111111110010110001001011");
    }

    #[test]
    fn an_empty_ring_has_no_server() {
        assert_eq!(ring(&[]).pick(7, |_| true), None);
        assert_eq!(ring(&[0]).pick(7, |_| true), None);
    }

    #[test]
    fn points_are_bounded() {
        let servers: Vec<_> = (0..10_000).map(|at| (at, avalanche(at as u32), 4096)).collect();
        assert!(Ring::new(&servers).places.len() <= MAX_RING_NODES);
    }

    proptest! {
        #[test]
        fn a_lost_server_moves_only_its_own_keys(hash: u32, lost in 0usize..5) {
            let whole = ring(&[1, 2, 3, 1, 2]);
            let mut weights = [1, 2, 3, 1, 2];
            weights[lost] = 0;
            let before = whole.pick(hash, |_| true).unwrap();
            let after = ring(&weights).pick(hash, |_| true).unwrap();
            prop_assert!(before == lost || before == after);
        }

        #[test]
        fn only_eligible_servers_are_picked(hash: u32, full in 0usize..3) {
            prop_assert_ne!(ring(&[1, 1, 1]).pick(hash, |server| server != full), Some(full));
        }
    }
}
