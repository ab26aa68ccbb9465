//! The dynamic table (RFC 7541 sections 2.3.2 and 4): the newest entries up to a size in octets.
//!
//! Both directions use it.  Names and values stand one after the other in one buffer that grows at
//! its end and is moved to the front now and then, so that every name and value is one slice.

use std::collections::VecDeque;

use super::{Fault, Kind};

/// What an entry costs besides its octets (RFC 7541 section 4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// The largest table this proxy keeps (tune.h2.header-table-size cannot be larger either), in octets.
pub(in crate::h2) const MAX_TABLE_SIZE: usize = 65_536;

/// One entry: where it stands and what is known about it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    start: u32,
    name_len: u16,
    value_len: u16,
    /// Which field the name is.
    pub(super) kind: Kind,
    /// What is wrong with the value.
    pub(super) fault: Fault,
}

impl Entry {
    fn octets(self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

#[derive(Default)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    /// Entries ever inserted, modulo 2^32.
    inserted: u32,
}

impl DynamicTable {
    pub(super) fn new(max_size: usize) -> Self {
        Self { max_size: max_size.min(MAX_TABLE_SIZE), ..Self::default() }
    }

    /// The entry at a distance from the newest one.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    #[inline]
    pub(super) fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + usize::from(entry.name_len)]
    }

    #[inline]
    pub(super) fn value(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize + usize::from(entry.name_len);
        &self.bytes[start..start + usize::from(entry.value_len)]
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    pub(super) fn inserted(&self) -> u32 {
        self.inserted
    }

    /// Changes the size limit (RFC 7541 section 4.3).
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size.min(MAX_TABLE_SIZE);
        self.evict_for(0);
    }

    /// Adds an entry; one that is larger than the table empties it (RFC 7541 section 4.4).
    /// Returns whether it is in the table now.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], kind: Kind, fault: Fault) -> bool {
        if !self.make_room(name.len() + value.len()) {
            return false;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.push(start, name.len(), value.len(), kind, fault);
        true
    }

    /// Adds an entry with the name of the entry `at`, which may have to leave for it.
    pub(super) fn insert_with_name_of(&mut self, at: usize, value: &[u8], fault: Fault) -> bool {
        let Some(&named) = self.entries.get(at) else { return false };
        let octets = usize::from(named.name_len) + value.len();
        // The name is taken before anything is evicted or moved.
        let name_end = self.bytes.len() + usize::from(named.name_len);
        let name_start = named.start as usize;
        self.bytes.extend_from_within(name_start..name_start + usize::from(named.name_len));
        if !self.evict_for(octets + ENTRY_OVERHEAD) {
            self.bytes.clear();
            return false;
        }
        self.bytes.extend_from_slice(value);
        let start = name_end - usize::from(named.name_len);
        self.push(start, usize::from(named.name_len), value.len(), named.kind, fault);
        self.compact();
        true
    }

    fn make_room(&mut self, octets: usize) -> bool {
        let fits = self.evict_for(octets + ENTRY_OVERHEAD);
        self.compact();
        fits
    }

    fn push(&mut self, start: usize, name_len: usize, value_len: usize, kind: Kind, fault: Fault) {
        // The size limit is below 65 536, and an entry's overhead keeps its octets below that.
        let entry = Entry {
            start: start as u32,
            name_len: name_len as u16,
            value_len: value_len as u16,
            kind,
            fault,
        };
        self.size += entry.octets() + ENTRY_OVERHEAD;
        self.entries.push_front(entry);
        self.inserted = self.inserted.wrapping_add(1);
    }

    /// Drops the oldest entries until `size` more fit; false when they never do.
    fn evict_for(&mut self, size: usize) -> bool {
        while self.size + size > self.max_size {
            let Some(oldest) = self.entries.pop_back() else { return false };
            self.size -= oldest.octets() + ENTRY_OVERHEAD;
        }
        true
    }

    /// Moves the live octets to the front once more of the buffer is dead than the table is large.
    fn compact(&mut self) {
        let Some(front) = self.entries.back().map(|oldest| oldest.start as usize) else {
            self.bytes.clear();
            return;
        };
        if front <= self.max_size {
            return;
        }
        self.bytes.drain(..front);
        for entry in &mut self.entries {
            entry.start -= front as u32;
        }
    }

    /// Gives back memory that an idle connection does not need; the entries stay.
    pub(super) fn shrink(&mut self) {
        if let Some(front) = self.entries.back().map(|oldest| oldest.start as usize) {
            self.bytes.drain(..front);
            for entry in &mut self.entries {
                entry.start -= front as u32;
            }
        } else {
            self.bytes.clear();
        }
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldName;

    const OTHER: Kind = Kind::Field(FieldName::Other);

    fn names(table: &DynamicTable) -> Vec<String> {
        (0..table.len())
            .map(|at| {
                let entry = table.entry(at).unwrap();
                let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
                text(table.name(entry)) + "=" + &text(table.value(entry))
            })
            .collect()
    }

    #[test]
    fn oldest_entries_leave() {
        let mut table = DynamicTable::new(100);
        for n in ["a", "b", "c"] {
            assert!(table.insert(n.as_bytes(), b"1", OTHER, Fault::None));
        }
        assert_eq!(names(&table), ["c=1", "b=1"]);
        assert!(table.insert_with_name_of(1, b"22", Fault::None));
        assert_eq!(names(&table), ["b=22", "c=1"]);
        table.set_max_size(40);
        assert_eq!(names(&table), ["b=22"]);
        assert!(!table.insert(b"long", &[b'x'; 60], OTHER, Fault::None));
        assert_eq!(table.len(), 0);
        assert!(table.insert(b"d", b"1", OTHER, Fault::None));
        assert!(!table.insert_with_name_of(0, &[b'x'; 60], Fault::None));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn many_insertions_stay_bounded_and_right() {
        let mut table = DynamicTable::new(300);
        let mut twin: VecDeque<String> = VecDeque::new();
        for i in 0..5000u32 {
            let value = "v".repeat((i % 40) as usize);
            if i % 3 == 0 && !twin.is_empty() {
                let at = (i as usize / 3) % twin.len();
                let name = twin[at].split_once('=').unwrap().0.to_owned();
                table.insert_with_name_of(at, value.as_bytes(), Fault::None);
                twin.push_front(format!("{name}={value}"));
            } else {
                let name = format!("n{i}");
                table.insert(name.as_bytes(), value.as_bytes(), OTHER, Fault::None);
                twin.push_front(format!("{name}={value}"));
            }
            while twin.iter().map(|e| e.len() - 1 + ENTRY_OVERHEAD).sum::<usize>() > 300 {
                twin.pop_back();
            }
            assert_eq!(names(&table), Vec::from(twin.clone()));
            assert!(table.bytes.len() < 1000);
        }
        table.shrink();
        assert_eq!(names(&table), Vec::from(twin));
    }
}
