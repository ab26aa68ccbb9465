//! One client of the socket, from its first byte to the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::AdminLevel;
use weir_net::Stream;
use weir_proxy::Shared;

use super::command::{self, Step};
use super::input::Input;
use super::{Answer, Condition, Mode, Session, SeverityOutput, Versions, dynamic};

/// How long a client may be silent (`stats timeout`) unless configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a condition is looked at that somebody waits for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Serves a client until it is gone, silent for too long, or done.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    version: Arc<str>,
    versions: Arc<Versions>,
    mut stream: Stream,
    level: AdminLevel,
) {
    let timeout = shared.config.global.stats_timeout.unwrap_or(DEFAULT_TIMEOUT);
    let session = Session {
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
    };
    // A client that is gone, or that was silent for too long, needs no answer.
    converse(session, &mut stream).await.ok();
    stream.shutdown_write().await.ok();
}

async fn converse(mut session: Session, stream: &mut Stream) -> io::Result<()> {
    let mut input = Input::default();
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
    match answer {
        Answer::Quit => return Ok(Step::Quit),
        Answer::Wait(time, None) => tokio::time::sleep(time).await,
        Answer::Wait(time, Some(condition)) => answer = wait_until(session, time, &condition).await,
        Answer::Done | Answer::Message(..) | Answer::Data(_) => {}
    }
    send(session, stream, &session.render(&answer)).await?;
    Ok(Step::Next)
}

/// Waits for a condition, looking at it regularly.
async fn wait_until(session: &Session, time: Duration, condition: &Condition) -> Answer {
    let end = tokio::time::Instant::now() + time;
    loop {
        if let Some(answer) = dynamic::look(session, condition) {
            return answer;
        }
        if tokio::time::Instant::now() >= end {
            return Answer::error("Wait delay expired.");
        }
        tokio::time::sleep(LOOK_INTERVAL.min(end - tokio::time::Instant::now())).await;
    }
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
