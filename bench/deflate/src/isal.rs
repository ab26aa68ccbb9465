//! ISA-L's igzip, whose interface is its own.

use std::mem::MaybeUninit;

use isal_sys::igzip_lib as z;

use crate::anchors::Cut;

/// One stream with its level buffer, reset for each body.
pub struct Igzip {
    stream: Box<MaybeUninit<z::isal_zstream>>,
    /// The stream points into it.
    _level: Vec<u8>,
}

impl Igzip {
    pub fn new(level: u32) -> Self {
        let size = match level {
            0 => z::ISAL_DEF_LVL0_DEFAULT,
            1 => z::ISAL_DEF_LVL1_DEFAULT,
            2 => z::ISAL_DEF_LVL2_DEFAULT,
            _ => z::ISAL_DEF_LVL3_DEFAULT,
        };
        let mut buffer = vec![0; size as usize];
        let mut stream: Box<MaybeUninit<z::isal_zstream>> = Box::new(MaybeUninit::zeroed());
        // SAFETY: the structure is initialised by the first call; the buffer lives as long as the stream does.
        unsafe {
            let stream = stream.as_mut_ptr();
            z::isal_deflate_init(stream);
            (*stream).level = level;
            (*stream).level_buf = buffer.as_mut_ptr();
            (*stream).level_buf_size = size;
        }
        Self { stream, _level: buffer }
    }

    pub fn encode(&mut self, body: &[u8], cut: Cut, out: &mut Vec<u8>) {
        // The code of level 0 is the same for all: what is not text grows by a third.
        out.resize(2 * body.len() + 4096, 0);
        let (bytes, flush) = cut.parts();
        let parts = body.len().div_ceil(bytes).max(1);
        // SAFETY: the stream is initialised; input and output are slices that outlive the calls.
        let written = unsafe {
            let stream = self.stream.as_mut_ptr();
            z::isal_deflate_reset(stream);
            // The encoder clears it once the header is written.
            (*stream).gzip_flag = z::IGZIP_GZIP as u16;
            (*stream).next_out = out.as_mut_ptr();
            (*stream).avail_out = out.len() as u32;
            (*stream).flush = if flush { z::SYNC_FLUSH } else { z::NO_FLUSH } as u16;
            for (i, part) in body.chunks(bytes).enumerate() {
                (*stream).next_in = part.as_ptr().cast_mut();
                (*stream).avail_in = part.len() as u32;
                (*stream).end_of_stream = u16::from(i + 1 == parts);
                assert_eq!(z::isal_deflate(stream), z::COMP_OK as i32);
                assert_eq!((*stream).avail_in, 0);
            }
            out.len() - (*stream).avail_out as usize
        };
        out.truncate(written);
    }
}
