//! Requests that repeat: clients that poll, call one method, or measure send the same block again.
//!
//! A block that only refers to entries of a table that has not changed since stands for the same
//! request; a copy of that one saves the reading.  The first occurrence is noted, the second is kept, the
//! third is copied: requests that do not repeat cost a comparison and a few octets.

use super::head::ReadHead;
use super::hpack::Fault;
use crate::{Request, Version};

/// Blocks up to this size are kept, in octets: one that only refers to the tables is not longer.
const MAX_BLOCK: usize = 64;

/// The last request's block, and what it stands for.
#[derive(Default)]
pub(super) struct Repeat {
    block: Vec<u8>,
    /// The decoder's generation that the block belongs to.
    generation: u32,
    kept: Option<Box<(Request, ReadHead)>>,
}

impl Repeat {
    /// Fills `request`, which has to be empty, if the block is the last one again.
    #[inline]
    pub(super) fn read(&self, block: &[u8], generation: u32, request: &mut Request) -> Option<ReadHead> {
        let (kept, head) = &**self.kept.as_ref()?;
        if self.generation != generation || self.block != block {
            return None;
        }
        request.fields.copy_from(&kept.fields);
        request.method = kept.method;
        request.method_name = kept.method_name;
        request.uri = kept.uri;
        request.normalized_uri = kept.normalized_uri;
        request.protocol = kept.protocol;
        request.version = Version::Http2;
        Some(*head)
    }

    /// Notes a request that was read from a block without any change of the decoder.
    #[inline]
    pub(super) fn note(&mut self, block: &[u8], generation: u32, request: &Request, head: ReadHead) {
        if self.generation == generation && self.block == block {
            if head.fault == Fault::None {
                self.kept = Some(Box::new((request.clone(), head)));
            }
            return;
        }
        self.kept = None;
        self.block.clear();
        if block.len() <= MAX_BLOCK {
            self.block.extend_from_slice(block);
            self.generation = generation;
        }
    }

    /// Gives back memory that an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        *self = Self::default();
    }
}
