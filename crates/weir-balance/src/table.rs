//! Stick tables: what is known about a key, until it expires.
//!
//! A plain data structure: one thread's, or one shard's behind a lock ([`Key::shard`]).  All entries live
//! equally long after they were last touched, so the list by last touch is the list by expiry, and creating,
//! touching and evicting cost the same in any table.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::rate::RateCounter;

/// Most elements of an array data type (`gpc`, `gpt`, `gpc_rate`).
pub const MAX_ARRAY: usize = 100;

/// Most expired entries that one insertion removes on its way.
const PURGE_AT_ONCE: usize = 4;

/// What keys are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// `ip`, `ipv4`
    Ipv4,
    /// `ipv6`
    Ipv6,
    /// `integer`
    Integer,
    /// `string len <len>`
    String {
        /// Longer ones are cut.
        len: usize,
    },
    /// `binary len <len>`
    Binary {
        /// Longer ones are cut, shorter ones padded with zeros.
        len: usize,
    },
}

/// A key, as a table of its type compares it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(SmallVec<[u8; 24]>);

impl Key {
    /// A key of a type from bytes: an address in network order, an integer in big-endian order, text, bytes.
    /// `None` when an address or an integer has the wrong length.
    #[must_use]
    pub fn new(kind: KeyType, bytes: &[u8]) -> Option<Self> {
        let exactly = |len: usize| (bytes.len() == len).then(|| Self(SmallVec::from_slice(bytes)));
        match kind {
            KeyType::Ipv4 | KeyType::Integer => exactly(4),
            KeyType::Ipv6 => exactly(16),
            KeyType::String { len } => Some(Self(SmallVec::from_slice(&bytes[..bytes.len().min(len)]))),
            KeyType::Binary { len } => {
                let mut key = SmallVec::from_slice(&bytes[..bytes.len().min(len)]);
                key.resize(len, 0);
                Some(Self(key))
            }
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Which of so many shards a key belongs to.
    #[must_use]
    pub fn shard(&self, shards: usize) -> usize {
        let mixed = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = self.0.iter().fold(0xcbf2_9ce4_8422_2325, mixed);
        ((hash >> 32) as usize) % shards.max(1)
    }
}

macro_rules! data_types {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// What an entry can store.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "each variant is the data type of the same name")]
        pub enum DataType { $($variant),* }

        impl DataType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its keyword.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The type of a keyword.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

data_types! {
    ServerId = "server_id",
    ServerKey = "server_key",
    Gpt = "gpt",
    Gpt0 = "gpt0",
    Gpc = "gpc",
    GpcRate = "gpc_rate",
    Gpc0 = "gpc0",
    Gpc0Rate = "gpc0_rate",
    Gpc1 = "gpc1",
    Gpc1Rate = "gpc1_rate",
    ConnCnt = "conn_cnt",
    ConnCur = "conn_cur",
    ConnRate = "conn_rate",
    SessCnt = "sess_cnt",
    SessRate = "sess_rate",
    HttpReqCnt = "http_req_cnt",
    HttpReqRate = "http_req_rate",
    HttpErrCnt = "http_err_cnt",
    HttpErrRate = "http_err_rate",
    HttpFailCnt = "http_fail_cnt",
    HttpFailRate = "http_fail_rate",
    BytesInCnt = "bytes_in_cnt",
    BytesInRate = "bytes_in_rate",
    BytesOutCnt = "bytes_out_cnt",
    BytesOutRate = "bytes_out_rate",
    GlitchCnt = "glitch_cnt",
    GlitchRate = "glitch_rate",
}

impl DataType {
    /// Takes a period.
    #[must_use]
    pub fn is_rate(self) -> bool {
        self.name().ends_with("_rate")
    }

    /// Takes a number of elements.
    #[must_use]
    pub fn is_array(self) -> bool {
        matches!(self, Self::Gpt | Self::Gpc | Self::GpcRate)
    }

    /// The rate of a general purpose counter's increments, which moves with it.
    #[must_use]
    pub fn rate_of_increments(self) -> Option<Self> {
        match self {
            Self::Gpc => Some(Self::GpcRate),
            Self::Gpc0 => Some(Self::Gpc0Rate),
            Self::Gpc1 => Some(Self::Gpc1Rate),
            _ => None,
        }
    }

    /// The array element that stands in for it in tables with arrays.
    fn in_array(self) -> Option<(Self, usize)> {
        match self {
            Self::Gpt0 => Some((Self::Gpt, 0)),
            Self::Gpc0 => Some((Self::Gpc, 0)),
            Self::Gpc1 => Some((Self::Gpc, 1)),
            Self::Gpc0Rate => Some((Self::GpcRate, 0)),
            Self::Gpc1Rate => Some((Self::GpcRate, 1)),
            _ => None,
        }
    }
}

/// One `store`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stored {
    kind: DataType,
    first: usize,
    count: usize,
    period_ms: u64,
}

/// What a table is declared with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSettings {
    /// `type`
    pub key: KeyType,
    /// `size`: most entries.
    pub size: usize,
    /// `expire` in milliseconds.
    pub expire_ms: Option<u64>,
    /// `nopurge`: a full table refuses new keys.
    pub nopurge: bool,
    /// `brates-factor`: byte rates are shown divided by it.
    pub brates_factor: u64,
    stored: Vec<Stored>,
    cells: usize,
}

impl TableSettings {
    /// A table that stores nothing but its keys.
    #[must_use]
    pub fn new(key: KeyType, size: usize, expire_ms: Option<u64>) -> Self {
        Self { key, size, expire_ms, nopurge: false, brates_factor: 1, stored: Vec::new(), cells: 0 }
    }

    /// `store`: adds a data type with its number of elements (1 for all but arrays) and its period (rates only).
    /// A type that is stored already stays as it is.
    #[must_use]
    pub fn store(mut self, kind: DataType, elements: usize, period_ms: u64) -> Self {
        if !self.stored.iter().any(|stored| stored.kind == kind) {
            let count = if kind.is_array() { elements.clamp(1, MAX_ARRAY) } else { 1 };
            self.stored.push(Stored { kind, first: self.cells, count, period_ms });
            self.cells += count;
        }
        self
    }

    /// True when the type, or an array that stands in for it, is stored.
    #[must_use]
    pub fn stores(&self, kind: DataType) -> bool {
        self.stores_element(kind, 0)
    }

    /// True when an element of the type, or of an array that stands in for it, is stored.
    #[must_use]
    pub fn stores_element(&self, kind: DataType, element: usize) -> bool {
        self.find(kind, element).is_some()
    }

    /// The period of a rate that is stored, milliseconds.
    #[must_use]
    pub fn period_ms(&self, kind: DataType) -> Option<u64> {
        self.find(kind, 0).map(|(_, period_ms)| period_ms)
    }

    /// Stored types with their elements and periods, in order.
    pub fn stored(&self) -> impl Iterator<Item = (DataType, usize, u64)> + '_ {
        self.stored.iter().map(|stored| (stored.kind, stored.count, stored.period_ms))
    }

    /// The cell of an element, and the period it is counted in.
    fn find(&self, kind: DataType, element: usize) -> Option<(usize, u64)> {
        let known = |kind: DataType| self.stored.iter().find(|stored| stored.kind == kind);
        let (stored, element) = match known(kind) {
            Some(stored) => (stored, element),
            None => {
                let (array, element) = kind.in_array()?;
                (known(array)?, element)
            }
        };
        (element < stored.count).then_some((stored.first + element, stored.period_ms))
    }
}

#[derive(Clone, Debug)]
enum Cell {
    Count(u64),
    Rate(RateCounter),
    Text(Box<[u8]>),
}

/// An entry, by its place; stays valid until the entry is removed, and is never another's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryId {
    slot: u32,
    generation: u32,
}

/// What is known about a key.
#[derive(Clone, Debug)]
pub struct Entry {
    key: Key,
    cells: Box<[Cell]>,
    expire_ms: u64,
    holders: u32,
    older: u32,
    newer: u32,
}

impl Entry {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// When it expires, in milliseconds; `u64::MAX` is never.
    #[must_use]
    pub fn expire_ms(&self) -> u64 {
        self.expire_ms
    }

    /// How many streams and connections track it; it is not removed meanwhile.
    #[must_use]
    pub fn holders(&self) -> u32 {
        self.holders
    }
}

/// No room for another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFull;

#[derive(Clone, Debug)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

const NOWHERE: u32 = u32::MAX;

/// A stick table.
#[derive(Clone, Debug)]
pub struct Table {
    settings: TableSettings,
    by_key: HashMap<Key, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(settings: TableSettings) -> Self {
        Self {
            settings,
            by_key: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NOWHERE,
            newest: NOWHERE,
        }
    }

    /// What it was declared with.
    #[must_use]
    pub fn settings(&self) -> &TableSettings {
        &self.settings
    }

    /// Number of entries, expired ones that were not removed yet included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The entry of a key, when there is one that has not expired.  Does not touch it.
    #[must_use]
    pub fn lookup(&self, key: &Key, now_ms: u64) -> Option<EntryId> {
        let slot = *self.by_key.get(key)?;
        let entry = self.at(slot)?;
        (entry.expire_ms > now_ms || entry.holders > 0).then(|| self.id(slot))
    }

    /// The entry of a key, made when there is none; it lives its full time again.
    ///
    /// # Errors
    /// A full table refuses with `nopurge`, or when all entries are being tracked.
    pub fn get_or_create(&mut self, key: &Key, now_ms: u64) -> Result<EntryId, TableFull> {
        if let Some(id) = self.lookup(key, now_ms) {
            self.touch(id, now_ms);
            return Ok(id);
        }
        if let Some(&expired) = self.by_key.get(key) {
            self.remove_slot(expired);
        }
        self.purge_expired(now_ms, PURGE_AT_ONCE);
        if self.len() >= self.settings.size && (self.settings.nopurge || !self.evict()) {
            return Err(TableFull);
        }
        Ok(self.insert(key, now_ms))
    }

    /// Reads an entry.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == id.generation)
    }

    fn entry_mut(&mut self, id: EntryId) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.entry.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// The entry lives its full time again.
    pub fn touch(&mut self, id: EntryId, now_ms: u64) {
        let expire_ms = self.expiry(now_ms);
        let Some(entry) = self.entry_mut(id) else { return };
        entry.expire_ms = expire_ms;
        self.unlink(id.slot);
        self.link_newest(id.slot);
    }

    /// The entry is tracked once more.
    pub fn hold(&mut self, id: EntryId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.holders = entry.holders.saturating_add(1);
        }
    }

    /// The entry is tracked once less; its time starts now.
    pub fn release(&mut self, id: EntryId, now_ms: u64) {
        if let Some(entry) = self.entry_mut(id) {
            entry.holders = entry.holders.saturating_sub(1);
            self.touch(id, now_ms);
        }
    }

    /// Value of a counter or tag, rate in its period, or `None` when the type is not stored.
    #[must_use]
    pub fn value(&self, id: EntryId, kind: DataType, element: usize, now_ms: u64) -> Option<u64> {
        let (cell, period_ms) = self.settings.find(kind, element)?;
        match self.entry(id)?.cells.get(cell)? {
            Cell::Count(value) => Some(*value),
            Cell::Rate(counter) => {
                let rate = counter.rate(now_ms, period_ms);
                let bytes = matches!(kind, DataType::BytesInRate | DataType::BytesOutRate);
                Some(if bytes { rate / self.settings.brates_factor.max(1) } else { rate })
            }
            Cell::Text(_) => None,
        }
    }

    /// Adds to a counter, or counts events of a rate.  False when the type is not stored.
    pub fn add(&mut self, id: EntryId, kind: DataType, element: usize, amount: u64, now_ms: u64) -> bool {
        let Some((cell, period_ms)) = self.settings.find(kind, element) else { return false };
        let most = most_of(kind);
        match self.entry_mut(id).and_then(|entry| entry.cells.get_mut(cell)) {
            Some(Cell::Count(value)) => *value = value.saturating_add(amount).min(most),
            Some(Cell::Rate(counter)) => counter.add(amount, now_ms, period_ms),
            Some(Cell::Text(_)) | None => return false,
        }
        true
    }

    /// Takes from a counter, as `conn_cur` does when a connection ends.
    pub fn subtract(&mut self, id: EntryId, kind: DataType, element: usize, amount: u64) -> bool {
        let Some((cell, _)) = self.settings.find(kind, element) else { return false };
        let Some(Cell::Count(value)) = self.entry_mut(id).and_then(|entry| entry.cells.get_mut(cell)) else {
            return false;
        };
        *value = value.saturating_sub(amount);
        true
    }

    /// Sets a counter or a tag; a rate becomes that of so many events now.
    pub fn set(&mut self, id: EntryId, kind: DataType, element: usize, value: u64, now_ms: u64) -> bool {
        let Some((cell, period_ms)) = self.settings.find(kind, element) else { return false };
        let most = most_of(kind);
        match self.entry_mut(id).and_then(|entry| entry.cells.get_mut(cell)) {
            Some(Cell::Count(old)) => *old = value.min(most),
            Some(Cell::Rate(counter)) => {
                counter.clear();
                counter.add(value, now_ms, period_ms);
            }
            Some(Cell::Text(_)) | None => return false,
        }
        true
    }

    /// The counter behind a rate.
    #[must_use]
    pub fn rate(&self, id: EntryId, kind: DataType, element: usize) -> Option<(RateCounter, u64)> {
        let (cell, period_ms) = self.settings.find(kind, element)?;
        match self.entry(id)?.cells.get(cell)? {
            Cell::Rate(counter) => Some((*counter, period_ms)),
            Cell::Count(_) | Cell::Text(_) => None,
        }
    }

    /// Replaces the counter behind a rate; false when the type is not stored.
    pub fn set_rate(&mut self, id: EntryId, kind: DataType, element: usize, counter: RateCounter) -> bool {
        let Some((cell, _)) = self.settings.find(kind, element) else { return false };
        let Some(Cell::Rate(old)) = self.entry_mut(id).and_then(|entry| entry.cells.get_mut(cell)) else {
            return false;
        };
        *old = counter;
        true
    }

    /// `server_key`
    #[must_use]
    pub fn text(&self, id: EntryId, kind: DataType) -> Option<&[u8]> {
        let (cell, _) = self.settings.find(kind, 0)?;
        match self.entry(id)?.cells.get(cell)? {
            Cell::Text(text) => Some(text),
            Cell::Count(_) | Cell::Rate(_) => None,
        }
    }

    /// Sets `server_key`.
    pub fn set_text(&mut self, id: EntryId, kind: DataType, text: &[u8]) -> bool {
        let Some((cell, _)) = self.settings.find(kind, 0) else { return false };
        let Some(Cell::Text(old)) = self.entry_mut(id).and_then(|entry| entry.cells.get_mut(cell)) else {
            return false;
        };
        *old = text.into();
        true
    }

    /// Removes an entry, unless it is being tracked; true when it is gone.
    pub fn remove(&mut self, id: EntryId) -> bool {
        let removable = self.entry(id).is_some_and(|entry| entry.holders == 0);
        if removable {
            self.remove_slot(id.slot);
        }
        removable
    }

    /// Removes expired entries, oldest first, at most so many; returns how many went.
    pub fn purge_expired(&mut self, now_ms: u64, most: usize) -> usize {
        let mut gone = 0;
        let mut at = self.oldest;
        // Entries that are tracked stand in the way of at most as many steps.
        for _ in 0..most {
            let Some(entry) = self.at(at) else { break };
            if entry.expire_ms > now_ms {
                break;
            }
            let next = entry.newer;
            if entry.holders == 0 {
                self.remove_slot(at);
                gone += 1;
            }
            at = next;
        }
        gone
    }

    /// All entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry)> + '_ {
        let step = |slot: u32| self.at(slot).map(|entry| (self.id(slot), entry));
        std::iter::successors(step(self.oldest), move |(_, entry)| step(entry.newer))
    }

    /// Removes all entries that are not tracked; returns how many went.
    pub fn clear(&mut self) -> usize {
        let all: Vec<EntryId> = self.iter().map(|(id, _)| id).collect();
        all.into_iter().filter(|&id| self.remove(id)).count()
    }

    fn expiry(&self, now_ms: u64) -> u64 {
        self.settings.expire_ms.map_or(u64::MAX, |expire_ms| now_ms.saturating_add(expire_ms))
    }

    fn id(&self, slot: u32) -> EntryId {
        EntryId { slot, generation: self.slots[slot as usize].generation }
    }

    fn at(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.entry.as_ref()
    }

    fn at_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slots.get_mut(slot as usize)?.entry.as_mut()
    }

    /// Removes the oldest entry that is not tracked.  Tracked ones it meets count as touched, so that it does
    /// not meet them again each time.
    fn evict(&mut self) -> bool {
        for _ in 0..self.by_key.len() {
            let slot = self.oldest;
            match self.at(slot) {
                None => return false,
                Some(entry) if entry.holders == 0 => {
                    self.remove_slot(slot);
                    return true;
                }
                Some(_) => {
                    self.unlink(slot);
                    self.link_newest(slot);
                }
            }
        }
        false
    }

    fn insert(&mut self, key: &Key, now_ms: u64) -> EntryId {
        let entry = Entry {
            key: key.clone(),
            cells: self.settings.stored.iter().flat_map(new_cells).collect(),
            expire_ms: self.expiry(now_ms),
            holders: 0,
            older: NOWHERE,
            newer: NOWHERE,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot { generation: 0, entry: None });
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize].entry = Some(entry);
        self.by_key.insert(key.clone(), slot);
        self.link_newest(slot);
        self.id(slot)
    }

    fn remove_slot(&mut self, slot: u32) {
        self.unlink(slot);
        let place = &mut self.slots[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        if let Some(entry) = place.entry.take() {
            self.by_key.remove(&entry.key);
            self.free.push(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Some(entry) = self.at_mut(slot) else { return };
        let (older, newer) = (entry.older, entry.newer);
        match self.at_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.at_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let newest = self.newest;
        if let Some(entry) = self.at_mut(slot) {
            entry.older = newest;
            entry.newer = NOWHERE;
        }
        match self.at_mut(newest) {
            Some(entry) => entry.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }
}

/// Byte counters have 64 bits, all others 32.
fn most_of(kind: DataType) -> u64 {
    match kind {
        DataType::BytesInCnt | DataType::BytesOutCnt => u64::MAX,
        _ => u32::MAX.into(),
    }
}

fn new_cells(stored: &Stored) -> impl Iterator<Item = Cell> + use<> {
    let cell = match stored.kind {
        DataType::ServerKey => Cell::Text(Box::default()),
        kind if kind.is_rate() => Cell::Rate(RateCounter::default()),
        _ => Cell::Count(0),
    };
    std::iter::repeat_n(cell, stored.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u32) -> Key {
        Key::new(KeyType::Integer, &number.to_be_bytes()).unwrap()
    }

    fn table(size: usize, expire_ms: Option<u64>) -> Table {
        let settings = TableSettings::new(KeyType::Integer, size, expire_ms)
            .store(DataType::Gpc, 3, 0)
            .store(DataType::GpcRate, 2, 1000)
            .store(DataType::ConnCur, 1, 0)
            .store(DataType::BytesInCnt, 1, 0)
            .store(DataType::BytesInRate, 1, 1000)
            .store(DataType::ServerId, 1, 0)
            .store(DataType::ServerKey, 1, 0);
        Table::new(settings)
    }

    #[test]
    fn keys() {
        let check = |kind, bytes: &[u8], expected: Option<&[u8]>| {
            assert_eq!(Key::new(kind, bytes).as_ref().map(Key::bytes), expected, "{kind:?}");
        };
        check(KeyType::Ipv4, &[1, 2, 3, 4], Some(&[1, 2, 3, 4]));
        check(KeyType::Ipv4, &[1, 2, 3], None);
        check(KeyType::Ipv6, &[0; 16], Some(&[0; 16]));
        check(KeyType::String { len: 3 }, b"abcd", Some(b"abc"));
        check(KeyType::String { len: 3 }, b"a", Some(b"a"));
        check(KeyType::Binary { len: 3 }, b"a", Some(b"a\0\0"));
        assert!(key(7).shard(4) < 4);
    }

    #[test]
    fn values() {
        let mut table = table(10, None);
        let id = table.get_or_create(&key(1), 0).unwrap();
        assert!(table.add(id, DataType::Gpc, 2, 5, 0));
        assert!(!table.add(id, DataType::Gpc, 3, 5, 0));
        assert!(!table.add(id, DataType::ConnRate, 0, 5, 0));
        assert!(table.add(id, DataType::Gpc0, 0, 1, 0));
        assert_eq!(table.value(id, DataType::Gpc, 2, 0), Some(5));
        // The legacy names mean the first elements of the arrays.
        assert_eq!(table.value(id, DataType::Gpc, 0, 0), Some(1));
        assert_eq!(table.value(id, DataType::Gpc1, 0, 0), Some(0));
        table.add(id, DataType::Gpc0Rate, 0, 7, 0);
        assert_eq!(table.value(id, DataType::GpcRate, 0, 500), Some(7));
        table.set(id, DataType::GpcRate, 0, 2, 500);
        assert_eq!(table.value(id, DataType::GpcRate, 0, 500), Some(2));
        let (counter, period_ms) = table.rate(id, DataType::GpcRate, 0).unwrap();
        assert_eq!(counter.rate(500, period_ms), 2);
        assert!(table.set_rate(id, DataType::GpcRate, 0, RateCounter::from_parts(500, (0, 9, 0))));
        assert_eq!(table.value(id, DataType::GpcRate, 0, 500), Some(9));
        assert!(table.rate(id, DataType::Gpc, 0).is_none());
        assert!(!table.set_rate(id, DataType::ConnRate, 0, counter));
        table.subtract(id, DataType::ConnCur, 0, 1);
        assert_eq!(table.value(id, DataType::ConnCur, 0, 0), Some(0));
        table.add(id, DataType::ConnCur, 0, u64::MAX, 0);
        assert_eq!(table.value(id, DataType::ConnCur, 0, 0), Some(u32::MAX.into()));
        table.add(id, DataType::BytesInCnt, 0, 1 << 40, 0);
        assert_eq!(table.value(id, DataType::BytesInCnt, 0, 0), Some(1 << 40));
        assert!(table.set_text(id, DataType::ServerKey, b"s1"));
        assert_eq!(table.text(id, DataType::ServerKey), Some(&b"s1"[..]));
        for &kind in DataType::ALL {
            assert_eq!(DataType::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn entries_expire_after_their_last_touch() {
        let mut table = table(10, Some(100));
        let first = table.get_or_create(&key(1), 0).unwrap();
        table.get_or_create(&key(2), 50).unwrap();
        assert_eq!(table.lookup(&key(1), 99), Some(first));
        assert_eq!(table.lookup(&key(1), 100), None);
        table.touch(first, 60);
        assert_eq!(table.lookup(&key(1), 159), Some(first));
        // The other one is the oldest now.
        assert_eq!(table.purge_expired(155, 10), 1);
        assert_eq!((table.lookup(&key(2), 155), table.len()), (None, 1));
        // An expired key starts anew, and the old handle is dead.
        table.add(first, DataType::Gpc0, 0, 1, 0);
        let again = table.get_or_create(&key(1), 200).unwrap();
        assert_ne!(first, again);
        assert_eq!(table.value(again, DataType::Gpc0, 0, 200), Some(0));
        assert!(table.entry(first).is_none());
    }

    #[test]
    fn a_full_table_forgets_the_oldest_or_refuses() {
        let mut table = table(2, None);
        table.get_or_create(&key(1), 0).unwrap();
        let second = table.get_or_create(&key(2), 1).unwrap();
        table.get_or_create(&key(1), 2).unwrap();
        table.get_or_create(&key(3), 3).unwrap();
        assert_eq!((table.lookup(&key(2), 3), table.len()), (None, 2));
        assert!(table.entry(second).is_none());
        let keys: Vec<_> = table.iter().map(|(_, entry)| entry.key().clone()).collect();
        assert_eq!(keys, [key(1), key(3)]);
        table.settings.nopurge = true;
        assert_eq!(table.get_or_create(&key(4), 4), Err(TableFull));
        assert_eq!(table.clear(), 2);
        assert!(table.get_or_create(&key(4), 5).is_ok());
    }

    #[test]
    fn tracked_entries_stay() {
        let mut table = table(2, Some(100));
        let first = table.get_or_create(&key(1), 0).unwrap();
        table.hold(first);
        assert_eq!(table.lookup(&key(1), 1000), Some(first));
        table.get_or_create(&key(2), 1).unwrap();
        let third = table.get_or_create(&key(3), 2).unwrap();
        assert!(table.entry(first).is_some());
        table.hold(third);
        assert_eq!(table.get_or_create(&key(4), 3), Err(TableFull));
        assert!(!table.remove(first));
        table.release(first, 1000);
        assert_eq!(table.lookup(&key(1), 1099), Some(first));
        assert!(table.remove(first));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Get(u32),
        Hold(u32),
        Release(u32),
        Remove(u32),
        Purge,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..8).prop_map(Step::Get),
            (0u32..8).prop_map(Step::Hold),
            (0u32..8).prop_map(Step::Release),
            (0u32..8).prop_map(Step::Remove),
            Just(Step::Purge),
            (0u64..60).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_the_table_is_in_order(steps in prop::collection::vec(step(), 0..80)) {
            let mut table = table(5, Some(100));
            let mut now_ms = 0;
            let mut held = std::collections::BTreeMap::new();
            for step in steps {
                match step {
                    Step::Get(number) => {
                        let got = table.get_or_create(&key(number), now_ms);
                        prop_assert_eq!(got.ok(), table.lookup(&key(number), now_ms));
                    }
                    Step::Hold(number) => if let Some(id) = table.lookup(&key(number), now_ms) {
                        table.hold(id);
                        *held.entry(id).or_insert(0) += 1;
                    },
                    Step::Release(number) => if let Some(id) = table.lookup(&key(number), now_ms)
                        && let Some(count) = held.get_mut(&id).filter(|count| **count > 0)
                    {
                        *count -= 1;
                        table.release(id, now_ms);
                    },
                    Step::Remove(number) => if let Some(id) = table.lookup(&key(number), now_ms) {
                        table.remove(id);
                    },
                    Step::Purge => { table.purge_expired(now_ms, usize::MAX); }
                    Step::Wait(time_ms) => now_ms += time_ms,
                }
                prop_assert!(table.len() <= 5);
                prop_assert_eq!(table.iter().count(), table.len());
                prop_assert_eq!(table.iter().map(|(_, e)| e.key().clone()).collect::<std::collections::HashSet<_>>().len(), table.len());
                for (&id, &count) in &held {
                    if count > 0 {
                        prop_assert_eq!(table.entry(id).map(Entry::holders), Some(count));
                    }
                }
            }
        }

        #[test]
        fn an_entry_in_the_place_of_another_is_new(before in prop::collection::vec((0u32..6, 1u64..9), 1..20)) {
            let kinds = [DataType::Gpc, DataType::GpcRate, DataType::HttpReqCnt, DataType::BytesInCnt];
            let table = || {
                let settings = TableSettings::new(KeyType::Integer, 2, Some(100));
                Table::new(kinds.into_iter().fold(settings, |settings, kind| settings.store(kind, 1, 1000)))
            };
            let mut used = table();
            for (number, amount) in before {
                if let Ok(id) = used.get_or_create(&key(number), 0) {
                    for kind in kinds {
                        used.add(id, kind, 0, amount, 0);
                    }
                }
            }
            let mut fresh = table();
            let last = key(9);
            let ids = [used.get_or_create(&last, 1), fresh.get_or_create(&last, 1)];
            let [in_used, alone] = ids.map(|id| id.expect("nobody holds an entry"));
            for kind in kinds {
                prop_assert_eq!(used.value(in_used, kind, 0, 1), fresh.value(alone, kind, 0, 1), "{}", kind.name());
            }
        }
    }
}
