//! Bodies as the proxy gets them: gathered into pieces of 64 kB, the last of which ends the stream.
//!
//! A folder for each class, `CLASS.CONTENT`. The bars stand here.

use std::path::Path;

use weir_deflate::{Content, Encoder, Format, Level, Scratch};

use crate::anchors::{Anchor, Cut};
use crate::{Subject, files};

/// What the proxy keeps of a piece while it is busy with its stream.
const TAIL: usize = 4 * 1024;

/// What is asked of a level, relative to zlib-ng -1 as geometric means over the classes.
struct Bar {
    level: Level,
    size: f64,
    speed: f64,
    /// Another encoder, with what of its size and speed is asked.
    other: (&'static str, f64, f64),
}

const BARS: [Bar; 3] = [
    Bar { level: Level::Fast, size: 0.86, speed: 1.75, other: ("slz", 1.0, 1.0) },
    Bar { level: Level::Default, size: 0.80, speed: 1.55, other: ("igzip -1", 1.0, 1.03) },
    Bar { level: Level::High, size: 0.745, speed: 1.25, other: ("libdeflate -1", 1.0, 1.5) },
];

/// Seconds and bytes of one encoder over a class.
#[derive(Clone, Copy, Default)]
struct Total {
    seconds: f64,
    bytes: usize,
}

/// One of the classes, measured.
struct Row {
    class: String,
    bodies: usize,
    input: usize,
    totals: Vec<Total>,
}

impl Row {
    /// Speed and size relative to another encoder.
    fn relative(&self, i: usize, to: usize) -> (f64, f64) {
        let (own, other) = (self.totals[i], self.totals[to]);
        (other.seconds / own.seconds, own.bytes as f64 / other.bytes as f64)
    }
}

pub fn run(corpus: &Path, rounds: usize, piece: usize) {
    // Between two of ours stands another: the same search right before would have taught the branch predictor.
    let mut subjects = vec![
        Subject::Anchor(Anchor::zlib_ng(1)),
        Subject::Weir(Level::Fast),
        Subject::Anchor(Anchor::igzip(1)),
        Subject::Weir(Level::Default),
        Subject::Anchor(Anchor::libdeflate(1)),
        Subject::Weir(Level::High),
    ];
    #[cfg(slz)]
    subjects.push(Subject::Anchor(Anchor::Slz));
    println!(
        "pieces of {piece} bytes; speed and size relative to {}; libdeflate whole bodies",
        subjects[0].name()
    );
    print!("{:12}{:>7}{:>9}", "", "bodies", "kB");
    subjects.iter().for_each(|subject| print!("{:>16}", subject.name()));
    println!();
    let mut folders: Vec<_> =
        std::fs::read_dir(corpus).expect("the corpus").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    let mut rows = Vec::new();
    for folder in folders {
        let row = measure(&folder, &mut subjects, rounds, piece);
        print!("{:12}{:>7}{:>9}", row.class, row.bodies, row.input / 1024);
        (0..subjects.len()).for_each(|i| print_pair(row.relative(i, 0)));
        println!();
        rows.push(row);
    }
    print!("{:28}", "mean");
    (0..subjects.len()).for_each(|i| print_pair(mean(&rows, i, 0)));
    println!("\n");
    let names: Vec<String> = subjects.iter().map(Subject::name).collect();
    BARS.iter().for_each(|bar| judge(bar, &rows, &names));
}

fn print_pair((speed, size): (f64, f64)) {
    print!("{speed:>8.2} {size:>7.4}");
}

/// The geometric mean over the classes.
fn mean(rows: &[Row], i: usize, to: usize) -> (f64, f64) {
    let sum = rows
        .iter()
        .map(|row| row.relative(i, to))
        .fold((0.0, 0.0), |sum, (speed, size)| (sum.0 + speed.ln(), sum.1 + size.ln()));
    ((sum.0 / rows.len() as f64).exp(), (sum.1 / rows.len() as f64).exp())
}

fn judge(bar: &Bar, rows: &[Row], names: &[String]) {
    let place = |name: &str| names.iter().position(|known| known == name);
    let name = format!("{:?}", bar.level).to_lowercase();
    let Some(own) = place(&name) else { return };
    let (speed, size) = mean(rows, own, 0);
    let met = |met| if met { "met" } else { "MISSED" };
    println!("{name}: size {size:.3} (at most {:.3}): {}", bar.size, met(size <= bar.size));
    println!("{name}: speed {speed:.2} (at least {:.2}): {}", bar.speed, met(speed >= bar.speed));
    let (other, most, least) = bar.other;
    let Some(other_place) = place(other) else {
        println!("{name}: {other} is left out: it was not compiled");
        return;
    };
    let (speed, size) = mean(rows, own, other_place);
    println!("{name}: {size:.3} of {other}'s size (at most {most:.3}): {}", met(size <= most));
    println!("{name}: {speed:.2} of {other}'s speed (at least {least:.2}): {}", met(speed >= least));
    if bar.level == Level::Fast {
        let larger: Vec<&str> = rows
            .iter()
            .filter(|row| row.relative(own, other_place).1 > 1.0)
            .map(|row| row.class.as_str())
            .collect();
        println!("{name}: larger than {other} on {larger:?}: {}", met(larger.is_empty()));
    }
}

/// Seconds that this thread ran: what others take of the machine does not count.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the structure it is given.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the thread's clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn content(word: &str) -> Content {
    match word {
        "html" => Content::Html,
        "script" => Content::Script,
        "json" => Content::Json,
        "xml" => Content::Xml,
        "text" => Content::Text,
        _ => Content::Unknown,
    }
}

fn measure(folder: &Path, subjects: &mut [Subject], rounds: usize, piece: usize) -> Row {
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let (class, word) = name.split_once('.').expect("CLASS.CONTENT");
    let content = content(word);
    let bodies = files(folder);
    let mut totals = vec![Total::default(); subjects.len()];
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    for body in &bodies {
        // Small ones several times in a row, else the clock is most of what is measured.
        let times = (64 * 1024 / body.len()).max(1);
        let mut best = vec![f64::MAX; subjects.len()];
        for round in 0..rounds {
            for (i, subject) in subjects.iter_mut().enumerate() {
                let start = processor_time();
                for _ in 0..times {
                    out.clear();
                    encode(subject, body, content, piece, &mut out, &mut scratch);
                }
                best[i] = best[i].min((processor_time() - start) / times as f64);
                if round == 0 {
                    let mut back = Vec::new();
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&out[..]), &mut back)
                        .unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
                    assert!(&back == body, "{} does not give back what it was given", subject.name());
                    totals[i].bytes += out.len();
                }
            }
        }
        totals.iter_mut().zip(best).for_each(|(total, best)| total.seconds += best);
    }
    let input = bodies.iter().map(Vec::len).sum();
    Row { class: class.to_owned(), bodies: bodies.len(), input, totals }
}

fn encode(
    subject: &mut Subject,
    body: &[u8],
    content: Content,
    piece: usize,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) {
    match subject {
        Subject::Anchor(anchor) => anchor.encode(body, Cut::Open(piece), out),
        Subject::Weir(level) => {
            let mut encoder = Encoder::new(Format::Gzip, *level).with_content(content);
            // What is gathered is full before the end is seen, so that the end comes by itself.
            let mut pieces = body.chunks_exact(piece);
            let mut tail = Vec::new();
            for piece in &mut pieces {
                encoder.after(&tail).push(piece, out, scratch);
                tail = piece[piece.len().saturating_sub(TAIL)..].to_vec();
            }
            encoder.after(&tail).push_and_finish(pieces.remainder(), out, scratch);
        }
    }
}
