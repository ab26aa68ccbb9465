//! The memory of heads: where one message's fields stood, the next one's will.
//!
//! A connection that waits for a request holds none of it.

use weir_http::Fields;

/// Sections of one thread that are not in use.
#[derive(Default)]
pub(crate) struct FieldsPool {
    free: Vec<Fields>,
}

impl FieldsPool {
    /// Sections kept for the next use; more are freed.
    const MOST_KEPT: usize = 64;

    /// Memory of a section that is kept; usual heads are far smaller.
    const MOST_BYTES: usize = 16 * 1024;

    /// Sections that wait for a user, and what they take in bytes.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.free.len(), self.free.iter().map(Fields::memory_bytes).sum())
    }

    /// An empty section.
    pub(crate) fn take(&mut self) -> Fields {
        self.free.pop().unwrap_or_default()
    }

    /// Takes a section back.
    pub(crate) fn give(&mut self, mut fields: Fields) {
        if self.free.len() < Self::MOST_KEPT && (1..=Self::MOST_BYTES).contains(&fields.memory_bytes()) {
            fields.clear();
            self.free.push(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_comes_back_is_empty_and_keeps_its_memory() {
        let mut pool = FieldsPool::default();
        pool.give(Fields::default());
        assert!(pool.free.is_empty());
        let mut fields = pool.take();
        fields.push(b"host", b"a");
        pool.give(fields);
        let again = pool.take();
        assert!(again.is_empty() && again.arena().is_empty() && again.memory_bytes() > 0);
    }

    proptest! {
        #[test]
        fn a_section_that_others_had_holds_only_its_own_lines(
            before in prop::collection::vec("[ -~]{0,40}", 0..20),
            lines in prop::collection::vec("[ -~]{0,40}", 0..20),
        ) {
            let filled = |mut fields: Fields, values: &[String]| {
                values.iter().for_each(|value| fields.push(b"x-a", value.as_bytes()));
                fields
            };
            let mut pool = FieldsPool::default();
            pool.give(filled(Fields::default(), &before));
            let (used, fresh) = (filled(pool.take(), &lines), filled(Fields::default(), &lines));
            prop_assert_eq!(used.arena(), fresh.arena());
            prop_assert_eq!(format!("{:?}", used.list()), format!("{:?}", fresh.list()));
            prop_assert_eq!(used.wire_len(), fresh.wire_len());
        }
    }
}
