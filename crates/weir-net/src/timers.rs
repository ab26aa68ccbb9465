//! Deadlines for tens of thousands of connections on one thread.
//!
//! Owns the clock and a heap of deadlines. A deadline that moves to later, as it does with every
//! request, is a plain store: its heap entry stays where it is and is put back when it comes up too early.
//! What a deadline means is left to the caller.
//!
//! Each thread runs [`drive`] once; a deadline belongs to the thread that made it.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Bits of a heap entry that hold the slot's number.
const SLOT_BITS: u32 = 24;

/// Deadlines one thread can hold; far more than it has memory for connections.
const MAX_SLOTS: usize = 1 << SLOT_BITS;

/// The last millisecond a heap entry can hold: 34 years of uptime.
const MAX_MS: u64 = u64::MAX >> SLOT_BITS;

/// A deadline that is not set.
const UNSET: u64 = u64::MAX;

/// A deadline that has passed.
const EXPIRED: u64 = 0;

/// Deadlines at least this far away may be late by up to `COARSE_STEP_MS`, so that many of them share one
/// wake-up of the thread.
const COARSE_FROM_MS: u64 = 1000;

/// The grid of far deadlines, a power of two.
const COARSE_STEP_MS: u64 = 32;

/// Entries beyond four a deadline are swept out once there are this many.
const SWEEP_FROM_ENTRIES: usize = 1024;

/// A reading of the clock, in both units: it is asked for far more often than it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    us: u64,
    ms: u64,
}

thread_local! {
    /// What the clock says while it is held; 0 while it is not.
    static HELD: Cell<Reading> = const { Cell::new(Reading { us: 0, ms: 0 }) };
    static TIMERS: RefCell<Timers> = const { RefCell::new(Timers::new()) };
}

/// Milliseconds of a clock that only goes forward.
///
/// Reading it costs some 25 ns and no system call; next to nothing under [`ClockHeld`].
pub fn now_ms() -> u64 {
    now().ms
}

/// Microseconds of the same clock.
pub fn now_us() -> u64 {
    now().us
}

/// Processor time that the calling thread has used, in nanoseconds. A system call: not for each request.
pub fn thread_cpu_ns() -> u64 {
    let (seconds, ns) = read(ClockId::ThreadCPUTime);
    seconds * 1_000_000_000 + ns
}

/// A future during each poll of which the clock of [`now_ms`] stands still: a request asks for the time
/// twenty times, and a poll takes microseconds. A stage of a request that waits ends when its task is polled, so
/// this one reading is the time at which it ended.
pub struct ClockHeld<F>(pub F);

impl<F: Future + Unpin> Future for ClockHeld<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _hold = ClockHold::new();
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Holds the clock until dropped; within another hold, as that one does.
struct ClockHold {
    before: Reading,
}

impl ClockHold {
    fn new() -> Self {
        Self { before: HELD.replace(now()) }
    }
}

impl Drop for ClockHold {
    fn drop(&mut self) {
        HELD.set(self.before);
    }
}

fn now() -> Reading {
    match HELD.get() {
        Reading { us: 0, .. } => current(),
        held => held,
    }
}

/// What the clock says now, held or not.
fn current() -> Reading {
    let (seconds, ns) = read(ClockId::Monotonic);
    Reading { us: seconds * 1_000_000 + ns / 1000, ms: seconds * 1000 + ns / 1_000_000 }
}

/// Seconds and nanoseconds.
fn read(clock: ClockId) -> (u64, u64) {
    let now = clock_gettime(clock);
    (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// A point in time that a task can wait for, and that moves with a plain store.
pub struct Deadline {
    slot: u32,
    this_thread_only: PhantomData<*const ()>,
}

impl Deadline {
    /// A deadline that is not set yet.
    pub fn new() -> Self {
        Self { slot: TIMERS.with_borrow_mut(Timers::insert), this_thread_only: PhantomData }
    }

    /// Moves the deadline to `at_ms` on the clock of [`now_ms`].
    pub fn set(&self, at_ms: u64) {
        let wake = TIMERS.with_borrow_mut(|timers| timers.set(self.slot, at_ms, now_ms));
        if let Some(driver) = wake {
            driver.wake();
        }
    }

    /// Moves the deadline to `delay` from now.
    pub fn set_after(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(MAX_MS);
        // Near deadlines must not come early by what the held clock is behind, or by the rest of a millisecond.
        let at_ms = if delay_ms < COARSE_FROM_MS {
            current().ms + delay_ms + 1
        } else {
            now_ms().saturating_add(delay_ms)
        };
        self.set(at_ms);
    }

    /// Moves the deadline to `delay` from now, or takes it away where there is none.
    pub fn arm(&self, delay: Option<Duration>) {
        match delay {
            Some(delay) => self.set_after(delay),
            None => self.clear(),
        }
    }

    /// Takes the deadline away: nothing will expire.
    pub fn clear(&self) {
        self.set(UNSET);
    }

    /// Whether it has passed.
    #[cfg(test)]
    fn is_expired(&self) -> bool {
        TIMERS.with_borrow(|timers| timers.deadline(self.slot) == EXPIRED)
    }

    /// Ready once the deadline has passed; an unset deadline is never ready.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        TIMERS.with_borrow_mut(|timers| timers.poll(self.slot, cx.waker()))
    }

    /// Waits until the deadline has passed.
    pub async fn expired(&mut self) {
        std::future::poll_fn(|cx| self.poll_expired(cx)).await;
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // At the thread's end the table may be gone already, and then there is nothing left to free.
        TIMERS.try_with(|timers| timers.borrow_mut().remove(self.slot)).ok();
    }
}

/// Wakes the tasks of this thread whose deadlines pass, for ever. To be spawned once on each thread.
pub async fn drive() {
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    let mut sleeping_until = 0;
    std::future::poll_fn(|cx| {
        loop {
            let now = current().ms;
            let (due, next) = TIMERS.with_borrow_mut(|timers| {
                let due = timers.fire(now);
                timers.driver = Some(cx.waker().clone());
                (due, timers.next_ms())
            });
            // Woken outside of the borrow: a waker may run code that sets a deadline.
            due.into_iter().for_each(Waker::wake);
            let Some(next) = next else { return Poll::<()>::Pending };
            if next != sleeping_until {
                sleeping_until = next;
                sleep.as_mut().reset(Instant::now() + Duration::from_millis(next.saturating_sub(now)));
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            sleeping_until = 0;
        }
    })
    .await;
}

/// The deadlines of one thread.
struct Timers {
    slots: Vec<Slot>,
    /// Numbers of slots that can be used again.
    free: Vec<u32>,
    /// `at_ms << SLOT_BITS | slot`, earliest first; entries whose slot is queued for another time are void.
    heap: BinaryHeap<Reverse<u64>>,
    driver: Option<Waker>,
}

struct Slot {
    deadline_ms: u64,
    /// When the valid heap entry comes up; `UNSET` without one.
    queued_ms: u64,
    waker: Option<Waker>,
}

impl Slot {
    const UNUSED: Self = Self { deadline_ms: UNSET, queued_ms: UNSET, waker: None };
}

impl Timers {
    const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), heap: BinaryHeap::new(), driver: None }
    }

    /// A slot number; `MAX_SLOTS` and above are no slots, and count as expired.
    fn insert(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        let number = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if self.slots.len() < MAX_SLOTS {
            self.slots.push(Slot::UNUSED);
        }
        number
    }

    fn remove(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            *slot = Slot::UNUSED;
            self.free.push(number);
        }
        self.sweep();
    }

    #[cfg(test)]
    fn deadline(&self, number: u32) -> u64 {
        self.slots.get(number as usize).map_or(EXPIRED, |slot| slot.deadline_ms)
    }

    /// Moves a deadline; returns the driver when it has to look earlier than it intends to.
    fn set(&mut self, number: u32, at_ms: u64, now_ms: impl FnOnce() -> u64) -> Option<Waker> {
        let slot = self.slots.get_mut(number as usize)?;
        // EXPIRED is for the driver to set: a deadline in the past is one it finds at once.
        let at_ms = if at_ms == UNSET { UNSET } else { at_ms.clamp(EXPIRED + 1, MAX_MS - COARSE_STEP_MS) };
        slot.deadline_ms = at_ms;
        if at_ms >= slot.queued_ms || at_ms == UNSET {
            return None;
        }
        let queued_ms = if at_ms.saturating_sub(now_ms()) >= COARSE_FROM_MS { on_grid(at_ms) } else { at_ms };
        if queued_ms >= slot.queued_ms {
            return None;
        }
        slot.queued_ms = queued_ms;
        let earlier = self.next_ms().is_none_or(|next| queued_ms < next);
        self.heap.push(entry(queued_ms, number));
        self.sweep();
        if earlier { self.driver.take() } else { None }
    }

    fn poll(&mut self, number: u32, waker: &Waker) -> Poll<()> {
        let Some(slot) = self.slots.get_mut(number as usize) else { return Poll::Ready(()) };
        if slot.deadline_ms == EXPIRED {
            return Poll::Ready(());
        }
        match &mut slot.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Marks what has passed as expired, puts back what moved, and returns whom to wake.
    fn fire(&mut self, now_ms: u64) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(&Reverse(earliest)) = self.heap.peek() {
            let (at_ms, number) = (earliest >> SLOT_BITS, earliest & (MAX_SLOTS as u64 - 1));
            if at_ms > now_ms {
                break;
            }
            self.heap.pop();
            let Some(slot) = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number))
            else {
                continue;
            };
            if slot.queued_ms != at_ms {
                continue;
            }
            slot.queued_ms = UNSET;
            if slot.deadline_ms <= now_ms {
                slot.deadline_ms = EXPIRED;
                due.extend(slot.waker.take());
            } else if slot.deadline_ms != UNSET {
                let far = slot.deadline_ms - now_ms >= COARSE_FROM_MS;
                let at_ms = if far { on_grid(slot.deadline_ms) } else { slot.deadline_ms };
                slot.queued_ms = at_ms;
                self.heap.push(entry(at_ms, u32::try_from(number).unwrap_or(u32::MAX)));
            }
        }
        due
    }

    fn next_ms(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(earliest)| earliest >> SLOT_BITS)
    }

    /// Keeps void entries from piling up where deadlines mostly move to earlier or connections are short.
    fn sweep(&mut self) {
        let used = self.slots.len() - self.free.len();
        if self.heap.len() < SWEEP_FROM_ENTRIES || self.heap.len() / 4 < used {
            return;
        }
        let slots = &self.slots;
        self.heap.retain(|Reverse(entry)| {
            let number = usize::try_from(entry & (MAX_SLOTS as u64 - 1)).unwrap_or(usize::MAX);
            slots.get(number).is_some_and(|slot| slot.queued_ms == entry >> SLOT_BITS)
        });
        self.heap.shrink_to(SWEEP_FROM_ENTRIES);
    }
}

fn entry(at_ms: u64, slot: u32) -> Reverse<u64> {
    Reverse(at_ms << SLOT_BITS | u64::from(slot))
}

fn on_grid(at_ms: u64) -> u64 {
    at_ms.next_multiple_of(COARSE_STEP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fired(timers: &mut Timers, now_ms: u64) -> usize {
        timers.fire(now_ms).len()
    }

    #[test]
    fn the_clock_stands_still_during_a_poll_only() {
        let far = Reading { us: 1_234_567_890_123, ms: 1_234_567_890 };
        let mut inner = std::pin::pin!(ClockHeld(std::future::poll_fn(|_| Poll::Ready(now()))));
        let none = HELD.replace(far);
        assert_eq!(inner.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(far));
        assert_eq!((now_us(), now_ms()), (far.us, far.ms));
        HELD.set(none);
        let mut outer = std::pin::pin!(ClockHeld(std::future::poll_fn(|_| Poll::Ready(HELD.get()))));
        let Poll::Ready(held) = outer.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("ready")
        };
        assert!(held.us > 0 && held.us / 1000 == held.ms && HELD.get() == none);
    }

    #[test]
    fn the_clock_does_not_go_in_steps_of_the_kernels_ticks() {
        // Read again and again, it moves on by less than a tick, which is a millisecond at the least.
        let mut before_us = now_us();
        let mut moved_us = || {
            let now_us = now_us();
            now_us - std::mem::replace(&mut before_us, now_us)
        };
        assert!((0..100_000).any(|_| (1..1000).contains(&moved_us())));
    }

    #[test]
    fn a_deadline_moves_to_later_without_touching_the_heap() {
        let mut timers = Timers::new();
        let slot = timers.insert();
        let waker = Waker::from(Arc::new(Count::default()));
        timers.set(slot, 500, || 0);
        assert!(timers.poll(slot, &waker).is_pending());
        for at_ms in 501..900 {
            timers.set(slot, at_ms, || 0);
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.next_ms(), Some(500));
        assert_eq!(fired(&mut timers, 600), 0, "came up early and was put back");
        assert_eq!(timers.next_ms(), Some(899));
        assert_eq!(fired(&mut timers, 898), 0);
        assert_eq!(fired(&mut timers, 899), 1);
        assert!(timers.poll(slot, &waker).is_ready());
        assert!(timers.heap.is_empty());
        timers.set(slot, 2000, || 1900);
        assert!(timers.poll(slot, &waker).is_pending(), "can be set again");
    }

    #[test]
    fn what_is_earlier_wins_and_what_is_cleared_never_fires() {
        let check = |steps: &[u64], at_ms: u64, expected: usize| {
            let mut timers = Timers::new();
            let slot = timers.insert();
            timers.poll(slot, Waker::noop()).is_pending();
            for at_ms in steps {
                timers.set(slot, *at_ms, || 0);
            }
            assert_eq!(fired(&mut timers, at_ms), expected, "{steps:?} at {at_ms}");
        };
        check(&[800, 10], 9, 0);
        check(&[800, 10], 10, 1);
        check(&[800, 10, 700], 20, 0);
        check(&[800, 10, 700], 700, 1);
        check(&[10, UNSET], 20, 0);
        check(&[10, UNSET, 15], 15, 1);
        check(&[0], 1, 1);
        check(&[5000], 5007, 0);
        check(&[5000], 5024, 1);
        check(&[u64::MAX - 1], MAX_MS / 2, 0);
    }

    #[test]
    fn only_an_earlier_deadline_wakes_the_driver() {
        let check = |first: u64, second: u64, expected: bool| {
            let mut timers = Timers::new();
            let (one, other) = (timers.insert(), timers.insert());
            timers.set(one, first, || 0);
            timers.driver = Some(Waker::noop().clone());
            assert_eq!(timers.set(other, second, || 0).is_some(), expected, "{first} then {second}");
        };
        check(100, 50, true);
        check(100, 100, false);
        check(100, 200, false);
    }

    #[test]
    fn void_entries_are_bounded() {
        let mut timers = Timers::new();
        for round in 0..100_000_u64 {
            let slot = timers.insert();
            timers.set(slot, 60_000 + round, || 0);
            timers.remove(slot);
            assert!(timers.heap.len() <= SWEEP_FROM_ENTRIES);
        }
        assert_eq!(timers.slots.len(), 1);
        let slot = timers.insert();
        for at_ms in (1..100_000).rev() {
            timers.set(slot, at_ms, || 0);
            assert!(timers.heap.len() <= SWEEP_FROM_ENTRIES);
        }
        assert_eq!(fired(&mut timers, 1), 0, "nobody waits");
        assert_eq!(timers.deadline(slot), EXPIRED);
    }

    #[test]
    fn an_idle_deadline_is_small() {
        let bytes = size_of::<Slot>() + size_of::<Reverse<u64>>() + size_of::<Deadline>();
        assert!(bytes <= 48, "{bytes}");
    }

    #[test]
    fn tasks_are_woken_by_the_driver() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let driver = tokio::task::spawn_local(drive());
            let (mut near, mut nearer, mut far) = (Deadline::new(), Deadline::new(), Deadline::new());
            near.set_after(Duration::from_millis(20));
            far.set_after(Duration::from_secs(3600));
            tokio::task::yield_now().await;
            nearer.set_after(Duration::from_millis(5));
            nearer.expired().await;
            assert!(!near.is_expired());
            near.expired().await;
            assert!(!far.is_expired());
            far.set(1);
            far.expired().await;
            driver.abort();
        });
    }

    /// Sets, waits for and drops deadlines; returns which fired at which time.
    fn fires(timers: &mut Timers, wanted: &[u64], dropped: &[bool]) -> Vec<(u64, usize)> {
        let slots: Vec<u32> = wanted.iter().map(|_| timers.insert()).collect();
        for ((slot, at_ms), dropped) in slots.iter().zip(wanted).zip(dropped.iter().cycle()) {
            timers.set(*slot, *at_ms, || 0);
            timers.poll(*slot, Waker::noop()).is_pending();
            if *dropped {
                timers.set(*slot, UNSET, || 0);
            }
        }
        let found = (1..60).map(|at_ms| (at_ms, fired(timers, at_ms))).collect();
        slots.into_iter().for_each(|slot| timers.remove(slot));
        found
    }

    proptest! {
        #[test]
        fn a_deadline_in_the_place_of_another_is_its_own(
            before in prop::collection::vec(1..100_u64, 0..9),
            after in prop::collection::vec(1..100_u64, 0..9),
            dropped in prop::collection::vec(any::<bool>(), 1..5),
        ) {
            let mut used = Timers::new();
            fires(&mut used, &before, &dropped);
            let fresh = fires(&mut Timers::new(), &after, &dropped);
            prop_assert_eq!(fires(&mut used, &after, &dropped), fresh);
        }
    }
}
