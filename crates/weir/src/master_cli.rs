//! The master's command socket (`-S`).
//!
//! Owns the language of its lines and one client's session; asks the master for everything that concerns
//! processes, over a queue.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use weir_config::model::AdminLevel;
use weir_net::stream::Stream;

use crate::fleet::Pid;
use crate::version;

/// Longest line with its payload, bytes.
const LONGEST_INPUT: usize = 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;
/// Most commands on a line.
const MAX_COMMANDS: usize = 1_000;

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Master,
    /// The current worker by its number, from 1.
    Number(u32),
    /// Any worker, also a leaving one.
    Process(Pid),
}

/// A command for the master's loop.
#[derive(Debug)]
pub(crate) enum Ask {
    /// `show proc`
    ShowProcesses(oneshot::Sender<String>),
    /// `show startup-logs`
    StartupLogs(oneshot::Sender<String>),
    /// `reload`, `hard-reload`; answered when it is over.
    Reload { hard: bool, answer: oneshot::Sender<String> },
    /// A connection to a worker's command interface, or why there is none.
    Connect(Target, AdminLevel, oneshot::Sender<Result<std::os::unix::net::UnixStream, String>>),
}

/// One command of a line.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    /// `@1`, `@!PID`, `@`: in front of the command.
    target: Option<Target>,
    /// Empty when the line only chooses who runs what follows.
    text: String,
}

/// Splits a line at `;`, as long as no backslash stands before it.
fn commands(line: &str) -> Result<Vec<Command>, String> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, character) in line.char_indices().chain([(line.len(), ';')]) {
        if at == line.len() || (character == ';' && !escaped) {
            let part = line.get(start..at).unwrap_or_default().trim();
            start = at + 1;
            if !part.is_empty() {
                found.push(command(part)?);
            }
            if found.len() > MAX_COMMANDS {
                return Err(format!("more than {MAX_COMMANDS} commands on a line"));
            }
        }
        escaped = character == '\\' && !escaped;
    }
    Ok(found)
}

fn command(part: &str) -> Result<Command, String> {
    let Some(prefixed) = part.strip_prefix('@') else {
        return Ok(Command { target: None, text: part.to_owned() });
    };
    let (name, text) = prefixed.split_once(char::is_whitespace).unwrap_or((prefixed, ""));
    let unknown = || format!("Can't find the target PID matching the prefix '@{name}'.");
    let target = match name {
        "" | "master" => Target::Master,
        _ if name.starts_with('@') => return Err("'@@' is not implemented yet.".into()),
        _ => match name.strip_prefix('!') {
            Some(pid) => Target::Process(pid.parse().map_err(|_| unknown())?),
            None => match name.parse().map_err(|_| unknown())? {
                0 => Target::Master,
                number => Target::Number(number),
            },
        },
    };
    Ok(Command { target: Some(target), text: text.trim().to_owned() })
}

/// What a session remembers between commands.
#[derive(Debug)]
struct Session {
    asks: mpsc::Sender<Ask>,
    level: AdminLevel,
    target: Target,
    prompt: bool,
    /// Modes that every worker's session is put into first.
    expert: bool,
    experimental: bool,
}

/// Whether a session goes on after a command.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

/// Serves one client until it leaves.
pub(crate) async fn serve(mut client: Stream, level: AdminLevel, asks: mpsc::Sender<Ask>) -> io::Result<()> {
    let mut session =
        Session { asks, level, target: Target::Master, prompt: false, expert: false, experimental: false };
    let mut input = Vec::new();
    while let Some((line, payload)) = next_line(&mut client, &mut input).await? {
        let next = session.line(&mut client, &line, &payload).await?;
        if next == Next::Close || !session.prompt {
            break;
        }
        let prompt = session.prompt_text();
        client.write_all(prompt.as_bytes()).await?;
    }
    client.shutdown_write().await
}

/// A line, and the payload behind it when the line ends in `<<`.
async fn next_line(client: &mut Stream, input: &mut Vec<u8>) -> io::Result<Option<(String, Vec<u8>)>> {
    loop {
        if let Some((taken, line, payload)) = split_input(input) {
            input.drain(..taken);
            return Ok(Some((line, payload)));
        }
        if input.len() > LONGEST_INPUT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the command is too long"));
        }
        if client.read(input, READ_BYTES).await? == 0 {
            // The last line may lack its end.
            if input.is_empty() {
                return Ok(None);
            }
            input.extend_from_slice(b"\n\n");
        }
    }
}

/// A complete command at the start of the input: how much of it, its line, its payload.
fn split_input(input: &[u8]) -> Option<(usize, String, Vec<u8>)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(&input[..end]).trim().to_owned();
    if !line.ends_with("<<") {
        return Some((end + 1, line, Vec::new()));
    }
    let payload = &input[end + 1..];
    let length =
        if payload.starts_with(b"\n") { 1 } else { payload.windows(2).position(|pair| pair == b"\n\n")? + 2 };
    Some((end + 1 + length, line, payload[..length].to_vec()))
}

impl Session {
    fn prompt_text(&self) -> String {
        let modes = match (self.experimental, self.expert) {
            (true, true) => "(xe)",
            (true, false) => "(x)",
            (false, true) => "(e)",
            (false, false) => "",
        };
        match self.target {
            Target::Master => format!("master{modes}> "),
            Target::Number(number) | Target::Process(number) => format!("{number}{modes}> "),
        }
    }

    async fn line(&mut self, client: &mut Stream, line: &str, payload: &[u8]) -> io::Result<Next> {
        let commands = match commands(line) {
            Ok(commands) => commands,
            Err(message) => {
                client.write_all(format!("{message}\n\n").as_bytes()).await?;
                return Ok(Next::Continue);
            }
        };
        let last = commands.len().saturating_sub(1);
        for (at, command) in commands.into_iter().enumerate() {
            let payload = if at == last { payload } else { &[] };
            if self.command(client, command, payload).await? == Next::Close {
                return Ok(Next::Close);
            }
        }
        Ok(Next::Continue)
    }

    async fn command(&mut self, client: &mut Stream, command: Command, payload: &[u8]) -> io::Result<Next> {
        let target = command.target.unwrap_or(self.target);
        if command.text.is_empty() {
            self.target = target;
            return Ok(Next::Continue);
        }
        let words: Vec<&str> = command.text.split_whitespace().collect();
        match words[..] {
            ["quit"] => return Ok(Next::Close),
            ["prompt"] => self.prompt = !self.prompt,
            ["expert-mode", mode] if target == Target::Master || command.target.is_none() => {
                self.expert = mode == "on";
            }
            ["experimental-mode", mode] if target == Target::Master || command.target.is_none() => {
                self.experimental = mode == "on";
            }
            _ if target != Target::Master => {
                self.forward(client, target, &command.text, payload).await?;
            }
            _ => return self.own(client, &words).await,
        }
        Ok(Next::Continue)
    }

    /// A command of the master's own.
    async fn own(&self, client: &mut Stream, words: &[&str]) -> io::Result<Next> {
        let (answer, reply) = oneshot::channel();
        let hard = words == ["hard-reload"];
        let ask = match words {
            ["show", "proc", ..] => Ask::ShowProcesses(answer),
            ["show", "startup-logs"] => Ask::StartupLogs(answer),
            ["reload" | "hard-reload"] if self.level >= AdminLevel::Operator => Ask::Reload { hard, answer },
            ["reload" | "hard-reload"] => {
                client.write_all(b"Permission denied\n\n").await?;
                return Ok(Next::Continue);
            }
            ["show", "version"] => {
                client.write_all(format!("{}\n\n", version::full()).as_bytes()).await?;
                return Ok(Next::Continue);
            }
            ["help"] => {
                client.write_all(HELP.as_bytes()).await?;
                return Ok(Next::Continue);
            }
            _ => {
                let text = format!("Unknown command: '{}'; 'help' lists all commands.\n\n", words.join(" "));
                client.write_all(text.as_bytes()).await?;
                return Ok(Next::Continue);
            }
        };
        let reload = matches!(ask, Ask::Reload { .. });
        // The master's loop only goes away when the process does.
        self.asks.send(ask).await.ok();
        let text = reply.await.unwrap_or_default();
        client.write_all(text.as_bytes()).await?;
        client.write_all(b"\n").await?;
        // After a reload the connection closes, as it does where the master replaces itself.
        Ok(if reload { Next::Close } else { Next::Continue })
    }

    /// Runs a command in a worker and copies its answer.
    async fn forward(
        &self,
        client: &mut Stream,
        target: Target,
        text: &str,
        payload: &[u8],
    ) -> io::Result<()> {
        let (answer, reply) = oneshot::channel();
        self.asks.send(Ask::Connect(target, self.level, answer)).await.ok();
        let worker = match reply.await {
            Ok(Ok(worker)) => worker,
            Ok(Err(message)) => return client.write_all(format!("{message}\n\n").as_bytes()).await,
            Err(_) => return client.write_all(b"The master is ending.\n\n").await,
        };
        worker.set_nonblocking(true)?;
        let mut worker = tokio::net::UnixStream::from_std(worker)?;
        let (line, silent) = self.for_worker(text);
        worker.write_all(line.as_bytes()).await?;
        worker.write_all(payload).await?;
        worker.shutdown().await?;
        copy_answer(&mut worker, client, silent).await
    }

    /// The line for a worker, and how many empty answers come before the command's own.
    fn for_worker(&self, text: &str) -> (String, usize) {
        let modes = [(self.expert, "expert-mode on"), (self.experimental, "experimental-mode on")];
        let modes = modes.iter().filter(|(on, _)| *on).map(|(_, command)| *command);
        let mut parts: Vec<&str> = modes.collect();
        let silent = parts.len();
        parts.push(text);
        (format!("{}\n", parts.join(";")), silent)
    }
}

/// Copies a worker's answer, without the empty lines that stand for silent commands before it.
async fn copy_answer(
    worker: &mut tokio::net::UnixStream,
    client: &mut Stream,
    mut silent: usize,
) -> io::Result<()> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let length = match worker.read(&mut bytes).await? {
            0 => return Ok(()),
            length => length,
        };
        let mut part = &bytes[..length];
        while let Some(rest) = part.strip_prefix(b"\n").filter(|_| silent > 0) {
            (part, silent) = (rest, silent - 1);
        }
        if !part.is_empty() {
            silent = 0;
        }
        client.write_all(part).await?;
    }
}

const HELP: &str = "\
The following commands are valid at this level:
  @!<pid> [command]        : send a command to the <pid> process
  @<relative pid> [command]: send a command to the <relative pid> process
  @master [command]        : send a command to the master process
  experimental-mode [on|off] : experimental mode of the workers' sessions
  expert-mode [on|off]     : expert mode of the workers' sessions
  hard-reload              : reload, and end the old worker at once
  help                     : this text
  prompt                   : toggle interactive mode with prompt
  quit                     : disconnect
  reload                   : reload
  show proc                : show the processes
  show startup-logs        : messages of the last start or reload
  show version             : version of the program

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, expected: &[(Option<Target>, &str)]| {
            let found = commands(line).unwrap();
            let found: Vec<_> = found.iter().map(|command| (command.target, command.text.as_str())).collect();
            assert_eq!(found, expected, "{line}");
        };
        check("show proc", &[(None, "show proc")]);
        check("@1 show info", &[(Some(Target::Number(1)), "show info")]);
        check(
            "@!1271 show info;@!1272 show stat",
            &[(Some(Target::Process(1271)), "show info"), (Some(Target::Process(1272)), "show stat")],
        );
        check(
            "@1; expert-mode on; debug dev log Victory",
            &[(Some(Target::Number(1)), ""), (None, "expert-mode on"), (None, "debug dev log Victory")],
        );
        check("@ show proc", &[(Some(Target::Master), "show proc")]);
        check("@master", &[(Some(Target::Master), "")]);
        check(r"@1 set map m a\;b", &[(Some(Target::Number(1)), r"set map m a\;b")]);
        check(r"a \\;b", &[(None, r"a \\"), (None, "b")]);
        check(" ; ;", &[]);
        check("", &[]);
    }

    #[test]
    fn mistakes() {
        let check = |line: &str| assert!(commands(line).is_err(), "{line}");
        check("@one show info");
        check("@!x show info");
        check("@@1 show info");
        check(&"a;".repeat(MAX_COMMANDS + 1));
    }

    #[test]
    fn input_with_payload() {
        let check = |input: &str, expected: Option<(usize, &str, &str)>| {
            let found = split_input(input.as_bytes());
            let found =
                found.map(|(taken, line, payload)| (taken, line, String::from_utf8(payload).unwrap()));
            let expected =
                expected.map(|(taken, line, payload)| (taken, line.to_owned(), payload.to_owned()));
            assert_eq!(found, expected, "{input:?}");
        };
        check("show", None);
        check("show\nmore", Some((5, "show", "")));
        check("@1 add map m <<\na b\nc d\n", None);
        check("@1 add map m <<\na b\nc d\n\nx", Some((25, "@1 add map m <<", "a b\nc d\n\n")));
        check("@1 add map m <<\n\nx", Some((17, "@1 add map m <<", "\n")));
    }
}
