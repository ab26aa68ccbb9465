//! The encoders we compare with.

use std::mem::MaybeUninit;

use libz_ng_sys as z;

pub enum Anchor {
    ZlibNg(Box<MaybeUninit<z::z_stream>>, String),
    Libdeflate(libdeflater::Compressor, String),
}

impl Anchor {
    pub fn zlib_ng(level: i32) -> Self {
        // All-zero is how zlib wants the structure before its initialisation.
        let mut stream: Box<MaybeUninit<z::z_stream>> = Box::new(MaybeUninit::zeroed());
        // SAFETY: the stream is zeroed and stays where it is, in its box.
        let status = unsafe {
            z::deflateInit2_(
                stream.as_mut_ptr(),
                level,
                8,
                15 + 16,
                8,
                0,
                z::zlibVersion(),
                size_of::<z::z_stream>() as i32,
            )
        };
        assert_eq!(status, z::Z_OK);
        Self::ZlibNg(stream, format!("zlib-ng -{level}"))
    }

    pub fn libdeflate(level: i32) -> Self {
        let compressor =
            libdeflater::Compressor::new(libdeflater::CompressionLvl::new(level).expect("a level"));
        Self::Libdeflate(compressor, format!("libdeflate -{level}"))
    }

    pub fn name(&self) -> &str {
        match self {
            Self::ZlibNg(_, name) | Self::Libdeflate(_, name) => name,
        }
    }

    /// A whole gzip stream; in pieces with a sync flush after each where a size is given.
    pub fn encode(&mut self, body: &[u8], piece: Option<usize>, out: &mut Vec<u8>) {
        match self {
            Self::ZlibNg(stream, ..) => {
                out.resize(body.len() + body.len() / 8 + 4096, 0);
                // SAFETY: the stream is initialised; input and output are slices that outlive the calls.
                let written = unsafe {
                    let stream = stream.as_mut_ptr();
                    assert_eq!(z::deflateReset(stream), z::Z_OK);
                    (*stream).next_out = out.as_mut_ptr();
                    (*stream).avail_out = out.len() as u32;
                    let pieces = body.chunks(piece.unwrap_or(usize::MAX));
                    for part in pieces {
                        (*stream).next_in = part.as_ptr().cast_mut();
                        (*stream).avail_in = part.len() as u32;
                        if piece.is_some() {
                            assert_eq!(z::deflate(stream, z::Z_SYNC_FLUSH), z::Z_OK);
                        }
                    }
                    assert_eq!(z::deflate(stream, z::Z_FINISH), z::Z_STREAM_END);
                    out.len() - (*stream).avail_out as usize
                };
                out.truncate(written);
            }
            Self::Libdeflate(compressor, _) => {
                out.resize(compressor.gzip_compress_bound(body.len()), 0);
                let written = compressor.gzip_compress(body, out).expect("room");
                out.truncate(written);
            }
        }
    }
}
