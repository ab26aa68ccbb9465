//! The process's allocator: mimalloc, asked in the way that is quick.
//!
//! Requests allocate a few kilobytes and free them at once: the system's allocator spent a quarter of the CPU time of a
//! small HTTP/2 answer on that.  mimalloc's functions with an alignment take a slow way for most sizes over a kilobyte
//! (they over-allocate, and freeing divides), and every block has the usual alignment anyway: a tenth of the same answer.

#![allow(unsafe_code, reason = "an allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// The alignment of every block that is at least as large.
const USUAL_ALIGN: usize = 16;

/// The alignment of every block.
const WORD: usize = 8;

pub(crate) struct Allocator;

/// Whether a block has this alignment without being asked for it.
const fn is_usual(size: usize, align: usize) -> bool {
    align <= WORD || (align <= USUAL_ALIGN && size >= USUAL_ALIGN)
}

// SAFETY: each call goes to mimalloc with what it was given.  `mi_malloc`, `mi_zalloc` and `mi_realloc` return blocks that are
// aligned to 8 bytes, and to 16 from 16 bytes on, or null; all of mimalloc's blocks are freed by `mi_free` and may be
// resized by either function, however they were made.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller's promise, handed on.
        unsafe { if is_usual(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller's promise, handed on.
        unsafe { if is_usual(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) }.cast() }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise: the block came from here.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: the caller's promise: the block came from here.
        unsafe {
            if is_usual(new_size, align) {
                mi_realloc(block.cast(), new_size)
            } else {
                mi_realloc_aligned(block.cast(), new_size, align)
            }
            .cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to every byte of a block of each size, grown and shrunk, and looks at its address.
    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 8, 16, 32, 64, 4096] {
            for size in [1, 7, 8, 15, 16, 17, 64, 968, 1025, 1496, 4096, 100_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let larger = Layout::from_size_align(size * 2, align).unwrap();
                // SAFETY: sizes are not 0, and each block is written within its size and freed once.
                unsafe {
                    let zeroed = Allocator.alloc_zeroed(layout);
                    assert!(!zeroed.is_null() && zeroed.addr().is_multiple_of(align));
                    assert!((0..size).all(|at| *zeroed.add(at) == 0));
                    Allocator.dealloc(zeroed, layout);
                    let block = Allocator.alloc(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align));
                    (0..size).for_each(|at| *block.add(at) = at as u8);
                    let grown = Allocator.realloc(block, layout, size * 2);
                    assert!(!grown.is_null() && grown.addr().is_multiple_of(align));
                    assert!((0..size).all(|at| *grown.add(at) == at as u8));
                    let shrunk = Allocator.realloc(grown, larger, size);
                    assert!(shrunk.addr() % align == 0);
                    assert!((0..size).all(|at| *shrunk.add(at) == at as u8));
                    Allocator.dealloc(shrunk, layout);
                }
            }
        }
    }
}
