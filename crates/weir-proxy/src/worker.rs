//! One thread of the data plane: what its connections share without locks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use weir_config::model::{Config, Proxy};
use weir_http::h1::{CaseMap, ParseOptions};
use weir_rules::Environment;

use crate::buffer::BufferPool;
use crate::compression;
use crate::counters::Counter;
use crate::environment::WorkerEnvironment;
use crate::log::Logger;
use crate::peers::Group;
use crate::pool::Pool;
use crate::process::Services;
use crate::sessions::Sessions;
use crate::state::{ProxyState, Shared};

/// What is compressed between a frontend and a backend, if anything is.
type CompressionSettings = Option<Rc<weir_compress::Settings>>;

/// A proxy's settings with a count of its own on this thread: taking one touches no memory of other threads.
pub(crate) struct LocalProxy(Arc<Proxy>);

impl Deref for LocalProxy {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.0
    }
}

/// A thread's own state; everything on it runs on that thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// This thread's number, from 0.
    pub(crate) thread: usize,
    pub(crate) buffers: RefCell<BufferPool>,
    /// Settings of the proxies, counted by this thread alone: every stage of every request takes one.
    proxies: Vec<Rc<LocalProxy>>,
    /// What goes on on this thread.
    pub(crate) sessions: Sessions,
    /// Idle connections to servers.
    pub(crate) pool: Pool,
    pub(crate) logger: Logger,
    /// The rules' view of the process.
    pub(crate) env: Rc<dyn Environment>,
    /// Statistics page and runtime commands.
    pub(crate) services: Arc<dyn Services>,
    /// `h1-case-adjust`.
    pub(crate) case_map: CaseMap,
    response_options: ParseOptions,
    /// Scratch of the compression engine.
    pub(crate) compression_scratch: RefCell<weir_compress::Scratch>,
    /// Compression settings by (frontend, backend), computed once.
    compression: RefCell<HashMap<(usize, usize), CompressionSettings>>,
    /// Those who wait for the soft stop.
    stop_waiters: RefCell<Vec<Waker>>,
    last_client: Cell<u64>,
    /// Connections on this thread.
    pub(crate) connections: Cell<usize>,
    /// `peers` sections, on the thread that serves them.
    pub(crate) peers: RefCell<Vec<Option<Rc<Group>>>>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, thread: usize, services: Arc<dyn Services>) -> Rc<Self> {
        let config = Arc::clone(&shared.config);
        let tune = &config.global.tune;
        let mut case_map = CaseMap::default();
        for name in shared.config.global.h1_case_adjust.values() {
            case_map.add(&String::from_utf8_lossy(name));
        }
        let env: Rc<dyn Environment> = Rc::new(WorkerEnvironment::new(&shared, thread));
        let logger = Logger::new(&shared);
        logger.attach(&shared, &env);
        Rc::new(Self {
            thread,
            buffers: RefCell::new(BufferPool::new(tune.bufsize)),
            proxies: config.proxies.iter().map(|proxy| Rc::new(LocalProxy(Arc::clone(proxy)))).collect(),
            sessions: Sessions::default(),
            pool: Pool::default(),
            logger,
            env,
            services,
            case_map,
            response_options: ParseOptions {
                max_head: tune.bufsize,
                max_fields: tune.http_maxhdr,
                ..ParseOptions::default()
            },
            compression_scratch: RefCell::default(),
            compression: RefCell::default(),
            stop_waiters: RefCell::default(),
            last_client: Cell::new(0),
            connections: Cell::new(0),
            peers: RefCell::default(),
            shared,
        })
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// A proxy's settings.
    pub(crate) fn proxy(&self, index: usize) -> &Rc<LocalProxy> {
        &self.proxies[index]
    }

    /// A proxy's state.
    pub(crate) fn state(&self, index: usize) -> &ProxyState {
        &self.shared.proxies[index]
    }

    /// Counts for a frontend.
    pub(crate) fn count_front(&self, index: usize, counter: Counter, by: u64) {
        self.shared.proxies[index].front.add(self.thread, counter, by);
    }

    /// Counts for a backend.
    pub(crate) fn count_back(&self, index: usize, counter: Counter, by: u64) {
        self.shared.proxies[index].back.add(self.thread, counter, by);
    }

    /// Limits for heads received from servers.
    pub(crate) fn response_options(&self) -> &ParseOptions {
        &self.response_options
    }

    /// Limits and tolerances for heads received from clients of a frontend.
    pub(crate) fn request_options(&self, proxy: &Proxy) -> ParseOptions {
        ParseOptions {
            accept_unsafe: proxy.options.accept_unsafe_violations_in_http_request,
            max_head: self.response_options.max_head - self.config().global.tune.maxrewrite,
            ..self.response_options
        }
    }

    /// What is compressed between a frontend and a backend.
    pub(crate) fn compression(&self, front: usize, back: usize) -> CompressionSettings {
        let mut known = self.compression.borrow_mut();
        known
            .entry((front, back))
            .or_insert_with(|| compression::settings(self.proxy(front), self.proxy(back)))
            .clone()
    }

    /// The level at which a compression may start now; `None` when the limits forbid it.
    pub(crate) fn compression_level(&self) -> Option<weir_compress::Level> {
        let global = &self.config().global;
        let limits = weir_compress::Limits {
            rate_bytes_per_second: u64::from(
                self.shared.limits.compression_kb_per_second.load(std::sync::atomic::Ordering::Relaxed),
            ) * 1024,
            cpu_percent: match global.maxcompcpuusage_percent {
                0 => 100,
                percent => percent,
            },
            max_level: global.tune.comp_maxlevel,
        };
        compression::level(limits, self.shared.load.of(self.thread))
    }

    /// A number no other client connection of this process has; 0 is nobody's.
    pub(crate) fn next_client_id(&self) -> u64 {
        let serial = self.last_client.get() + 1;
        self.last_client.set(serial);
        serial * self.shared.threads as u64 + self.thread as u64
    }

    /// Wakes `waker` when the soft stop begins.
    pub(crate) fn on_stop(&self, waker: &Waker) {
        self.stop_waiters.borrow_mut().push(waker.clone());
    }

    /// The soft stop has begun: everybody has a look.
    pub(crate) fn announce_stop(&self) {
        for waker in self.stop_waiters.take() {
            waker.wake();
        }
    }
}
