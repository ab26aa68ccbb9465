//! Time to lay out a farm of 10,000 servers and to pick from it:
//! `cargo run -p weir-balance --profile bench-dev --example balance_speed`.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use weir_balance::{Algorithm, HashType, Load, Pick, Picker, ServerView, Settings};

const SERVERS: u32 = 10_000;
const PICKS: u64 = 200_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let algorithms = [
        ("roundrobin", Algorithm::RoundRobin, HashType::default()),
        ("static-rr", Algorithm::StaticRr, HashType::default()),
        ("leastconn", Algorithm::LeastConn, HashType::default()),
        ("random(2)", Algorithm::Random { draws: 2 }, HashType::default()),
        ("hash map-based", Algorithm::Hash, HashType::default()),
        ("hash consistent", Algorithm::Hash, HashType::CONSISTENT),
    ];
    for (name, algorithm, hash_type) in algorithms {
        for (weights, spread) in [("equal weights", 1), ("weights 1 to 100", 100)] {
            let servers: Vec<_> = (0..SERVERS).map(|at| ServerView::new(at + 1, 1 + at % spread)).collect();
            let settings = Settings { algorithm, hash_type, ..Settings::default() };
            let start = Instant::now();
            let picker = Picker::new(&settings, black_box(&servers));
            let built = start.elapsed();
            let start = Instant::now();
            for turn in 0..PICKS {
                let hash = Some((turn as u32).wrapping_mul(2_654_435_761));
                let pick = Pick { turn, hash, random: turn, ..Pick::default() };
                black_box(picker.pick(&pick, |server| Load { served: server as u32 & 3, ..Load::default() }));
            }
            let each_ns = start.elapsed().as_nanos() as f64 / PICKS as f64;
            writeln!(out, "{name:16} {weights:17} laid out in {built:>9.2?}, a pick {each_ns:>5.0} ns")?;
        }
    }
    Ok(())
}
