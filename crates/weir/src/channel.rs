//! The conversation between a parent process and a child that runs the same program.
//!
//! Owns the unix socket that a child has as its standard input, and what is said over it: the parent sends
//! listening sockets, then connections to the command interface; the child says what its start had to say,
//! then that it is ready.  Its end is the end of the process behind it.  What either does about it is left to
//! [`crate::master`], [`crate::daemon`] and [`crate::worker`].

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use weir_config::model::AdminLevel;

/// What a child says before it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// It serves.
    Ready,
    /// A line for the start-up messages, already printed by the child.
    Said(String),
}

const READY: &str = "ready";
const SAID: &str = "said ";

/// Longest line that a parent reads from a child, bytes.
pub(crate) const LONGEST_LINE: u64 = 16 * 1024;

impl Word {
    /// The line that stands for it.
    fn line(&self) -> String {
        match self {
            Self::Ready => format!("{READY}\n"),
            Self::Said(text) => format!("{SAID}{}\n", text.trim_end().replace('\n', " ")),
        }
    }

    /// What a line stands for; unknown ones may come from a newer program and are passed over.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end_matches('\n');
        if line == READY {
            return Some(Self::Ready);
        }
        line.strip_prefix(SAID).map(|text| Self::Said(text.to_owned()))
    }
}

/// The child's end of the conversation.
#[derive(Debug)]
pub(crate) struct Parent {
    socket: UnixStream,
}

impl Parent {
    /// Takes the standard input, which must be the socket that the parent put there, and leaves `/dev/null`.
    pub(crate) fn from_stdin() -> io::Result<Self> {
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        // The roles are not for users: this is what tells them apart from the program's own children.
        socket.peer_addr().map_err(|_| io::Error::other("-role is for the program's own use"))?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(Self { socket })
    }

    /// Says something to the parent.
    pub(crate) fn say(&mut self, word: &Word) -> io::Result<()> {
        self.socket.write_all(word.line().as_bytes())
    }

    /// Says what the start had to say; the parent may be gone, and all of it is printed in any case.
    pub(crate) fn say_all<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        for line in lines {
            self.say(&Word::Said(line.to_owned())).ok();
        }
    }

    /// The socket, once everything is said: for receiving connections.
    pub(crate) fn into_socket(self) -> UnixStream {
        self.socket
    }

    /// The socket, for receiving listening sockets.
    pub(crate) fn socket(&self) -> &UnixStream {
        &self.socket
    }
}

/// Waits for a child to be ready, handing on what it says; false when it ends without.
pub(crate) fn wait_until_ready(child: &UnixStream, mut said: impl FnMut(String)) -> bool {
    let mut lines = BufReader::new(child);
    loop {
        let mut line = String::new();
        match io::Read::take(&mut lines, LONGEST_LINE).read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => match Word::parse(&line) {
                Some(Word::Ready) => return true,
                Some(Word::Said(text)) => said(text),
                None => {}
            },
        }
    }
}

/// Sends a connection to the command interface, with the rights of its client.
pub(crate) fn send_connection(to: BorrowedFd<'_>, connection: OwnedFd, level: AdminLevel) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [connection.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("a message has no room for a descriptor"));
    }
    let byte = [level_byte(level)];
    sendmsg(to, &[IoSlice::new(&byte)], &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// What a worker gets from its master while it serves.
#[derive(Debug)]
pub(crate) enum Received {
    /// A client of the command interface and its rights.
    Connection(UnixStream, AdminLevel),
    /// The master is gone.
    End,
}

/// Takes one message off a socket in non-blocking mode.
pub(crate) fn receive(from: BorrowedFd<'_>) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Ok(Received::End);
    }
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(Received::Connection(UnixStream::from(descriptor), level_of(byte[0])));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a message without a connection"))
}

fn level_byte(level: AdminLevel) -> u8 {
    match level {
        AdminLevel::User => b'u',
        AdminLevel::Operator => b'o',
        AdminLevel::Admin => b'a',
    }
}

/// Anything unknown has the fewest rights.
fn level_of(byte: u8) -> AdminLevel {
    match byte {
        b'a' => AdminLevel::Admin,
        b'o' => AdminLevel::Operator,
        _ => AdminLevel::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lines() {
        let check = |word: Word, line: &str| {
            assert_eq!(word.line(), line);
            assert_eq!(Word::parse(line), Some(word));
        };
        check(Word::Ready, "ready\n");
        check(Word::Said("[ALERT] x".into()), "said [ALERT] x\n");
        assert_eq!(Word::Said("two\nlines\n".into()).line(), "said two lines\n");
        assert_eq!(Word::parse("something newer\n"), None);
    }

    #[test]
    fn waiting_for_ready() {
        let check = |text: &str, expected, heard: &[&str]| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(text.as_bytes()).unwrap();
            drop(theirs);
            let mut said = Vec::new();
            assert_eq!(wait_until_ready(&ours, |text| said.push(text)), expected, "{text}");
            assert_eq!(said, heard);
        };
        check("said a\nwhat\nsaid b\nready\n", true, &["a", "b"]);
        check("said a\n", false, &["a"]);
        check("", false, &[]);
    }

    #[test]
    fn a_connection_travels_with_its_rights() {
        let (master, worker) = UnixStream::pair().unwrap();
        for level in [AdminLevel::User, AdminLevel::Operator, AdminLevel::Admin] {
            let (mut client, served) = UnixStream::pair().unwrap();
            send_connection(master.as_fd(), served.into(), level).unwrap();
            client.write_all(b"show info\n").unwrap();
            let Received::Connection(served, got) = receive(worker.as_fd()).unwrap() else { unreachable!() };
            assert_eq!(got, level);
            let mut line = String::new();
            BufReader::new(served).read_line(&mut line).unwrap();
            assert_eq!(line, "show info\n");
        }
        drop(master);
        assert!(matches!(receive(worker.as_fd()), Ok(Received::End)));
    }
}
