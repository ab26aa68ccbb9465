//! Time to read and to write one small request head: `cargo run --profile bench-dev --example h1_speed`.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use weir_http::Request;
use weir_http::h1::{ParseOptions, WriteOptions, parse_request, write_request};

const ROUNDS: u32 = 2_000_000;

fn main() -> std::io::Result<()> {
    let head = b"GET /index.html?x=1 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nX-Request: 17\r\n\r\n";
    let mut request = Request::default();
    let options = ParseOptions::default();
    let mut out = Vec::with_capacity(1024);
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(parse_request(black_box(head), &mut request, &options)).ok();
        }
        best.0 = best.0.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
        let start = Instant::now();
        for _ in 0..ROUNDS {
            out.clear();
            write_request(black_box(&request), &mut out, WriteOptions::default());
            black_box(&out);
        }
        best.1 = best.1.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    writeln!(std::io::stdout(), "{} bytes: parse {:.0} ns, write {:.0} ns", head.len(), best.0, best.1)
}
