//! Which threads there are and on which CPUs each may run: `cpu-map`, or `cpu-set`, `cpu-policy` and `cpu-affinity`.
//!
//! Deciding is a pure function of what the kernel tells about the machine. Threads have no groups here; a policy's
//! groups are the CPUs that its threads share.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use weir_config::model::{CpuAffinity, CpuKind, CpuPolicy, Cpus, Global};

/// Where Linux describes CPUs.
const SYSTEM: &str = "/sys/devices/system";

/// What of the speed of the fastest CPUs is left to those that are not used (`performance`), percent.
const SLOW_PERCENT: u64 = 80;

/// Speed above that of the slower CPUs from which they are not used (`efficiency`), percent.
const FAST_PERCENT: u64 = 125;

/// Where another keyword about CPUs is used.
const DEFAULT_POLICY: CpuPolicy = CpuPolicy::Performance;

/// A hardware thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cpu {
    number: usize,
    node: usize,
    /// The CPUs with a last-level cache in common.
    ccx: usize,
    cluster: usize,
    core: usize,
    /// Number within its core.
    thread: usize,
    /// Relative to that of other CPUs.
    speed: u64,
}

/// The CPUs of each thread; none where the kernel decides.
pub(crate) fn plan(global: &Global) -> Vec<Vec<usize>> {
    let most = global.thread_hard_limit.unwrap_or(usize::MAX).max(1);
    let decided = !global.cpu_map.is_empty() || global.cpus == Cpus::default();
    let mut threads = if decided {
        let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut map = global.cpu_map.clone();
        map.resize(global.nbthread.unwrap_or(available), Vec::new());
        map
    } else {
        let all = machine(Path::new(SYSTEM));
        let allowed = |cpu: &Cpu| global.cpus.reset || is_allowed(cpu.number);
        let usable: Vec<Cpu> = all.into_iter().filter(allowed).collect();
        place(&select(&usable, &global.cpus, global.nbthread), &global.cpus, global.nbthread)
    };
    threads.truncate(most);
    threads
}

/// The CPUs that may be used, in the order in which threads are placed on them.
fn select(usable: &[Cpu], cpus: &Cpus, nbthread: Option<usize>) -> Vec<Cpu> {
    let number = |cpu: &Cpu, kind| match kind {
        CpuKind::Cpu => cpu.number,
        CpuKind::Node => cpu.node,
        CpuKind::Cluster => cpu.cluster,
        CpuKind::Core => cpu.core,
        CpuKind::Thread => cpu.thread,
    };
    let keeps =
        |cpu: &Cpu| cpus.sets.iter().all(|set| set.numbers.contains(&number(cpu, set.kind)) == set.only);
    let mut chosen: Vec<Cpu> = usable.iter().filter(|cpu| keeps(cpu)).copied().collect();
    chosen.sort_by_key(|cpu| (cpu.node, cpu.ccx, cpu.cluster, cpu.core, cpu.thread, cpu.number));
    let mut speeds: BTreeMap<usize, u64> = BTreeMap::new();
    for cpu in &chosen {
        let fastest = speeds.entry(cpu.cluster).or_default();
        *fastest = cpu.speed.max(*fastest);
    }
    let mut steps: Vec<u64> = speeds.values().copied().collect::<BTreeSet<_>>().into_iter().collect();
    match cpus.policy.unwrap_or(DEFAULT_POLICY) {
        CpuPolicy::None | CpuPolicy::GroupByCcx(_) | CpuPolicy::GroupByCluster(_) => {}
        CpuPolicy::FirstUsableNode => {
            if nbthread.is_none()
                && let Some(first) = chosen.first().map(|cpu| cpu.node)
            {
                chosen.retain(|cpu| cpu.node == first);
            }
        }
        CpuPolicy::Performance => {
            steps.reverse();
            keep_until(&mut steps, |faster, slower| slower * 100 < faster * SLOW_PERCENT);
            chosen.retain(|cpu| steps.contains(&speeds[&cpu.cluster]));
        }
        CpuPolicy::Efficiency => {
            keep_until(&mut steps, |slower, faster| faster * 100 > slower * FAST_PERCENT);
            chosen.retain(|cpu| steps.contains(&speeds[&cpu.cluster]));
        }
        CpuPolicy::Resource => {
            let size = |cluster: usize| chosen.iter().filter(|cpu| cpu.cluster == cluster).count();
            let least = speeds.iter().min_by_key(|(cluster, speed)| (**speed, size(**cluster)));
            if let Some(least) = least.map(|(cluster, _)| *cluster) {
                chosen.retain(|cpu| cpu.cluster == least);
            }
        }
    }
    chosen
}

/// Cuts the list where a neighbour is too different from the one before.
fn keep_until(steps: &mut Vec<u64>, differs: impl Fn(u64, u64) -> bool) {
    let end = steps.windows(2).position(|pair| differs(pair[0], pair[1]));
    steps.truncate(end.map_or(steps.len(), |at| at + 1));
}

/// Places threads on CPUs: as many as asked for, or one a CPU, or one a core.
fn place(chosen: &[Cpu], cpus: &Cpus, nbthread: Option<usize>) -> Vec<Vec<usize>> {
    let mut cores = BTreeSet::new();
    let seats: Vec<&Cpu> =
        chosen.iter().filter(|cpu| !cpus.one_thread_per_core || cores.insert(cpu.core)).collect();
    let affinity = match cpus.affinity {
        CpuAffinity::Auto if cpus.one_thread_per_core => CpuAffinity::PerCore,
        CpuAffinity::Auto => CpuAffinity::PerGroup,
        given => given,
    };
    // Groups of several are made of those that follow each other.
    let rank = |of: fn(&Cpu) -> usize| -> BTreeMap<usize, usize> {
        let mut ranks = BTreeMap::new();
        for cpu in chosen {
            let next = ranks.len();
            ranks.entry(of(cpu)).or_insert(next);
        }
        ranks
    };
    let (ccx, clusters) = (rank(|cpu| cpu.ccx), rank(|cpu| cpu.cluster));
    let group = |cpu: &Cpu| match cpus.policy.unwrap_or(DEFAULT_POLICY) {
        CpuPolicy::None | CpuPolicy::FirstUsableNode => 0,
        CpuPolicy::GroupByCluster(size) => clusters[&cpu.cluster] / size.max(1),
        CpuPolicy::Resource => clusters[&cpu.cluster],
        CpuPolicy::GroupByCcx(size) => ccx[&cpu.ccx] / size.max(1),
        CpuPolicy::Performance | CpuPolicy::Efficiency => ccx[&cpu.ccx],
    };
    let together = |a: &Cpu, b: &Cpu| match affinity {
        CpuAffinity::PerThread => a.number == b.number,
        CpuAffinity::PerCore => a.core == b.core,
        CpuAffinity::PerCcx => a.ccx == b.ccx,
        CpuAffinity::PerGroup | CpuAffinity::Auto => group(a) == group(b),
    };
    let of_seat = |seat: &Cpu| -> Vec<usize> {
        let mut set: Vec<usize> =
            chosen.iter().filter(|cpu| together(seat, cpu)).map(|cpu| cpu.number).collect();
        set.sort_unstable();
        set
    };
    let threads = nbthread.unwrap_or(seats.len()).max(1);
    // More threads than CPUs share them; without any CPU the kernel decides.
    (0..threads)
        .map(|at| seats.get(at % seats.len().max(1)).map_or_else(Vec::new, |seat| of_seat(seat)))
        .collect()
}

/// Whether the process may run on a CPU.
fn is_allowed(cpu: usize) -> bool {
    let set = rustix::thread::sched_getaffinity(None);
    cpu < rustix::thread::CpuSet::MAX_CPU && set.is_ok_and(|set| set.is_set(cpu))
}

/// The CPUs that are online, as the kernel describes them below a folder.
fn machine(system: &Path) -> Vec<Cpu> {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let number = |path: &Path| text(path).trim().parse::<usize>().ok();
    let nodes: Vec<(usize, BTreeSet<usize>)> = (0..)
        .map(|node| system.join(format!("node/node{node}/cpulist")))
        .take_while(|path| path.exists())
        .map(|path| numbers(&text(&path)))
        .enumerate()
        .collect();
    let online = numbers(&text(&system.join("cpu/online")));
    let mut found: Vec<Cpu> = Vec::new();
    for cpu in online {
        let folder = system.join(format!("cpu/cpu{cpu}"));
        let siblings = |name: &str| numbers(&text(&folder.join(name)));
        // What CPUs have in common is named by the first of them.
        let first = |name: &str, otherwise: usize| siblings(name).first().copied().unwrap_or(otherwise);
        let core = first("topology/thread_siblings_list", cpu);
        let package = first("topology/package_cpus_list", 0);
        let ccx = first("cache/index3/shared_cpu_list", package);
        let speed = number(&folder.join("cpu_capacity"))
            .or_else(|| number(&folder.join("acpi_cppc/highest_perf")))
            .or_else(|| number(&folder.join("cpufreq/cpuinfo_max_freq")))
            .unwrap_or(1);
        let thread = siblings("topology/thread_siblings_list").iter().position(|other| *other == cpu);
        found.push(Cpu {
            number: cpu,
            node: nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(node, _)| *node),
            ccx,
            cluster: first("topology/cluster_cpus_list", ccx),
            core,
            thread: thread.unwrap_or(0),
            speed: speed as u64,
        });
    }
    count_from_zero(&mut found, |cpu| &mut cpu.ccx);
    count_from_zero(&mut found, |cpu| &mut cpu.core);
    // A cluster of one core says nothing.
    let cores: BTreeSet<usize> = found.iter().map(|cpu| cpu.core).collect();
    count_from_zero(&mut found, |cpu| &mut cpu.cluster);
    let clusters: BTreeSet<usize> = found.iter().map(|cpu| cpu.cluster).collect();
    if clusters.len() >= cores.len() {
        found.iter_mut().for_each(|cpu| cpu.cluster = cpu.ccx);
    }
    found
}

/// Numbers what was named by CPUs.
fn count_from_zero(cpus: &mut [Cpu], field: fn(&mut Cpu) -> &mut usize) {
    let names: BTreeSet<usize> = cpus.iter_mut().map(|cpu| *field(cpu)).collect();
    for cpu in cpus {
        let name = *field(cpu);
        *field(cpu) = names.iter().position(|other| *other == name).unwrap_or(0);
    }
}

/// A list as the kernel writes it: `0-3,8`.
fn numbers(text: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse().ok()?..=high.parse::<usize>().ok()?.min(rustix::thread::CpuSet::MAX_CPU))
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use weir_config::model::CpuNumbers;

    use super::*;

    /// Two nodes of two caches of two cores of two threads; the second cache of each has slow cores.
    fn example() -> Vec<Cpu> {
        (0..16)
            .map(|number| Cpu {
                number,
                node: number / 8,
                ccx: number / 4,
                cluster: number / 4,
                core: number / 2,
                thread: number % 2,
                speed: if number / 4 % 2 == 0 { 100 } else { 60 },
            })
            .collect()
    }

    #[test]
    fn policies_and_affinities() {
        let check = |words: &str, nbthread: Option<usize>, expected: &str| {
            let text = format!("global\n {}\n", words.replace(';', "\n "));
            let loaded = weir_config::load_str("t", &text).unwrap_or_else(|e| panic!("{}", e.render(false)));
            let cpus = loaded.config.global.cpus;
            let threads = place(&select(&example(), &cpus, nbthread), &cpus, nbthread);
            let show = |set: &Vec<usize>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let found = threads.iter().map(show).collect::<Vec<_>>().join(" ");
            assert_eq!(found, expected, "{words} {nbthread:?}");
        };
        let slow = "0,1,2,3 0,1,2,3 0,1,2,3 0,1,2,3";
        check("cpu-policy performance;cpu-set only-node 0", None, slow);
        check("cpu-policy resource;cpu-set only-cluster 0", None, slow);
        check("cpu-policy efficiency;cpu-set only-node 0", None, &slow.replace("0,1,2,3", "4,5,6,7"));
        check("cpu-policy first-usable-node;cpu-affinity per-core;cpu-set only-thread 0", None, "0 2 4 6");
        check("cpu-policy first-usable-node threads-per-core 1", None, "0,1 2,3 4,5 6,7");
        check("cpu-policy none;cpu-set only-cpu 3-5", Some(2), "3,4,5 3,4,5");
        check("cpu-policy none;cpu-set drop-cpu 2-15;cpu-affinity per-thread", Some(3), "0 1 0");
        check("cpu-policy group-by-2-ccx;cpu-set only-thread 1", Some(1), "1,3,5,7");
        check("cpu-policy group-by-cluster;cpu-set drop-core 1-7", None, "0,1 0,1");
        check("cpu-set only-node 7", None, "");
    }

    #[test]
    fn this_machine_has_cpus() {
        let cpus = machine(Path::new(SYSTEM));
        assert!(!cpus.is_empty());
        let none = Cpus { sets: Vec::<CpuNumbers>::new(), ..Cpus::default() };
        assert_eq!(place(&select(&cpus, &none, None), &none, None).len(), cpus.len());
        assert_eq!(numbers("0-2,5\n").into_iter().collect::<Vec<_>>(), [0, 1, 2, 5]);
    }
}
