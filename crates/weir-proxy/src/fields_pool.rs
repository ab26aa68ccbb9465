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
}
