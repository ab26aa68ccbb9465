//! Statistics and runtime commands: what people and tools see and change of a running process.
//!
//! Owns the words and layouts of HAProxy's management interface; the state itself is `weir-proxy`'s.

mod value;

mod object;

// What is shown: tables of figures, and how they are written.

mod stat;

mod info;

mod report;

// What is changed.

mod change;

// Where it is asked.

mod cli;

mod page;

mod metrics;

use std::pin::Pin;
use std::sync::Arc;

use weir_net::Stream;
use weir_proxy::{Services, Shared, Terms};
use weir_rules::{Reply, Txn};

/// The administrative side of a process.
#[derive(Debug, Clone)]
pub struct Administration {
    version: Arc<str>,
    /// Versions of maps and ACL files that wait for their commit.
    versions: Arc<cli::Versions>,
}

impl Administration {
    /// For a program of this version, as `show info` and `show version` report it.
    #[must_use]
    pub fn new(version: &str) -> Self {
        Self { version: version.into(), versions: Arc::default() }
    }

    /// Runs what a client of the command socket with all rights sent, without a socket, and returns what the client
    /// would read. Commands that take time are not waited for: they answer nothing.
    #[must_use]
    pub fn answers(&self, shared: &Arc<Shared>, received: &[u8]) -> String {
        cli::answers(Arc::clone(shared), Arc::clone(&self.version), Arc::clone(&self.versions), received)
    }
}

impl Services for Administration {
    fn statistics(&self, shared: &Arc<Shared>, proxy: usize, txn: &Txn) -> Reply {
        page::answer(shared, &self.version, proxy, txn)
    }

    fn metrics(&self, shared: &Arc<Shared>, txn: &Txn) -> Reply {
        metrics::answer(shared, &self.version, txn)
    }

    fn administer(
        &self,
        shared: Arc<Shared>,
        stream: Stream,
        terms: Terms,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(cli::serve(shared, Arc::clone(&self.version), Arc::clone(&self.versions), stream, terms))
    }
}
