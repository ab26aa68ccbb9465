//! One client of the socket, from its first byte to the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::AdminLevel;
use weir_net::Stream;
use weir_proxy::{Shared, Terms};

use super::command::{self, Step};
use super::input::Input;
use super::{Answer, Mode, Session, SeverityOutput, Versions};

/// How long a client may be silent (`stats timeout`) unless configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Serves a client until it is gone, silent for too long, or done.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    version: Arc<str>,
    versions: Arc<Versions>,
    mut stream: Stream,
    terms: Terms,
) {
    let session =
        Session { severity: terms.severity_output, ..session(shared, version, versions, terms.level) };
    // A client that is gone, or that was silent for too long, needs no answer.
    converse(session, &mut stream).await.ok();
    stream.shutdown_write().await.ok();
}

/// A client that has just connected.
fn session(shared: Arc<Shared>, version: Arc<str>, versions: Arc<Versions>, level: AdminLevel) -> Session {
    let timeout = shared.config.global.stats_timeout.unwrap_or(DEFAULT_TIMEOUT);
    Session {
        shared,
        version,
        versions,
        level,
        mode: Mode::Single,
        timed: false,
        expert: false,
        experimental: false,
        severity: SeverityOutput::None,
        timeout,
    }
}

/// What a client with all rights reads that sent these bytes and no more; commands that take time answer nothing.
pub(crate) fn answers(
    shared: Arc<Shared>,
    version: Arc<str>,
    versions: Arc<Versions>,
    received: &[u8],
) -> String {
    let mut input = Input::new(shared.config.global.tune.cli_max_payload_size);
    let mut session = session(shared, version, versions, AdminLevel::Admin);
    input.push(received);
    let mut text = String::new();
    while let Some(line) = input.next(true) {
        let commands = match line {
            Ok(commands) => commands,
            Err(too_much) => return text + &session.render(&Answer::error(too_much.text())),
        };
        for command in commands {
            let answer = command::run(&mut session, &command);
            text.push_str(&session.render(&answer));
        }
    }
    text
}

async fn converse(mut session: Session, stream: &mut Stream) -> io::Result<()> {
    let mut input = Input::new(session.shared.config.global.tune.cli_max_payload_size);
    let mut received = Vec::new();
    let mut ended = false;
    loop {
        while let Some(line) = input.next(ended) {
            let commands = match line {
                Ok(commands) => commands,
                Err(too_much) => {
                    return send(&session, stream, &session.render(&Answer::error(too_much.text()))).await;
                }
            };
            for command in commands {
                if let Step::Quit = run(&mut session, stream, &command).await? {
                    return Ok(());
                }
            }
            if session.mode == Mode::Single {
                return Ok(());
            }
            prompt(&session, stream, "> ").await?;
        }
        if ended {
            return Ok(());
        }
        if input.in_payload() {
            prompt(&session, stream, "+ ").await?;
        }
        received.clear();
        let read = stream.read(&mut received, READ_BYTES);
        let count =
            tokio::time::timeout(session.timeout, read).await.map_err(|_| io::ErrorKind::TimedOut)??;
        ended = count == 0;
        input.push(&received);
    }
}

/// Runs a command and sends its answer.
async fn run(session: &mut Session, stream: &mut Stream, request: &super::Request) -> io::Result<Step> {
    let mut answer = command::run(session, request);
    while let Answer::Later(work) = answer {
        answer = work.await;
    }
    if let Answer::Quit = answer {
        return Ok(Step::Quit);
    }
    send(session, stream, &session.render(&answer)).await?;
    Ok(Step::Next)
}

async fn prompt(session: &Session, stream: &mut Stream, text: &str) -> io::Result<()> {
    if session.mode != Mode::Prompt {
        return Ok(());
    }
    let seconds = session.shared.now_ms() / 1000;
    let time = format!(
        "[{}:{:02}:{:02}:{:02}]",
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    let text = if session.timed { time + text } else { text.to_owned() };
    send(session, stream, &text).await
}

async fn send(session: &Session, stream: &mut Stream, text: &str) -> io::Result<()> {
    tokio::time::timeout(session.timeout, stream.write_all(text.as_bytes()))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}
