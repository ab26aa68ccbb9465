//! Mails about servers whose state changes (`email-alert`, `mailers` sections).
//!
//! Owns who is told what, the queues, and sending over SMTP (RFC 5321); leaves what there is to tell to
//! [`crate::control::check`].  Each mail server has a queue and a task of its own: a slow one holds nobody up.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Zoned;
use tokio::sync::mpsc;
use tokio::time::timeout;
use weir_config::model::{Config, EmailAlert};
use weir_net::connect::{ConnectOptions, connect};
use weir_net::{Address, Stream};

use crate::control::check::take;
use crate::log::level;
use crate::state::Shared;
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Mails that wait for one mail server; further ones are dropped.
const MAX_QUEUED_MAILS: usize = 256;

/// Longest text of a mail: with its name, the subject has to fit into a line (RFC 5322 section 2.1.1).
const MAX_TEXT_BYTES: usize = 900;

/// Longest reply of a mail server that is read.
const MAX_REPLY_BYTES: usize = 8 * 1024;

/// The mail servers of all sections.
pub(crate) struct Mailers(Vec<Mailer>);

struct Mailer {
    /// `section/name`
    name: String,
    section: String,
    address: SocketAddr,
    /// Time for a whole mail.
    limit: Duration,
    queue: mpsc::Sender<Mail>,
    queue_end: Mutex<Option<mpsc::Receiver<Mail>>>,
}

/// What a mail server is to pass on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mail {
    hostname: String,
    from: String,
    to: String,
    text: String,
}

impl Mailers {
    pub(crate) fn new(config: &Config) -> Self {
        let sections = config.mailers.iter();
        let all = sections.flat_map(|(section, mailers)| {
            mailers.servers.iter().map(move |(name, address)| {
                let (queue, queue_end) = mpsc::channel(MAX_QUEUED_MAILS);
                Mailer {
                    name: format!("{section}/{name}"),
                    section: section.clone(),
                    address: *address,
                    limit: mailers.timeout_mail,
                    queue,
                    queue_end: Mutex::new(Some(queue_end)),
                }
            })
        });
        Self(all.collect())
    }

    /// Tells what happened, where it is important enough; from any thread.
    pub(crate) fn tell(&self, alert: &EmailAlert, hostname: &str, level: u8, text: &str) {
        let Some((from, to, section)) = alert.complete().filter(|_| level <= alert.level) else { return };
        let hostname = alert.myhostname.as_deref().unwrap_or(hostname);
        for mailer in self.0.iter().filter(|mailer| mailer.section == section) {
            let mail = Mail {
                hostname: one_line(hostname),
                from: one_line(from),
                to: one_line(to),
                text: one_line(text),
            };
            // With so many of them waiting one more mail tells nothing new.
            let _queued_or_dropped = mailer.queue.try_send(mail);
        }
    }
}

/// Starts a task for each mail server; only the first thread does.
pub(crate) fn start(worker: &Rc<Worker>) {
    for at in 0..worker.shared.mailers.0.len() {
        let Some(mails) = take(&worker.shared.mailers.0[at].queue_end) else { continue };
        spawn_vital(send_all(Rc::clone(worker), at, mails));
    }
}

async fn send_all(worker: Rc<Worker>, at: usize, mut mails: mpsc::Receiver<Mail>) {
    let shared: &Shared = &worker.shared;
    let mailer = &shared.mailers.0[at];
    while let Some(mail) = mails.recv().await {
        let sent = timeout(mailer.limit, send(mailer.address, &mail)).await;
        let problem = match sent {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "timeout".to_owned(),
        };
        shared.log(level::ERR, &format!("Mailer {} could not send a mail: {problem}.", mailer.name));
    }
}

/// A mail, from the connection to the farewell.
async fn send(to: SocketAddr, mail: &Mail) -> io::Result<()> {
    let mut stream = connect(&Address::Ip(to), &ConnectOptions::default()).await?;
    let mut received = Vec::new();
    expect(&mut stream, &mut received, 220).await?;
    for (words, code) in mail.dialog(&Zoned::now()) {
        stream.write_all(words.as_bytes()).await?;
        stream.flush().await?;
        expect(&mut stream, &mut received, code).await?;
    }
    Ok(())
}

/// Waits for a reply with this code.
async fn expect(stream: &mut Stream, received: &mut Vec<u8>, code: u16) -> io::Result<()> {
    loop {
        if let Some((found, length)) = reply(received) {
            received.drain(..length);
            if found == Some(code) {
                return Ok(());
            }
            let found = found.map_or_else(|| "nonsense".to_owned(), |found| found.to_string());
            return Err(io::Error::other(format!("{code} was expected, {found} came")));
        }
        if received.len() >= MAX_REPLY_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read(received, MAX_REPLY_BYTES - received.len()).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The code of a complete reply and its length: lines with a hyphen after the code have one that follows
/// (RFC 5321 section 4.2.1).
fn reply(received: &[u8]) -> Option<(Option<u16>, usize)> {
    let mut length = 0;
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        if line.last() != Some(&b'\n') {
            return None;
        }
        length += line.len();
        if line.get(3) != Some(&b'-') {
            let code = line.get(..3).and_then(|code| std::str::from_utf8(code).ok());
            return Some((code.and_then(|code| code.parse().ok()), length));
        }
    }
    None
}

impl Mail {
    /// What is said, and the code of the reply to each.
    fn dialog(&self, now: &Zoned) -> [(String, u16); 6] {
        let Self { hostname, from, to, .. } = self;
        [
            (format!("EHLO {hostname}\r\n"), 250),
            (format!("MAIL FROM:<{from}>\r\n"), 250),
            (format!("RCPT TO:<{to}>\r\n"), 250),
            ("DATA\r\n".to_owned(), 354),
            (self.message(now), 250),
            ("QUIT\r\n".to_owned(), 221),
        ]
    }

    /// Header, body and the dot at the end.
    fn message(&self, now: &Zoned) -> String {
        let Self { from, to, text, .. } = self;
        let date = now.strftime("%a, %d %b %Y %H:%M:%S %z");
        // RFC 5321 section 4.5.2: a line with a dot at its start gets another one.
        let dot = if text.starts_with('.') { "." } else { "" };
        format!(
            "From: {from}\r\nTo: {to}\r\nDate: {date}\r\nSubject: [HAProxy Alert] {text}\r\n\r\n\
             {dot}{text}\r\n.\r\n"
        )
    }
}

/// Printable ASCII of bounded length: nothing can begin a line of its own.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    text.chars().take(MAX_TEXT_BYTES).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_says_what_happened() {
        let now: Zoned = "2026-11-22T05:06:07+01:00[+01:00]".parse().unwrap();
        let check = |text: &str, expected: &str| {
            let mail = Mail {
                hostname: "lb".into(),
                from: "a@b.test".into(),
                to: "c@d.test".into(),
                text: one_line(text),
            };
            assert_eq!(mail.message(&now), expected);
        };
        check(
            "Server b/s is DOWN",
            "From: a@b.test\r\nTo: c@d.test\r\nDate: Sun, 22 Nov 2026 05:06:07 +0100\r\n\
             Subject: [HAProxy Alert] Server b/s is DOWN\r\n\r\nServer b/s is DOWN\r\n.\r\n",
        );
        check(
            ".\r\n.\r\nQUIT",
            "From: a@b.test\r\nTo: c@d.test\r\nDate: Sun, 22 Nov 2026 05:06:07 +0100\r\n\
             Subject: [HAProxy Alert] .??.??QUIT\r\n\r\n..??.??QUIT\r\n.\r\n",
        );
    }

    #[test]
    fn replies_have_one_line_or_more() {
        let check = |received: &[u8], expected: Option<(Option<u16>, usize)>| {
            assert_eq!(reply(received), expected, "{}", String::from_utf8_lossy(received));
        };
        check(b"", None);
        check(b"220 hel", None);
        check(b"220 hello\r\n", Some((Some(220), 11)));
        check(b"250-a\r\n250-b\r\n", None);
        check(b"250-a\r\n250 b\r\n354", Some((Some(250), 14)));
        check(b"250\r\n", Some((Some(250), 5)));
        check(b"\n", Some((None, 1)));
        check(b"abc d\n", Some((None, 6)));
    }
}
