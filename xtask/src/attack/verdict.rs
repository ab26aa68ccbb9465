//! Whether weir held: its figures beside those of the better peer.

use super::rows::Count;
use std::collections::BTreeMap;

/// Requests of the well-behaved client.
pub(super) const PROBES: u32 = 10;

/// Weir may take so many times what the better peer takes.
const BAR: f64 = 1.5;

/// Differences below this are noise: a kernel counts CPU time in steps of 10 ms.
const CPU_SLACK_SECONDS: f64 = 0.10;

/// A process that grows by less than this more is not in danger.
const MEMORY_SLACK_BYTES: u64 = 8 << 20;

/// As many connections to the origin as one connection of a client may have streams.
const PEAK_SLACK: usize = 128;

/// Descriptors that may stay: idle connections to the origin.
const DESCRIPTORS_SLACK: usize = 64;

/// What one subject did in one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) cpu_seconds: f64,
    /// Resident before the attack, and at most.
    pub(super) rest_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) rest_descriptors: usize,
    pub(super) peak_descriptors: usize,
    /// Some seconds after the attack.
    pub(super) left_descriptors: usize,
    /// Requests that reached the origin.
    pub(super) requests: u64,
    pub(super) goaways: u64,
    pub(super) probes: u32,
    /// It runs and answers when all is over.
    pub(super) alive: bool,
    pub(super) count: Option<u64>,
    /// Requests that were answered, where each subject gets as many as it can take.
    pub(super) answered: Option<u64>,
    pub(super) answers: BTreeMap<String, String>,
    pub(super) notes: Vec<String>,
}

impl Figures {
    fn served(&self) -> bool {
        self.alive && self.probes == PROBES
    }

    /// What the attack added.
    fn grown_bytes(&self) -> u64 {
        self.peak_bytes.saturating_sub(self.rest_bytes)
    }

    /// A cell of the table.
    pub(super) fn cell(&self, count: Option<Count>) -> String {
        let mut cell = format!(
            "{:.2} s, {} MB (+{}), {} fd, {} rq, {}/{PROBES}",
            self.cpu_seconds,
            self.peak_bytes >> 20,
            self.grown_bytes() >> 20,
            self.peak_descriptors,
            self.requests,
            self.probes
        );
        if self.goaways > 0 {
            cell += &format!(", {} GOAWAY", self.goaways);
        }
        if let (Some(number), Some(_)) = (self.count, count) {
            cell += &format!(", **{number}**");
        }
        if !self.alive {
            cell += ", **dead**";
        }
        cell
    }
}

/// What weir missed; nothing when it held.
pub(super) fn missed(weir: &Figures, peers: &[&Figures], count: Option<Count>) -> Vec<String> {
    let mut missed = Vec::new();
    if !weir.alive {
        missed.push("does not answer afterwards".to_owned());
    }
    if weir.probes < PROBES {
        missed.push(format!("probes {} of {PROBES}", weir.probes));
    }
    let stays = weir.left_descriptors.saturating_sub(weir.rest_descriptors);
    if stays > DESCRIPTORS_SLACK {
        missed.push(format!("{stays} descriptors stay"));
    }
    // A peer that lost the well-behaved client is no example of what it costs to keep it.
    let peers: Vec<&&Figures> = peers.iter().filter(|peer| peer.served()).collect();
    let best =
        |figure: &dyn Fn(&Figures) -> f64| peers.iter().map(|peer| figure(peer)).min_by(f64::total_cmp);
    // For as many requests as weir answered.
    let seconds = |figures: &Figures| match (weir.answered, figures.answered) {
        (Some(ours), Some(theirs)) => figures.cpu_seconds * ours as f64 / theirs.max(1) as f64,
        _ => figures.cpu_seconds,
    };
    let cpu = if weir.answered.is_some() { "CPU for each request" } else { "CPU" };
    let bytes = |figures: &Figures| figures.grown_bytes() as f64;
    let open = |figures: &Figures| figures.peak_descriptors as f64;
    // A proxy that passes bodies on as they come has two where one that keeps them has one: the dearer peer counts.
    let most_open = peers.iter().map(|peer| open(peer)).max_by(f64::total_cmp);
    missed.extend(beyond(cpu, weir, best(&seconds), seconds, CPU_SLACK_SECONDS));
    missed.extend(beyond("memory", weir, best(&bytes), bytes, MEMORY_SLACK_BYTES as f64));
    missed.extend(beyond("descriptors", weir, most_open, open, PEAK_SLACK as f64));
    if let (Some(number), Some(count)) = (weir.count, count) {
        let best = peers.iter().filter_map(|peer| peer.count).min().unwrap_or(0);
        if number > best + count.slack {
            missed.push(format!("{number} {} (best peer {best})", count.of));
        }
    }
    missed
}

fn beyond(
    what: &str,
    weir: &Figures,
    best: Option<f64>,
    figure: impl Fn(&Figures) -> f64,
    slack: f64,
) -> Option<String> {
    let (own, best) = (figure(weir), best?);
    // The kernel's clock may not have ticked once for a peer.
    let times = own / best.max(slack / 10.0);
    (own > best * BAR && own > best + slack).then(|| format!("{what} {times:.1} times a peer's"))
}

/// Requests that weir answers otherwise than a peer: the request, weir's answer, the peer's.
pub(super) fn differences(weir: &Figures, peer: &Figures) -> Vec<String> {
    let both = weir.answers.iter().filter_map(|(name, own)| Some((name, own, peer.answers.get(name)?)));
    both.filter(|(_, own, other)| class(own) != class(other))
        .map(|(name, own, other)| format!("{name}: {own} ({other})"))
        .collect()
}

/// Answers of a kind: 400 and a closed connection are both a refusal.
fn class(answer: &str) -> String {
    let refused = |word: &str| word.starts_with(['4', '5']) || matches!(word, "closed" | "reset" | "refused");
    answer.split(' ').map(|word| if refused(word) { "refused" } else { word }).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(cpu_seconds: f64, megabytes: u64) -> Figures {
        let peak_bytes = megabytes << 20;
        Figures { cpu_seconds, peak_bytes, probes: PROBES, alive: true, ..Figures::default() }
    }

    #[test]
    fn the_better_peer_counts_for_each_figure() {
        let check = |weir: Figures, expected: &[&str]| {
            let peers = [figures(1.0, 40), figures(0.5, 100)];
            assert_eq!(missed(&weir, &[&peers[0], &peers[1]], None), expected);
        };
        check(figures(0.7, 59), &[]);
        check(figures(1.0, 40), &["CPU 2.0 times a peer's"]);
        check(figures(0.5, 100), &["memory 2.5 times a peer's"]);
        check(Figures { probes: 9, ..figures(0.1, 10) }, &["probes 9 of 10"]);
        check(Figures { alive: false, ..figures(0.1, 10) }, &["does not answer afterwards"]);
        check(Figures { peak_descriptors: 200, ..figures(0.1, 10) }, &["descriptors 15.6 times a peer's"]);
        check(Figures { left_descriptors: 100, ..figures(0.1, 10) }, &["100 descriptors stay"]);
    }

    #[test]
    fn who_answers_more_requests_may_take_more_time() {
        let with = |cpu_seconds, answered| Figures { answered: Some(answered), ..figures(cpu_seconds, 10) };
        let peer = with(0.5, 5000);
        assert!(missed(&with(1.4, 10_000), &[&peer], None).is_empty());
        assert_eq!(missed(&with(1.6, 10_000), &[&peer], None), ["CPU for each request 1.6 times a peer's"]);
        assert_eq!(missed(&with(0.5, 2500), &[&peer], None), ["CPU for each request 2.0 times a peer's"]);
    }

    #[test]
    fn a_peer_that_lost_its_clients_is_no_measure() {
        let weir = figures(1.0, 100);
        let fallen = Figures { probes: 3, ..figures(0.01, 5) };
        assert!(missed(&weir, &[&fallen], None).is_empty());
        assert_eq!(missed(&weir, &[&figures(0.01, 5)], None).len(), 2);
    }

    #[test]
    fn small_differences_are_noise() {
        assert!(missed(&figures(0.1, 20), &[&figures(0.01, 13)], None).is_empty());
    }

    #[test]
    fn counts_are_held_against_the_best() {
        let with = |count| Figures { count: Some(count), ..figures(0.1, 10) };
        let rule = Some(Count { of: "lost", slack: 1 });
        assert!(missed(&with(3), &[&with(2)], rule).is_empty());
        assert_eq!(missed(&with(4), &[&with(2), &with(9)], rule), ["4 lost (best peer 2)"]);
        assert_eq!(missed(&with(2), &[], rule), ["2 lost (best peer 0)"]);
    }

    #[test]
    fn refusals_are_of_one_kind() {
        let with = |answer: &str| Figures {
            answers: BTreeMap::from([("a".to_owned(), answer.to_owned())]),
            ..Figures::default()
        };
        assert!(differences(&with("400"), &with("closed")).is_empty());
        assert_eq!(differences(&with("200"), &with("closed")), ["a: 200 (closed)"]);
    }
}
