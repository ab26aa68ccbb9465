//! The encoders we compare with.

use libdeflater::{CompressionLvl, Compressor};

use crate::isal::Igzip;

/// An encoder of gzip streams.
pub enum Anchor {
    ZlibNg(ng::Stream, i32),
    ZlibRs(rs::Stream, i32),
    Igzip(Igzip, u32),
    Libdeflate(Compressor, i32),
    #[cfg(slz)]
    Slz,
}

/// Where a stream ends a piece.
#[derive(Clone, Copy)]
pub enum Cut {
    /// Nowhere: the body comes as a whole.
    Never,
    /// After so many bytes, with a flush.
    Flush(usize),
    /// After so many bytes, without one: more follows at once.
    Open(usize),
}

impl Cut {
    /// The length of pieces, and whether each is flushed.
    pub fn parts(self) -> (usize, bool) {
        match self {
            Self::Never => (usize::MAX, false),
            Self::Flush(bytes) => (bytes, true),
            Self::Open(bytes) => (bytes, false),
        }
    }
}

/// The two zlibs have the same interface with types of their own.
macro_rules! zlib {
    ($name:ident, $library:ident) => {
        pub mod $name {
            use std::mem::MaybeUninit;

            use $library as z;

            /// One stream, reset for each body.
            pub struct Stream(Box<MaybeUninit<z::z_stream>>);

            impl Stream {
                pub fn new(level: i32) -> Self {
                    // All-zero is how zlib wants the structure before its initialisation.
                    let mut stream: Box<MaybeUninit<z::z_stream>> = Box::new(MaybeUninit::zeroed());
                    let size = size_of::<z::z_stream>() as i32;
                    // SAFETY: the stream is zeroed and stays where it is, in its box.
                    let status = unsafe {
                        z::deflateInit2_(stream.as_mut_ptr(), level, 8, 15 + 16, 8, 0, z::zlibVersion(), size)
                    };
                    assert_eq!(status, z::Z_OK);
                    Self(stream)
                }

                pub fn encode(&mut self, body: &[u8], cut: super::Cut, out: &mut Vec<u8>) {
                    out.resize(body.len() + body.len() / 8 + 4096, 0);
                    // SAFETY: the stream is initialised; input and output are slices that outlive the calls.
                    let written = unsafe {
                        let stream = self.0.as_mut_ptr();
                        assert_eq!(z::deflateReset(stream), z::Z_OK);
                        (*stream).next_out = out.as_mut_ptr();
                        (*stream).avail_out = out.len() as u32;
                        let (bytes, flush) = cut.parts();
                        for (i, part) in body.chunks(bytes).enumerate() {
                            (*stream).next_in = part.as_ptr().cast_mut();
                            (*stream).avail_in = part.len() as u32;
                            // The last is taken by the end below.
                            let more = part.len() == bytes && (i + 1) * bytes < body.len();
                            if flush {
                                assert_eq!(z::deflate(stream, z::Z_SYNC_FLUSH), z::Z_OK);
                            } else if more {
                                assert_eq!(z::deflate(stream, z::Z_NO_FLUSH), z::Z_OK);
                            }
                        }
                        assert_eq!(z::deflate(stream, z::Z_FINISH), z::Z_STREAM_END);
                        out.len() - (*stream).avail_out as usize
                    };
                    out.truncate(written);
                }
            }
        }
    };
}

zlib!(ng, libz_ng_sys);
zlib!(rs, libz_rs_sys);

impl Anchor {
    pub fn zlib_ng(level: i32) -> Self {
        Self::ZlibNg(ng::Stream::new(level), level)
    }

    pub fn zlib_rs(level: i32) -> Self {
        Self::ZlibRs(rs::Stream::new(level), level)
    }

    pub fn igzip(level: u32) -> Self {
        Self::Igzip(Igzip::new(level), level)
    }

    pub fn libdeflate(level: i32) -> Self {
        Self::Libdeflate(Compressor::new(CompressionLvl::new(level).expect("a level")), level)
    }

    pub fn name(&self) -> String {
        match self {
            Self::ZlibNg(_, level) => format!("zlib-ng -{level}"),
            Self::ZlibRs(_, level) => format!("zlib-rs -{level}"),
            Self::Igzip(_, level) => format!("igzip -{level}"),
            Self::Libdeflate(_, level) => format!("libdeflate -{level}"),
            #[cfg(slz)]
            Self::Slz => "slz".to_owned(),
        }
    }

    /// A whole gzip stream.
    pub fn encode(&mut self, body: &[u8], cut: Cut, out: &mut Vec<u8>) {
        match self {
            Self::ZlibNg(stream, _) => stream.encode(body, cut, out),
            Self::ZlibRs(stream, _) => stream.encode(body, cut, out),
            Self::Igzip(stream, _) => stream.encode(body, cut, out),
            Self::Libdeflate(compressor, _) => {
                out.resize(compressor.gzip_compress_bound(body.len()), 0);
                let written = compressor.gzip_compress(body, out).expect("room");
                out.truncate(written);
            }
            #[cfg(slz)]
            Self::Slz => crate::slz::encode(body, cut.parts().0, out),
        }
    }
}
