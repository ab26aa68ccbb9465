//! What to do next for an answer that is being sent: the same for both versions of HTTP, without socket and clock.
//!
//! ```text
//!                     +--------- pause ---------+
//!                     v                         |
//!  Held ----> Head -> Body -- a piece is sent --+
//!    (delay)   |       |
//!              |       +--> broken off: Stall, Reset, Cut
//!              v       v
//!              Ended <-+
//! ```

use std::rc::Rc;
use std::time::Duration;

use crate::answer::{Answer, Body};
use crate::content::BLOCK_BYTES;
use crate::url::Break;

/// What to do next; [`Delivery::done`] when it is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Wait(Duration),
    Head,
    /// Send a part of the body: this much at most.
    Data(&'a [u8]),
    Break(Break),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    Head,
    Body,
    Paused,
    Ended,
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) answer: Rc<Answer>,
    state: State,
    /// The head is all there is: the answer to HEAD.
    head_only: bool,
    /// Bytes of the body that are sent.
    sent: u64,
    events: Events,
}

/// A stream of events: the one that is being sent.
#[derive(Debug, Default)]
struct Events {
    number: u64,
    text: Vec<u8>,
    sent: usize,
}

impl Events {
    fn next(&mut self) {
        self.number += 1;
        self.text = format!("id: {0}\ndata: {{\"event\":{0}}}\n\n", self.number).into_bytes();
        self.sent = 0;
    }
}

impl Delivery {
    pub(crate) fn new(answer: Rc<Answer>, head_only: bool) -> Self {
        let state = if answer.delay.is_zero() { State::Head } else { State::Held };
        let mut delivery = Self { answer, state, head_only, sent: 0, events: Events::default() };
        if matches!(delivery.answer.body, Body::Events(1..)) {
            delivery.events.next();
        }
        delivery
    }

    /// What to do next; the same until it is done.
    pub(crate) fn step(&self) -> Step<'_> {
        match self.state {
            State::Held => Step::Wait(self.answer.delay),
            State::Head => match self.answer.breaks {
                Some((how, None)) => Step::Break(how),
                _ => Step::Head,
            },
            State::Paused => Step::Wait(self.answer.pause.unwrap_or_default()),
            State::Body => match self.answer.breaks {
                Some((how, Some(after))) if self.sent == after => Step::Break(how),
                _ => match self.piece() {
                    [] => Step::End,
                    data => Step::Data(data),
                },
            },
            State::Ended => Step::End,
        }
    }

    /// The step is done; of data so many bytes, of which a body's end may be the last.
    pub(crate) fn done(&mut self, bytes: usize) {
        self.state = match self.state {
            State::Held => State::Head,
            State::Head if self.ends_with_head() => State::Ended,
            State::Head | State::Paused => State::Body,
            State::Body => self.sent_more(bytes),
            State::Ended => State::Ended,
        };
    }

    /// No body follows the head, and nothing goes wrong behind it.
    pub(crate) fn ends_with_head(&self) -> bool {
        self.head_only || (self.answer.length == Some(0) && self.answer.breaks.is_none())
    }

    /// The answer is complete with these bytes of it.
    pub(crate) fn ends_after(&self, bytes: usize) -> bool {
        let sent = self.sent + bytes as u64;
        let broken = matches!(self.answer.breaks, Some((_, Some(after))) if after == sent);
        self.answer.length == Some(sent) && !broken
    }

    fn sent_more(&mut self, bytes: usize) -> State {
        self.sent += bytes as u64;
        if let Body::Events(count) = self.answer.body {
            self.events.sent += bytes;
            if self.events.sent < self.events.text.len() || self.events.number == count {
                return State::Body;
            }
            self.events.next();
            return self.paused();
        }
        let at_piece = self.answer.piece.is_some_and(|piece| self.sent.is_multiple_of(piece));
        if at_piece && !self.piece().is_empty() { self.paused() } else { State::Body }
    }

    fn paused(&self) -> State {
        if self.answer.pause.is_some_and(|pause| !pause.is_zero()) { State::Paused } else { State::Body }
    }

    /// What can be sent at once of what is left.
    fn piece(&self) -> &[u8] {
        let left: &[u8] = match &self.answer.body {
            Body::Filled(fill, len) => {
                let start = (self.sent % BLOCK_BYTES as u64) as usize;
                let left = len.saturating_sub(self.sent).min((BLOCK_BYTES - start) as u64) as usize;
                fill.block().get(start..start + left).unwrap_or_default()
            }
            Body::Bytes(bytes) => bytes.get(self.sent as usize..).unwrap_or_default(),
            Body::Events(_) => self.events.text.get(self.events.sent..).unwrap_or_default(),
        };
        let mut most = left.len() as u64;
        if let Some(piece) = self.answer.piece {
            most = most.min(piece - self.sent % piece);
        }
        if let Some((_, Some(after))) = self.answer.breaks
            && after > self.sent
        {
            most = most.min(after - self.sent);
        }
        left.get(..most as usize).unwrap_or(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::standard;
    use weir_http::Request;

    /// The steps of a URL's answer, in short; at most `max`.
    fn steps(url: &str, head_only: bool, max: usize) -> String {
        let mut request = Request::default();
        request.set_method(b"GET");
        request.set_uri(url.as_bytes());
        let mut delivery = Delivery::new(standard()(&request, 0), head_only);
        let mut told = Vec::new();
        for _ in 0..max {
            let (text, bytes) = match delivery.step() {
                Step::Wait(time) => (format!("{}ms", time.as_millis()), 0),
                Step::Head => ("head".to_owned(), 0),
                Step::Data(data) => (data.len().to_string(), data.len()),
                Step::Break(how) => (format!("{how:?}"), 0),
                Step::End => ("end".to_owned(), 0),
            };
            let stop = matches!(delivery.step(), Step::Break(_) | Step::End);
            told.push(text);
            if stop {
                break;
            }
            delivery.done(bytes);
        }
        told.join(" ")
    }

    #[test]
    fn urls_step_by_step() {
        let check = |url: &str, expected: &str| assert_eq!(steps(url, false, 12), expected, "{url}");
        check("/bytes/60", "head 60 end");
        check("/bytes/0", "head end");
        check("/status/204", "head end");
        check("/status/503", "head 24 end");
        check("/delay/50ms", "50ms head 7 end");
        check("/bytes/300000", "head 131072 131072 37856 end");
        check("/chunked/0", "head end");
        check("/chunked/10?chunk=4", "head 4 4 2 end");
        check("/bytes/10?chunk=5&every=20ms", "head 5 20ms 5 end");
        check("/bytes/10?chunk=5&every=0", "head 5 5 end");
        check("/stall", "Stall");
        check("/delay/5ms/reset", "5ms Reset");
        check("/bytes/9000/stall/1000", "head 1000 Stall");
        check("/bytes/9000/reset/0", "head Reset");
        check("/bytes/0/stall/0", "head Stall");
        check("/chunked/10/cut/10", "head 10 Cut");
        check("/bytes/10/cut/20", "head 10 end");
        check("/bytes/10/cut/7?chunk=4", "head 4 3 Cut");
        check("/live?count=2&every=5ms", "head 25 5ms 25 end");
        check("/live?count=0", "head end");
        check("/live", "head 25 1000ms 25 1000ms 25 1000ms 25 1000ms 25 1000ms 25");
    }

    #[test]
    fn heads_alone() {
        let check = |url: &str, expected: &str| assert_eq!(steps(url, true, 12), expected, "{url}");
        check("/bytes/60", "head end");
        check("/live", "head end");
        check("/delay/5ms", "5ms head end");
        check("/stall", "Stall");
    }

    #[test]
    fn parts_make_the_whole() {
        let mut request = Request::default();
        request.set_method(b"GET");
        request.set_uri(b"/bytes/1000000?chunk=7777");
        let answer = standard()(&request, 0);
        let mut delivery = Delivery::new(Rc::clone(&answer), false);
        delivery.done(0);
        let mut body = Vec::new();
        while let Step::Data(data) = delivery.step() {
            // A socket takes what it likes.
            let taken = data.len().min(5000);
            body.extend_from_slice(&data[..taken]);
            assert_eq!(delivery.ends_after(taken), body.len() == 1_000_000);
            delivery.done(taken);
        }
        assert_eq!(delivery.step(), Step::End);
        let expected: Vec<u8> =
            crate::content::Fill::Text.block().iter().copied().cycle().take(1_000_000).collect();
        assert!(body == expected);
    }
}
