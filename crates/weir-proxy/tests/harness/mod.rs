//! A data plane on loopback, without anything administrative.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod h2_client;
pub(crate) mod reading;
pub(crate) mod tls_client;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use weir_net::Stream;
use weir_net::handover::Inheritance;
use weir_proxy::accept::listeners::bind_all;
use weir_proxy::accept::queue::AcceptQueues;
use weir_proxy::{Process, Services, Shared, Terms};
use weir_rules::{Reply, Txn, reply};

struct NoServices;

impl Services for NoServices {
    fn statistics(&self, _: &Arc<Shared>, _: usize, _: &Txn) -> Reply {
        reply::default_error(404)
    }

    fn metrics(&self, _: &Arc<Shared>, _: &Txn) -> Reply {
        reply::default_error(404)
    }

    fn administer(&self, _: Arc<Shared>, _: Stream, _: Terms) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    }
}

/// A process on loopback; it ends with this.
pub(crate) struct Running {
    process: Option<Process>,
    pub(crate) shared: Arc<Shared>,
    /// Where the first bind line listens.
    pub(crate) address: SocketAddr,
    /// Where each bind line listens, in order.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The threads that serve the first one.
    pub(crate) queues: Arc<AcceptQueues>,
}

/// Runs a configuration whose bind lines say `127.0.0.1:0`.
pub(crate) fn start(text: &str) -> Running {
    start_with(text, Arc::new(NoServices))
}

/// The same with something administrative.
pub(crate) fn start_with(text: &str, services: Arc<dyn Services>) -> Running {
    let loaded =
        weir_config::load_str("test", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let config = Arc::new(loaded.config);
    let listening = bind_all(&config, &mut Inheritance::default()).unwrap();
    let addresses: Vec<SocketAddr> =
        listening.iter().map(|one| one.listener.address().socket_addr().unwrap()).collect();
    let queues = Arc::clone(&listening[0].queues);
    let process = Process::start(config, listening, services).unwrap();
    let shared = Arc::clone(&process.shared);
    Running { process: Some(process), shared, address: addresses[0], addresses, queues }
}

impl Running {
    pub(crate) fn soft_stop(&self) {
        self.process.as_ref().unwrap().soft_stop();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) {
        self.process.take().unwrap().wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.hard_stop();
            process.wait();
        }
    }
}
