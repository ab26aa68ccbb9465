//! Taking turns by weight: the whole round laid out beforehand.
//!
//! A counter that threads share says whose turn it is, so the order holds across all of them and a
//! pick is one look into an array.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most turns of one round; with more, weights are scaled down.
pub const MAX_SCHEDULE: usize = 1 << 18;

/// Most steps spent on the peer's own map of a static farm; beyond, the cheaper order is as good.
const MAX_MAP_STEPS: usize = 1 << 24;

/// Divides weights by their greatest common divisor, and scales them down until the round fits.
fn reduced(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let total: u64 = weights.iter().map(|&weight| u64::from(weight / divisor)).sum();
    let limit = MAX_SCHEDULE as u64;
    let scale = |weight: u32| match u64::from(weight / divisor) {
        weight if total <= limit || weight == 0 => weight as u32,
        weight => (weight * limit / total).max(1) as u32,
    };
    weights.iter().map(|&weight| scale(weight)).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// When a server's next turn is due; the earliest, then the heaviest, then the longest waiting goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord, Default)]
struct Due {
    position: u64,
    tie: u64,
    order: u64,
    server: usize,
    remainder: u64,
    turns_left: u64,
}

/// `balance roundrobin`: one round, each server's turns spread evenly.
///
/// A server is due again `total / weight` turns after its last turn was; turns that nobody is due for
/// go to those not served yet, heaviest first.
pub(crate) fn round_robin(weights: &[u32]) -> Vec<u32> {
    let weights = reduced(weights);
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let mut fresh: Vec<usize> = (0..weights.len()).filter(|&server| weights[server] > 0).collect();
    fresh.sort_by_key(|&server| Reverse(weights[server]));
    let mut fresh = VecDeque::from(fresh);
    let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::with_capacity(weights.len());
    let mut round = Vec::with_capacity(total as usize);
    let heaviest = weights.iter().copied().max().map_or(0, u64::from);
    for turn in 0..total {
        let nobody_due = due.peek().is_none_or(|Reverse(first)| first.position > turn);
        let newcomer = if nobody_due { fresh.pop_front() } else { None };
        let now = match newcomer {
            Some(server) => {
                Due { position: turn, server, turns_left: weights[server].into(), ..Due::default() }
            }
            None => match due.pop() {
                Some(Reverse(first)) => first,
                None => break,
            },
        };
        round.push(now.server as u32);
        if now.turns_left == 1 {
            // A round is repeated: beyond its share here, a server would be ahead for ever.
            continue;
        }
        let weight = u64::from(weights[now.server]);
        let mut position = now.position + total / weight;
        let mut remainder = now.remainder + total % weight;
        if remainder >= weight {
            remainder -= weight;
            position += 1;
        }
        let tie = heaviest + remainder - weight;
        let turns_left = now.turns_left - 1;
        due.push(Reverse(Due { position, tie, order: turn, server: now.server, remainder, turns_left }));
    }
    round
}

/// `balance static-rr` and map-based hashing: the array that HAProxy lays out.
///
/// Every slot goes to the first server whose score, counted in whole rounds, is highest.
pub(crate) fn static_map(weights: &[u32], usable: impl Fn(usize) -> bool) -> Vec<u32> {
    let weights = reduced(weights);
    let servers: Vec<usize> = (0..weights.len()).filter(|&at| weights[at] > 0 && usable(at)).collect();
    let total: i64 = servers.iter().map(|&server| i64::from(weights[server])).sum();
    if total == servers.len() as i64 {
        return servers.iter().map(|&server| server as u32).collect();
    }
    if total as usize * servers.len() > MAX_MAP_STEPS {
        let masked: Vec<u32> =
            (0..weights.len()).map(|at| if usable(at) { weights[at] } else { 0 }).collect();
        return round_robin(&masked);
    }
    let mut scores = vec![0i64; servers.len()];
    let mut map = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let mut best = (i64::MIN, 0);
        for (at, &server) in servers.iter().enumerate() {
            scores[at] += i64::from(weights[server]);
            let rounds = (scores[at] + total) / total;
            if rounds > best.0 {
                best = (rounds, at);
            }
        }
        scores[best.1] -= total;
        map.push(servers[best.1] as u32);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(round: &[u32], turns: usize) -> String {
        round.iter().cycle().take(turns).map(u32::to_string).collect()
    }

    #[test]
    fn round_robin_goes_in_the_peers_order() {
        // Sequences of a running HAProxy.
        let check = |weights: &[u32], expected: &str| {
            assert_eq!(text(&round_robin(weights), expected.len()), expected);
        };
        check(&[3, 2, 1], "01020101020101020101020101");
        check(&[5, 1, 1], "00010020001002000100200010");
        check(&[1, 2, 3], "21202121202121202121202121");
        check(&[1, 1, 1, 1], "01230123012301230123012301");
        check(&[16, 16, 16, 16], "01230123012301230123012301");
        check(&[10, 7, 3, 4], "01031020130100213010301201");
        check(&[0, 1, 0, 1], "1313");
        check(&[0], "");
        check(&[], "");
    }

    #[test]
    fn static_map_is_the_peers() {
        let check = |weights: &[u32], expected: &str| {
            assert_eq!(text(&static_map(weights, |_| true), expected.len()), expected);
        };
        check(&[3, 2, 1], "00101200101200101200101200");
        check(&[5, 1, 1], "00010020001002000100200010");
        check(&[10, 7, 3, 4], "01010312001301020310102301");
        check(&[1, 1, 1], "012012");
        assert_eq!(static_map(&[2, 2, 2], |at| at != 1), [0, 2]);
    }

    #[test]
    fn large_farms_stay_within_bounds() {
        assert_eq!(round_robin(&vec![7; 10_000]).len(), 10_000);
        let weights: Vec<u32> = (0..10_000).map(|at| 1 + at % 256).collect();
        let round = round_robin(&weights);
        assert!(round.len() <= MAX_SCHEDULE + weights.len());
        assert!(static_map(&weights, |_| true).len() <= MAX_SCHEDULE + weights.len());
    }

    proptest! {
        #[test]
        fn each_server_gets_its_share_evenly(weights in prop::collection::vec(0u32..20, 1..8)) {
            for round in [round_robin(&weights), static_map(&weights, |_| true)] {
                let reduced = reduced(&weights);
                for (server, &weight) in reduced.iter().enumerate() {
                    let turns = round.iter().filter(|&&turn| turn as usize == server).count();
                    prop_assert_eq!(turns, weight as usize);
                }
            }
        }
    }
}
