//! The memory of a cache: responses by key, in parts that threads lock one at a time.
//!
//! Owns its bound: everything stored, and every body that is being collected, is taken out of one budget.  A hit
//! only reads: it marks what it found as used, and whoever needs room passes over what was used since it was there
//! last ("second chance").  What may be stored and found is decided by [`super::control`] and [`super::vary`].

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use weir_config::model;
use weir_http::{Fields, Response};

use super::vary::Variant;

/// Parts of a cache: a power of two, enough that threads rarely meet.
const PARTS: usize = 16;

/// What an entry costs beside its bytes: the structures that hold it.
const OVERHEAD_BYTES: usize = 512;

/// A stored response.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Box<[u8]>,
    /// Its head, without framing and age.
    pub(super) head: Response,
    pub(super) body: Arc<[u8]>,
    pub(super) variant: Variant,
    /// When it was stored, seconds since 1970.
    pub(super) stored_at_s: i64,
    /// Its age at that time, seconds.
    pub(super) age_s: u64,
    /// Milliseconds of the process's clock after which it is stale.
    pub(super) fresh_until_ms: u64,
    /// Bytes of the budget it takes.
    pub(super) cost: usize,
    /// Somebody got it since room was needed last.
    pub(super) used: AtomicBool,
}

impl Entry {
    /// An entry that costs what it needs.
    pub(super) fn new(key: &[u8], head: Response, body: Arc<[u8]>, variant: Variant) -> Self {
        let cost = cost(key, &head.fields, body.len());
        let (stored_at_s, age_s, fresh_until_ms) = (0, 0, 0);
        let used = AtomicBool::new(false);
        Self { key: key.into(), head, body, variant, stored_at_s, age_s, fresh_until_ms, cost, used }
    }

    pub(super) fn is_fresh(&self, now_ms: u64) -> bool {
        now_ms < self.fresh_until_ms
    }
}

/// Bytes that an entry takes out of the budget.
pub(super) fn cost(key: &[u8], fields: &Fields, body: usize) -> usize {
    key.len() + fields.wire_len() + body + OVERHEAD_BYTES
}

/// Responses of a part: by key, and in the order in which they may have to go.
#[derive(Debug, Default)]
struct Part {
    by_key: HashMap<Box<[u8]>, Vec<Arc<Entry>>>,
    order: VecDeque<Arc<Entry>>,
}

impl Part {
    /// Takes an entry out; false when it was not there any more.
    fn remove(&mut self, entry: &Arc<Entry>) -> bool {
        let Some(variants) = self.by_key.get_mut(&entry.key) else { return false };
        let before = variants.len();
        variants.retain(|other| !Arc::ptr_eq(other, entry));
        let removed = variants.len() < before;
        if variants.is_empty() {
            self.by_key.remove(&entry.key);
        }
        removed
    }
}

/// A cache.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) settings: model::Cache,
    parts: Box<[RwLock<Part>]>,
    /// Bytes taken out of the budget.
    taken: AtomicUsize,
    /// Part that has to make room next.
    turn: AtomicUsize,
}

impl Memory {
    pub(super) fn new(settings: &model::Cache) -> Self {
        Self {
            settings: settings.clone(),
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
            taken: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    fn budget(&self) -> usize {
        self.settings.total_max_size_mb << 20
    }

    fn part(&self, key: &[u8]) -> &RwLock<Part> {
        &self.parts[number(key) as usize % PARTS]
    }

    /// A fresh response for a request with these fields.
    pub(super) fn find(&self, key: &[u8], request: &Fields, now_ms: u64) -> Option<Arc<Entry>> {
        let part = read(self.part(key));
        let mut variants = part.by_key.get(key)?.iter().rev();
        let found = variants.find(|entry| entry.is_fresh(now_ms) && entry.variant.suits(request))?;
        if !found.used.load(Relaxed) {
            found.used.store(true, Relaxed);
        }
        Some(Arc::clone(found))
    }

    /// Takes bytes out of the budget, making room where it is needed; false when there is none to be had.
    pub(super) fn take(&self, bytes: usize) -> bool {
        loop {
            let fits = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.budget());
            if self.taken.fetch_update(Relaxed, Relaxed, fits).is_ok() {
                return true;
            }
            let first = self.turn.fetch_add(1, Relaxed);
            // Each round removes something, or there is nothing left to remove.
            if !(0..PARTS).any(|next| self.evict(first.wrapping_add(next) % PARTS)) {
                return false;
            }
        }
    }

    /// Gives bytes back.
    pub(super) fn give(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Relaxed);
    }

    /// Removes one response of a part: the first that nobody got since it was looked at last.
    fn evict(&self, part: usize) -> bool {
        let mut part = write(&self.parts[part]);
        for _ in 0..=part.order.len() {
            let Some(entry) = part.order.pop_front() else { return false };
            if entry.used.swap(false, Relaxed) {
                part.order.push_back(entry);
                continue;
            }
            // One that was replaced meanwhile has given its bytes back already.
            if part.remove(&entry) {
                self.give(entry.cost);
                return true;
            }
        }
        false
    }

    /// Stores a response whose cost was taken; it replaces the one that the same request would have got.
    pub(super) fn store(&self, entry: Entry, request: &Fields, now_ms: u64) {
        let mut part = write(self.part(&entry.key));
        let replaced: Vec<Arc<Entry>> = part.by_key.get(&entry.key).map_or_else(Vec::new, |variants| {
            let goes = |other: &&Arc<Entry>| {
                !other.is_fresh(now_ms) || other.variant == entry.variant || other.variant.suits(request)
            };
            variants.iter().filter(goes).cloned().collect()
        });
        for old in replaced {
            if part.remove(&old) {
                self.give(old.cost);
            }
            part.order.retain(|other| !Arc::ptr_eq(other, &old));
        }
        let variants = part.by_key.entry(entry.key.clone()).or_default();
        if variants.len() >= self.settings.max_secondary_entries {
            self.give(entry.cost);
            return;
        }
        let entry = Arc::new(entry);
        variants.push(Arc::clone(&entry));
        part.order.push_back(entry);
    }

    /// Forgets all responses under a key.
    pub(super) fn forget(&self, key: &[u8]) {
        let mut part = write(self.part(key));
        for old in part.by_key.remove(key).unwrap_or_default() {
            part.order.retain(|other| !Arc::ptr_eq(other, &old));
            self.give(old.cost);
        }
    }

    /// All responses, and the bytes that are free.
    pub(super) fn list(&self) -> (Vec<Arc<Entry>>, usize) {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(read(part).order.iter().cloned());
        }
        (all, self.budget().saturating_sub(self.taken.load(Relaxed)))
    }
}

/// A number for a key.
pub(super) fn number(key: &[u8]) -> u64 {
    xxhash_rust::xxh64::xxh64(key, 0)
}

fn read(part: &RwLock<Part>) -> RwLockReadGuard<'_, Part> {
    part.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(part: &RwLock<Part>) -> RwLockWriteGuard<'_, Part> {
    part.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(words: &str) -> Memory {
        let text = format!("cache c\n total-max-size 1\n{words}");
        let loaded = weir_config::load_str("t.cfg", &text).unwrap_or_else(|e| panic!("{}", e.render(false)));
        Memory::new(&loaded.config.caches["c"])
    }

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields
    }

    /// Stores a body of a size under a key; fresh until second 10.
    fn put(memory: &Memory, key: &str, size: usize, request: &Fields, response: &Fields) -> bool {
        let Some(variant) = Variant::of(request, response, true) else { return false };
        let head = Response { fields: response.clone(), ..Response::new(200, "OK") };
        let entry = Entry::new(key.as_bytes(), head, vec![0; size].into(), variant);
        let stored = memory.take(entry.cost);
        if stored {
            memory.store(Entry { fresh_until_ms: 10_000, ..entry }, request, 0);
        }
        stored
    }

    fn size(memory: &Memory, key: &str, request: &Fields, now_ms: u64) -> Option<usize> {
        memory.find(key.as_bytes(), request, now_ms).map(|entry| entry.body.len())
    }

    #[test]
    fn stored_found_replaced_stale_forgotten() {
        let (memory, none) = (memory(""), Fields::default());
        assert!(put(&memory, "a", 10, &none, &none));
        assert_eq!(size(&memory, "a", &none, 0), Some(10));
        assert!(put(&memory, "a", 11, &none, &none));
        assert_eq!((size(&memory, "a", &none, 9999), memory.list().0.len()), (Some(11), 1));
        assert_eq!((size(&memory, "a", &none, 10_000), size(&memory, "b", &none, 0)), (None, None));
        memory.forget(b"a");
        assert_eq!((size(&memory, "a", &none, 0), memory.taken.load(Relaxed)), (None, 0));
    }

    #[test]
    fn variants_stand_side_by_side() {
        let memory = memory(" process-vary on\n max-secondary-entries 2");
        let (vary, from) = (fields(&[("vary", "referer")]), |name| fields(&[("referer", name)]));
        for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
            assert!(put(&memory, "k", size, &from(name), &vary));
        }
        let found = ["a", "b", "c"].map(|name| size(&memory, "k", &from(name), 0));
        assert_eq!(found, [Some(1), Some(2), None], "the third is one too many");
        assert!(put(&memory, "k", 7, &from("a"), &vary));
        assert_eq!(size(&memory, "k", &from("a"), 0), Some(7));
    }

    #[test]
    fn the_budget_holds_and_what_is_used_stays() {
        let (memory, none) = (memory(""), Fields::default());
        assert!(put(&memory, "wanted", 1000, &none, &none));
        for number in 0..3000 {
            assert!(put(&memory, &number.to_string(), 4000, &none, &none));
            assert!(memory.taken.load(Relaxed) <= 1 << 20);
            assert_eq!(size(&memory, "wanted", &none, 0), Some(1000), "{number}");
        }
        let (all, free) = memory.list();
        assert_eq!(all.iter().map(|entry| entry.cost).sum::<usize>() + free, 1 << 20);
        assert!(all.len() > 200, "{}", all.len());
        assert!(!memory.take(2 << 20));
        assert_eq!((memory.list().0.len(), memory.taken.load(Relaxed)), (0, 0));
    }
}
