//! One thread of the data plane: what its connections share without locks.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use weir_compress::{Step, Throttle};
use weir_config::model::{Config, Proxy};
use weir_http::h1::{CaseMap, ParseOptions};
use weir_net::timers::now_ms;
use weir_rules::Environment;

use crate::control::peers::Group;
use crate::edge::backlog::ThreadHeads;
use crate::edge::buffer::BufferPool;
use crate::edge::fields_pool::FieldsPool;
use crate::exchange::running::Sessions;
use crate::filter::{self, Pieces, Plan};
use crate::log::Logger;
use crate::plan::Work;
use crate::process::Services;
use crate::server::reach::pool::Pool;
use crate::state::counters::Counter;
use crate::state::number_hash::NumberMap;
use crate::state::{ProxyState, Shared};
use crate::thread::closing::is_due;
use crate::thread::environment::WorkerEnvironment;

/// The filters between a frontend and a backend, if there are any.
type Filters = Option<Rc<Plan>>;

/// A proxy's settings with a count of its own on this thread: taking one touches no memory of other threads.
pub(crate) struct LocalProxy {
    settings: Arc<Proxy>,
    /// The stages of a request in which it has work.
    pub(crate) work: Work,
}

impl LocalProxy {
    fn new(settings: &Arc<Proxy>) -> Rc<Self> {
        Rc::new(Self { settings: Arc::clone(settings), work: Work::of(settings) })
    }
}

impl Deref for LocalProxy {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.settings
    }
}

/// A thread's own state; everything on it runs on that thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// This thread's number, from 0.
    pub(crate) thread: usize,
    pub(crate) buffers: RefCell<BufferPool>,
    pub(crate) fields: RefCell<FieldsPool>,
    /// Memory of the heads of HTTP/2 requests.
    pub(crate) heads: Rc<ThreadHeads>,
    /// Settings of the proxies, counted by this thread alone: every stage of every request takes one.
    proxies: Vec<Rc<LocalProxy>>,
    /// What goes on on this thread.
    pub(crate) sessions: Sessions,
    /// Idle connections to servers.
    pub(crate) pool: Pool,
    pub(crate) logger: Rc<Logger>,
    /// The rules' view of the process.
    pub(crate) env: Rc<dyn Environment>,
    /// Statistics page and runtime commands.
    pub(crate) services: Arc<dyn Services>,
    /// `h1-case-adjust`.
    pub(crate) case_map: CaseMap,
    response_options: ParseOptions,
    /// Scratch of the compression engine.
    pub(crate) compression_scratch: RefCell<weir_compress::Scratch>,
    /// How hard it may work.
    pub(crate) throttle: RefCell<Throttle>,
    /// Buffers for bodies between filters.
    pub(crate) pieces: Pieces,
    /// Filters by (frontend, backend), computed once.
    filters: RefCell<NumberMap<(usize, usize), Filters>>,
    stop_waiters: StopWaiters,
    last_client: Cell<u64>,
    /// Connections on this thread.
    pub(crate) connections: Cell<usize>,
    /// This thread's share of the process's descriptors.
    descriptors: usize,
    /// `peers` sections, on the thread that serves them.
    pub(crate) peers: RefCell<Vec<Option<Rc<Group>>>>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, thread: usize, services: Arc<dyn Services>) -> Rc<Self> {
        let config = Arc::clone(&shared.config);
        let tune = &config.global.tune;
        let threads = shared.threads.max(1);
        let mut case_map = CaseMap::default();
        for name in shared.config.global.h1_case_adjust.values() {
            case_map.add(&String::from_utf8_lossy(name));
        }
        let env = Rc::new(WorkerEnvironment::new(&shared, thread));
        let logger = Rc::new(Logger::new(&shared));
        env.attach(&logger);
        let env: Rc<dyn Environment> = env;
        logger.attach(&shared, &env);
        Rc::new(Self {
            thread,
            buffers: RefCell::new(BufferPool::new(tune.bufsize)),
            fields: RefCell::default(),
            heads: Rc::new(ThreadHeads::new(threads)),
            proxies: config.proxies.iter().map(LocalProxy::new).collect(),
            sessions: Sessions::default(),
            pool: Pool::default(),
            logger,
            env,
            services,
            case_map,
            response_options: ParseOptions {
                max_head: tune.bufsize,
                max_fields: tune.http_maxhdr,
                accept_payload_with_any_method: config.global.h1_accept_payload_with_any_method,
                ..ParseOptions::default()
            },
            compression_scratch: RefCell::new(
                weir_compress::Scratch::with_window_memory(tune.comp_window_memory / threads)
                    .with_reuse_memory(tune.comp_reuse_memory / threads),
            ),
            throttle: RefCell::new(Throttle::new(filter::limits(&shared))),
            pieces: Pieces::default(),
            filters: RefCell::default(),
            stop_waiters: StopWaiters::default(),
            last_client: Cell::new(0),
            connections: Cell::new(0),
            descriptors: descriptor_limit() / threads,
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

    /// Whether an idle connection to a server is kept: there have to be descriptors for clients.
    pub(crate) fn keeps_idle(&self) -> bool {
        !self.uses_descriptors(self.config().global.tune.pool_low_fd_ratio)
    }

    /// Closes an idle connection before a new one is opened when descriptors are getting scarce.
    pub(crate) fn make_room(&self) {
        if self.uses_descriptors(self.config().global.tune.pool_high_fd_ratio) {
            self.pool.close_one(self.thread);
        }
    }

    /// Whether more than so many percent of the thread's descriptors are in use.  Busy connections to servers are
    /// not counted: each has a client's beside it.
    fn uses_descriptors(&self, percent: u32) -> bool {
        let used = self.connections.get() + self.pool.idle_h1();
        used as u64 * 100 > (self.descriptors as u64).saturating_mul(u64::from(percent))
    }

    /// Limits for heads received from servers.
    pub(crate) fn response_options(&self) -> &ParseOptions {
        &self.response_options
    }

    /// Limits and tolerances for heads received from clients of a frontend.
    pub(crate) fn request_options(&self, proxy: &Proxy) -> ParseOptions {
        ParseOptions {
            accept_unsafe: proxy.options.accept_unsafe_violations_in_http_request,
            use_proxy_connection: proxy.options.http_use_proxy_header,
            max_head: self.response_options.max_head - self.config().global.tune.maxrewrite,
            ..self.response_options
        }
    }

    /// The filters between a frontend and a backend; `None` where there are none.
    pub(crate) fn filters(&self, front: usize, back: usize) -> Filters {
        let mut known = self.filters.borrow_mut();
        known
            .entry((front, back))
            .or_insert_with(|| Plan::between(self.proxy(front), self.proxy(back)))
            .clone()
    }

    /// How much work the compression of a message that starts now may cause.
    pub(crate) fn compression_step(&self) -> Step {
        self.measure_load(now_ms());
        self.throttle.borrow_mut().next(self.shared.load.rate_bytes_per_second()).0
    }

    /// Measures this thread's load, when that is due, and turns the throttle.
    pub(crate) fn measure_load(&self, now_ms: u64) {
        let mut throttle = self.throttle.borrow_mut();
        if throttle.is_due(now_ms) {
            throttle.set_limits(filter::limits(&self.shared));
            throttle.observe(self.shared.load.measure(self.thread), now_ms);
            self.shared.load.publish(self.thread, throttle.in_force());
        }
    }

    /// A number no other client connection of this process has; 0 is nobody's.
    pub(crate) fn next_client_id(&self) -> u64 {
        let serial = self.last_client.get() + 1;
        self.last_client.set(serial);
        serial * self.shared.threads as u64 + self.thread as u64
    }

    /// Wakes a client's connection when the soft stop begins.  It is asked for whenever the connection is idle,
    /// always with the waker of the one task that serves it.
    pub(crate) fn on_stop(&self, client_id: u64, waker: &Waker) {
        self.stop_waiters.enter(client_id, waker);
    }

    /// A client's connection ended.
    pub(crate) fn forget_client(&self, client_id: u64) {
        self.stop_waiters.leave(client_id);
        self.pool.forget_client(client_id);
    }

    /// A soft stop has begun, and this client's turn to be closed has come.
    pub(crate) fn is_closing(&self, client_id: u64) -> bool {
        let spread = self.config().global.close_spread_time;
        self.shared.is_stopping() && is_due(spread, client_id, self.shared.stopping_for())
    }

    /// The soft stop has begun: those whose turn has come have a look.
    pub(crate) fn announce_stop(&self) {
        self.stop_waiters.wake(|client_id| self.is_closing(client_id));
    }
}

/// Most descriptors that the process may have.
fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Those who wait for the soft stop, by the number of their connection.
#[derive(Default)]
struct StopWaiters(RefCell<NumberMap<u64, Waker>>);

impl StopWaiters {
    fn enter(&self, client_id: u64, waker: &Waker) {
        self.0.borrow_mut().entry(client_id).or_insert_with(|| waker.clone());
    }

    fn leave(&self, client_id: u64) {
        let waker = self.0.borrow_mut().remove(&client_id);
        // Outside of the borrow: it may be what keeps the connection's task in memory.
        drop(waker);
    }

    fn wake(&self, is_due: impl Fn(u64) -> bool) {
        let due: Vec<Waker> = self
            .0
            .borrow_mut()
            .extract_if(|client_id, _| is_due(*client_id))
            .map(|(_, waker)| waker)
            .collect();
        due.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn requests_leave_nothing_behind_in_the_list_for_the_stop() {
        let task = Arc::new(Task);
        let waker = Waker::from(Arc::clone(&task));
        let waiters = StopWaiters::default();
        (0..1000).for_each(|_| waiters.enter(7, &waker));
        assert_eq!(Arc::strong_count(&task), 3);
        waiters.leave(7);
        waiters.leave(7);
        assert_eq!(Arc::strong_count(&task), 2);
    }
}
