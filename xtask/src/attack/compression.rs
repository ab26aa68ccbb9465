//! Whether the size of a compressed page tells what was compressed before it.

use super::arena::Arena;
use super::origin::{Step, page};
use super::rows::Outcome;
use super::wire::{Reading, Wire, within};
use std::collections::BTreeMap;
use std::time::Duration;

/// More than the 32 kB that an encoder of deflate looks back over.
const PAGE_BYTES: usize = 40_000;

/// Secrets that are tried.
const SECRETS: usize = 8;

/// `/secret/N`: a page that holds secret N; `/guess/N`: a page that guesses it.
pub(super) fn pages(path: &str) -> Option<Vec<Step>> {
    let (kind, number) = path.strip_prefix('/')?.split_once('/')?;
    let word = secret(number.parse().ok()?);
    let body = match kind {
        "secret" => holding(&word),
        "guess" => guess(&word),
        _ => return None,
    };
    Some(vec![Step::Send(page(body.as_bytes()))])
}

/// Sixteen letters that no other secret has in this order.
fn secret(number: u64) -> String {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    std::iter::repeat_with(letter).take(16).collect()
}

/// What an encoder of deflate looks back over, and half of the buffer that it may keep.
const WINDOW: usize = 32_768;

/// A line that the page has twice, the second time right before the place where an encoder's buffer goes on.
const LINE: &str = "a line that stands twice: ";

/// A page with the guess right behind its first 32 kB, and many times more: an encoder that looks beyond what it was given
/// finds it there, or what another page had in its place.
fn guess(word: &str) -> String {
    let mut noise = (1000..).map(secret);
    let mut body = LINE.to_owned();
    fill(&mut body, WINDOW - LINE.len(), &mut noise);
    body.push_str(LINE);
    body.push_str(word);
    while body.len() < PAGE_BYTES {
        body.extend(noise.next());
        body.push_str(": ");
        body.push_str(word);
    }
    body
}

/// A page with the secret where the other one has its guess.
fn holding(word: &str) -> String {
    let mut noise = (9000..).map(secret);
    let mut body = String::new();
    fill(&mut body, WINDOW, &mut noise);
    body.push_str(word);
    fill(&mut body, PAGE_BYTES, &mut noise);
    body
}

fn fill(body: &mut String, to: usize, noise: &mut impl Iterator<Item = String>) {
    while body.len() < to {
        body.extend(noise.next());
    }
    body.truncate(to);
}

/// How often each is asked: what is read at once, and so how a body is cut, differs now and then.
const TIMES: usize = 5;

/// Guesses whose usual size differs between those that are right and those that are not.
pub(super) fn secrets(arena: &Arena<'_>) -> Outcome {
    let told = (0..SECRETS).filter(|secret| {
        let [right, wrong] = [*secret, secret + SECRETS].map(|guessed| usual_size(arena, *secret, guessed));
        let [right_alone, wrong_alone] =
            [*secret, secret + SECRETS].map(|guessed| usual_size(arena, NOBODY, guessed));
        right != right_alone || wrong != wrong_alone
    });
    let count = told.count() as u64;
    arena.hold();
    Outcome { count: Some(count), ..Outcome::default() }
}

/// A secret that nobody guesses.
const NOBODY: usize = 500;

/// The size that a guess has most often right after a secret.
fn usual_size(arena: &Arena<'_>, secret: usize, guessed: usize) -> Option<usize> {
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for _ in 0..TIMES {
        size(arena, &format!("/secret/{secret}"))?;
        *sizes.entry(size(arena, &format!("/guess/{guessed}"))?).or_default() += 1;
    }
    sizes.into_iter().max_by_key(|(_, times)| *times).map(|(size, _)| size)
}

/// The octets of a compressed answer's body, as they are sent.
fn size(arena: &Arena<'_>, path: &str) -> Option<usize> {
    let mut wire = Wire::open(arena.ports.http, Reading::Always).ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    );
    let until = within(Duration::from_secs(2));
    wire.send(request.as_bytes(), until).ok()?;
    wire.drain(until);
    let end = wire.received.windows(4).position(|four| four == b"\r\n\r\n")?;
    let compressed =
        String::from_utf8_lossy(&wire.received[..end]).to_ascii_lowercase().contains("encoding: gzip");
    compressed.then(|| deflated(&wire.received[end + 4..]))
}

/// What is left of a chunked body without the sizes of its chunks: they depend on how the bytes were cut.
fn deflated(mut body: &[u8]) -> usize {
    let mut sum = 0;
    while let Some(end) = body.iter().position(|octet| *octet == b'\n') {
        let line = String::from_utf8_lossy(&body[..end]);
        let Ok(size) = usize::from_str_radix(line.trim(), 16) else { break };
        if size == 0 {
            break;
        }
        sum += size;
        body = body.get(end + 1 + size + 2..).unwrap_or_default();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_longer_than_what_is_looked_back_over() {
        let [guessed, held] = [guess(&secret(3)), holding(&secret(3))];
        assert!(guessed.len() >= PAGE_BYTES && held.len() >= PAGE_BYTES);
        assert_eq!(guessed[WINDOW..WINDOW + 16], held[WINDOW..WINDOW + 16]);
        assert_ne!(secret(1), secret(2));
        assert_eq!(deflated(b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"), 13);
    }
}
