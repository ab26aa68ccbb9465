//! slz, the encoder inside HAProxy, as the proxy calls it: it keeps nothing between pieces but a few bytes.

use std::ffi::{c_int, c_long};

/// The structure has 32 bytes; of these nothing is read here.
#[repr(C, align(16))]
struct Stream([u8; 64]);

unsafe extern "C" {
    fn slz_rfc1952_init(stream: *mut Stream, level: c_int) -> c_int;
    fn slz_rfc1952_encode(
        stream: *mut Stream,
        out: *mut u8,
        input: *const u8,
        length: c_long,
        more: c_int,
    ) -> c_long;
    fn slz_rfc1952_finish(stream: *mut Stream, out: *mut u8) -> c_int;
}

/// A whole gzip stream.
pub fn encode(body: &[u8], piece: usize, out: &mut Vec<u8>) {
    // A byte takes 9 bits at most, a stored block 5 bytes more for each 64 kB.
    out.resize(body.len() + body.len() / 4 + 4096, 0);
    let mut stream = Stream([0; 64]);
    // SAFETY: the structure is larger than the library's; the output has room for the worst case.
    let written = unsafe {
        slz_rfc1952_init(&mut stream, 1);
        let mut at = 0;
        for part in body.chunks(piece) {
            let length = part.len() as c_long;
            at += slz_rfc1952_encode(&mut stream, out[at..].as_mut_ptr(), part.as_ptr(), length, 1) as usize;
        }
        at + slz_rfc1952_finish(&mut stream, out[at..].as_mut_ptr()) as usize
    };
    out.truncate(written);
}
