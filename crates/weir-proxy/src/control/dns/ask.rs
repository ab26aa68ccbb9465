//! Asking name servers: one socket for one question, all servers at once, the first valid answer counts.
//!
//! Owns sockets, times and counters of name servers; leaves what an answer says to [`super::message`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_net::Address;
use weir_net::connect::{ConnectOptions, connect};

use super::message::{Answer, Fault, Kind, Question, Service};
use super::{Count, Section};

/// Datagrams that are not the answer, before a socket is given up.
const MAX_STRAY_DATAGRAMS: usize = 16;

/// Longest answer over TCP (RFC 1035 section 4.2.2).
const MAX_TCP_BYTES: usize = 65_535;

/// An answer and the name server that gave it.
pub(crate) struct Told<T> {
    pub(crate) what: T,
    /// Index of the name server.
    pub(crate) by: usize,
}

/// Addresses of a name: the preferred family first, the other one when there is none.
///
/// Manual, section 5.3.2: another family is tried after an error, the same one after a timeout, all of it
/// `resolve_retries` times.
pub(crate) async fn addresses(
    section: &Arc<Section>,
    name: &str,
    ipv6: bool,
) -> Result<Told<Vec<IpAddr>>, Fault> {
    let kinds: Vec<Kind> = section.families.kinds(ipv6).collect();
    let told = retried(section, name, &kinds).await?;
    match told.what {
        Answer::Addresses { found, .. } => Ok(Told { what: found, by: told.by }),
        Answer::Services(_) => Err(Fault::Other),
    }
}

/// Services of a name.
pub(crate) async fn services(section: &Arc<Section>, name: &str) -> Result<Told<Vec<Service>>, Fault> {
    let told = retried(section, name, &[Kind::Srv]).await?;
    match told.what {
        Answer::Services(found) => Ok(Told { what: found, by: told.by }),
        Answer::Addresses { .. } => Err(Fault::Other),
    }
}

async fn retried(section: &Arc<Section>, name: &str, kinds: &[Kind]) -> Result<Told<Answer>, Fault> {
    let mut last = Fault::Other;
    for _ in 0..section.config.resolve_retries.max(1) {
        for kind in kinds {
            match all(section, name, *kind).await {
                Ok(told) => return Ok(told),
                Err(fault) => last = fault,
            }
            if last == Fault::Timeout {
                break;
            }
        }
    }
    Err(last)
}

/// One question to all name servers; the first valid answer, or the last error.
async fn all(section: &Arc<Section>, name: &str, kind: Kind) -> Result<Told<Answer>, Fault> {
    // Never closed.
    let _slot = section.slots.acquire().await;
    let mut asked = JoinSet::new();
    for at in 0..section.servers.len() {
        let (section, name) = (Arc::clone(section), name.to_owned());
        asked.spawn_local(async move {
            let question = Question { id: super::random_id(), name, kind };
            let limit = section.config.timeout_retry;
            let answer = timeout(limit, one(&section, at, &question)).await.unwrap_or(Err(Fault::Timeout));
            section.count_outcome(at, &answer);
            (at, answer)
        });
    }
    let mut last = Fault::Unreachable;
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((by, Ok(what))) => return Ok(Told { what, by }),
            Ok((_, Err(fault))) => last = fault,
            Err(_) => {}
        }
    }
    Err(last)
}

async fn one(section: &Section, at: usize, question: &Question) -> Result<Answer, Fault> {
    let server = &section.servers[at];
    let payload = u16::try_from(section.config.accepted_payload_size).unwrap_or(u16::MAX);
    let bytes = question.to_bytes(payload).ok_or(Fault::Other)?;
    section.count(at, Count::Sent);
    if server.tcp {
        return over_tcp(server.addr, question, &bytes).await;
    }
    match over_udp(server.addr, question, &bytes, usize::from(payload)).await {
        Err(Fault::Truncated) => {
            section.count(at, Count::Truncated);
            section.count(at, Count::Sent);
            over_tcp(server.addr, question, &bytes).await
        }
        answer => answer,
    }
}

/// A socket of its own for each question: an answer has to guess the port and the number.
async fn over_udp(
    to: SocketAddr,
    question: &Question,
    bytes: &[u8],
    payload: usize,
) -> Result<Answer, Fault> {
    let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).await.map_err(unreachable)?;
    socket.connect(to).await.map_err(unreachable)?;
    socket.send(bytes).await.map_err(unreachable)?;
    // One more byte than may come, to see that something was longer.
    let mut buffer = vec![0; payload + 1];
    for _ in 0..MAX_STRAY_DATAGRAMS {
        let length = socket.recv(&mut buffer).await.map_err(unreachable)?;
        if length > payload {
            return Err(Fault::TooBig);
        }
        match question.read(&buffer[..length]) {
            Err(Fault::NotOurs) => {}
            answer => return answer,
        }
    }
    Err(Fault::Invalid)
}

/// RFC 1035 section 4.2.2: each message has its length before it.
async fn over_tcp(to: SocketAddr, question: &Question, bytes: &[u8]) -> Result<Answer, Fault> {
    let length = u16::try_from(bytes.len()).map_err(|_| Fault::Other)?;
    let mut stream = connect(&Address::Ip(to), &ConnectOptions::default()).await.map_err(unreachable)?;
    let framed = [&length.to_be_bytes(), bytes].concat();
    stream.write_all(&framed).await.map_err(unreachable)?;
    stream.flush().await.map_err(unreachable)?;
    let mut received = Vec::new();
    loop {
        if let Some((length, message)) = received.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*length));
            if let Some(message) = message.get(..length) {
                return question.read(message);
            }
        }
        if stream.read(&mut received, MAX_TCP_BYTES).await.map_err(unreachable)? == 0 {
            return Err(Fault::Invalid);
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn unreachable(_: io::Error) -> Fault {
    Fault::Unreachable
}

/// How long a valid answer of before outweighs a fault, and the log's word for it.
pub(crate) fn hold(section: &Section, fault: Fault) -> (Duration, &'static str) {
    let config = &section.config;
    match fault {
        Fault::Nx => (config.hold_nx, "DNS NX status"),
        Fault::Refused => (config.hold_refused, "DNS refused status"),
        Fault::Timeout | Fault::Unreachable => (config.hold_timeout, "DNS timeout status"),
        Fault::NotOurs
        | Fault::Invalid
        | Fault::TooBig
        | Fault::Truncated
        | Fault::Empty
        | Fault::Alias
        | Fault::Other => (config.hold_other, "unspecified DNS error"),
    }
}
