//! What the data plane asks of the administrative side.
//!
//! Owns the hand-over of listening sockets to a successor (`_getsocks`), which needs the sockets themselves;
//! everything else is `weir-admin`'s.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use weir_config::model::{AdminLevel, Config};
use weir_net::listen::Listener;
use weir_net::{Stream, handover};
use weir_proxy::accept::listeners::address_of;
use weir_proxy::{Services, Shared, Terms};
use weir_rules::{Reply, Txn};

use crate::console::{self, Level};
use crate::listeners::HAND_OVER;
use crate::version;

/// How long a client of a socket that hands listeners over may take to say what it wants.
const FIRST_WORD_LIMIT: Duration = Duration::from_secs(10);

/// Pause when a client seemed to have said something and has not.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Statistics page and runtime commands.
#[derive(Debug)]
pub(crate) struct Administration {
    commands: weir_admin::Administration,
    /// The listening sockets, for a successor.
    listeners: Mutex<Vec<Arc<Listener>>>,
    /// Somebody sees what the process says.
    aloud: bool,
}

impl Administration {
    /// With the sockets that a successor may ask for.
    pub(crate) fn new(listeners: Vec<Arc<Listener>>, aloud: bool) -> Self {
        let commands = weir_admin::Administration::new(&version::full());
        Self { commands, listeners: Mutex::new(listeners), aloud }
    }

    /// Lets the listening sockets go: the process accepts no more connections.
    pub(crate) fn forget_listeners(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Services for Administration {
    fn statistics(&self, shared: &Arc<Shared>, proxy: usize, txn: &Txn) -> Reply {
        self.commands.statistics(shared, proxy, txn)
    }

    fn metrics(&self, shared: &Arc<Shared>, txn: &Txn) -> Reply {
        self.commands.metrics(shared, txn)
    }

    /// Only what is over all servers of a proxy is an alert, as HAProxy says it.
    fn say(&self, level: u8, text: &str) {
        const EMERGENCY: u8 = 0;
        let level = if level == EMERGENCY { Level::Alert } else { Level::Warning };
        if self.aloud {
            console::complain(&level.line(text));
        }
    }

    fn administer(
        &self,
        shared: Arc<Shared>,
        mut stream: Stream,
        terms: Terms,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        if !may_take_over(&shared.config, &stream, terms.level) {
            return self.commands.administer(shared, stream, terms);
        }
        let (listeners, commands) = (self.listeners(), self.commands.clone());
        Box::pin(async move {
            if asks_for_listeners(&mut stream).await {
                // A successor that gives up sees its connection closed.
                hand_over(&stream, &listeners).ok();
            } else {
                commands.administer(shared, stream, terms).await;
            }
        })
    }
}

/// Sockets go to administrators alone, over a unix socket that says so (`expose-fd listeners`).
fn may_take_over(config: &Config, stream: &Stream, level: AdminLevel) -> bool {
    let Ok(address) = stream.local_addr().map(handover::final_name) else { return false };
    let exposing = config.global.stats_sockets.iter().filter(|bind| bind.expose_fd_listeners);
    level == AdminLevel::Admin
        && stream.is_unix()
        && exposing.filter_map(|bind| address_of(&bind.addr)?.address()).any(|exposed| exposed == address)
}

/// Looks at the first word without taking it from whoever serves the client otherwise.
async fn asks_for_listeners(stream: &mut Stream) -> bool {
    let word = tokio::time::timeout(FIRST_WORD_LIMIT, async {
        loop {
            stream.read_ready().await?;
            let mut first = [0; HAND_OVER.len()];
            match recv(stream.as_fd(), &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok(_) => return Ok::<_, io::Error>(first),
                // Readiness is a hint: there may be nothing yet.
                Err(rustix::io::Errno::AGAIN) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(error) => return Err(error.into()),
            }
        }
    });
    matches!(word.await, Ok(Ok(first)) if first == *HAND_OVER.as_bytes())
}

fn hand_over(stream: &Stream, listeners: &[Arc<Listener>]) -> io::Result<()> {
    // A socket that closes with unread bytes resets the connection: the command is taken first.
    recv(stream.as_fd(), &mut [0; HAND_OVER.len() + 1], RecvFlags::DONTWAIT)?;
    let socket = UnixStream::from(stream.as_fd().try_clone_to_owned()?);
    handover::send_listeners(&socket, listeners.iter().map(AsRef::as_ref))
}
