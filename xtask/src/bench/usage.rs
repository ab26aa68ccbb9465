//! What the kernel says a process and its descendants have used.

use std::fs;
use std::time::Duration;

/// CPU time, split as the kernel splits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl CpuTime {
    /// What was used after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }
}

/// CPU time of a process, its ended children and its living descendants.
pub(crate) fn cpu_time(process: u32) -> CpuTime {
    let mut sum = CpuTime::default();
    for process in tree(process) {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let used = read_stat(&stat, rustix::param::clock_ticks_per_second());
        sum.user += used.user;
        sum.system += used.system;
    }
    sum
}

/// Resident memory of a process and its living descendants, in bytes.
pub(crate) fn resident_bytes(process: u32) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    tree(process)
        .into_iter()
        .filter_map(|process| fs::read_to_string(format!("/proc/{process}/statm")).ok())
        .filter_map(|statm| statm.split_whitespace().nth(1)?.parse::<u64>().ok())
        .map(|pages| pages * page_bytes)
        .sum()
}

/// How many files and sockets a process and its descendants hold.
pub(crate) fn open_files(process: u32) -> usize {
    tree(process)
        .into_iter()
        .filter_map(|process| fs::read_dir(format!("/proc/{process}/fd")).ok())
        .map(Iterator::count)
        .sum()
}

/// The most memory a process and its living descendants had resident since [`forget_peak`], in bytes.
pub(crate) fn peak_bytes(process: u32) -> u64 {
    tree(process)
        .into_iter()
        .filter_map(|process| fs::read_to_string(format!("/proc/{process}/status")).ok())
        .filter_map(|status| read_peak(&status))
        .sum()
}

/// Sets the peak of resident memory to what is resident now (proc_pid_clear_refs(5)).
pub(crate) fn forget_peak(process: u32) {
    for process in tree(process) {
        // Where it is not permitted the peak since the start counts.
        drop(fs::write(format!("/proc/{process}/clear_refs"), "5"));
    }
}

fn read_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Whether a process has no living children.
pub(crate) fn is_alone(process: u32) -> bool {
    tree(process).len() == 1
}

fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

/// Reads `utime`, `stime`, `cutime` and `cstime`, fields 14 to 17 of proc_pid_stat(5).
fn read_stat(stat: &str, ticks_per_second: u64) -> CpuTime {
    // The program's name stands in parentheses and may hold spaces: count from its end, field 3.
    let Some((_, fields)) = stat.rsplit_once(')') else { return CpuTime::default() };
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    let &[user, system, children_user, children_system] = ticks.as_slice() else {
        return CpuTime::default();
    };
    let time = |ticks: u64| Duration::from_secs(1) * ticks as u32 / ticks_per_second as u32;
    CpuTime { user: time(user + children_user), system: time(system + children_system) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_does_not_shift_the_fields() {
        let stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20 0 1";
        let read = read_stat(stat, 100);
        assert_eq!(read.user, Duration::from_millis(1570));
        assert_eq!(read.system, Duration::from_millis(530));
        assert_eq!(read_stat("", 100), CpuTime::default());
    }

    #[test]
    fn the_peak_is_read() {
        assert_eq!(read_peak("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2048 * 1024));
        assert!(peak_bytes(std::process::id()) > 0);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident_bytes(std::process::id()) > 0);
        assert!(open_files(std::process::id()) >= 3);
    }
}
