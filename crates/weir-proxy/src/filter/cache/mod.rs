//! The small-object cache (manual, section 6): requests that `cache-use` looks up, responses that `cache-store` keeps.
//!
//! Owns the way of a response into a cache and out of it.  What may be kept and given out is decided in `control` (RFC
//! 9111) and `vary`; `memory` keeps it.

mod control;
mod memory;
mod vary;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{Config, Proxy};
use weir_http::{FieldName, Response};
use weir_net::timers::now_ms;
use weir_rules::Reply;

use crate::edge::BodyLength;
use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::response;
use crate::state::counters::Counter;
use memory::{Entry, Memory};
use vary::Variant;

pub(crate) use control::{is_cacheable, leaks_cookie};

/// Server's name in the log of a request that was answered from a cache.
const SERVER_NAME: &str = "<CACHE>";

/// The `cache` sections.
#[derive(Debug, Default)]
pub struct Caches(BTreeMap<String, Arc<Memory>>);

impl Caches {
    /// Empty ones.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let caches = config.caches.iter();
        Self(caches.map(|(name, settings)| (name.clone(), Arc::new(Memory::new(settings)))).collect())
    }

    /// Name and contents of each, for `show cache`.
    pub fn contents(&self) -> impl Iterator<Item = (&str, Contents)> {
        self.0.iter().map(|(name, memory)| (name.as_str(), Contents::of(memory)))
    }
}

/// What a cache holds.
#[derive(Debug)]
pub struct Contents {
    /// Bytes that are free.
    pub free_bytes: usize,
    /// The responses.
    pub objects: Vec<Object>,
}

/// A response in a cache.
#[derive(Debug)]
pub struct Object {
    /// Number of its key.
    pub number: u64,
    /// Number of its variant; 0 where it does not vary.
    pub variant: u64,
    /// Bytes it takes.
    pub bytes: usize,
    /// Requests that are being answered with it.
    pub users: usize,
    /// Seconds until it is stale; negative when it is.
    pub expires_s: i64,
}

impl Contents {
    fn of(memory: &Memory) -> Self {
        let (entries, free_bytes) = memory.list();
        let now = now_ms();
        let objects = entries.iter().map(|entry| Object {
            number: memory::number(&entry.key),
            variant: entry.variant.number(),
            bytes: entry.cost,
            // Three hold it without using it: the index, the order, this list.
            users: Arc::strong_count(entry).saturating_sub(3),
            expires_s: (entry.fresh_until_ms.cast_signed() - now.cast_signed()) / 1000,
        });
        Self { free_bytes, objects: objects.collect() }
    }
}

/// Answers the request when a rule wants a cache looked into, and it has a response that may be used.
pub(crate) async fn answer(x: &mut Exchange) -> Result<(), Stop> {
    let Some(wanted) = &x.txn.cache_use else { return Ok(()) };
    if !control::concerns(&x.txn.request) {
        return Ok(());
    }
    let Some(cache) = x.worker.shared.caches.0.get(&*wanted.cache) else { return Ok(()) };
    let found = cache.find(&wanted.key, &x.txn.request.fields, now_ms());
    let age = |entry: &Entry| {
        let here = u64::try_from(control::now_s() - entry.stored_at_s).unwrap_or(0);
        Duration::from_secs(entry.age_s + here)
    };
    let found = found.filter(|entry| control::may_be_answered(&x.txn.request, age(entry)));
    for count in [Exchange::count_front, Exchange::count_back] {
        count(x, Counter::CacheLookups, 1);
        count(x, Counter::CacheHits, u64::from(found.is_some()));
    }
    match found {
        None => Ok(()),
        // On the heap while it lasts: every request has room for its future.
        Some(entry) => Err(Box::pin(deliver(x, &entry, age(&entry))).await),
    }
}

/// The stored response, or 304, through the rules on responses.
async fn deliver(x: &mut Exchange, entry: &Entry, age: Duration) -> Stop {
    x.txn.cache_hit = x.txn.cache_use.as_ref().map(|wanted| Arc::clone(&wanted.cache));
    x.txn.server = Some(Arc::from(SERVER_NAME));
    x.terminated(b'L', b'R');
    let mut head = entry.head.clone();
    let mut body = Arc::clone(&entry.body);
    if control::not_modified(&x.txn.request, &head, entry.stored_at_s) {
        head.set_status(304, b"Not Modified");
        body = [].into();
    }
    head.fields.push(b"age", itoa::Buffer::new().format(age.as_secs()).as_bytes());
    x.txn.status = head.status;
    x.txn.response = Some(head);
    if let Err(stop) = response::on_cached(x).await {
        return stop;
    }
    let response = x.txn.response.take().unwrap_or_default();
    Stop::Reply(Box::new(filter::reply(x, Reply::new(response, body))))
}

/// A response on its way to the client that is kept as well.
pub(crate) struct Storing {
    cache: Arc<Memory>,
    key: Box<[u8]>,
    head: Response,
    body: Vec<u8>,
    variant: Variant,
    lifetime: control::Lifetime,
    /// Bytes taken out of the cache's budget so far.
    taken: usize,
}

impl Storing {
    /// Takes a piece of the body; false when it gets too large.
    #[must_use]
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        let cost = memory::cost(&self.key, &self.head.fields, self.body.len() + piece.len());
        if self.body.len() + piece.len() > self.cache.settings.max_object_size || !self.afford(cost) {
            return false;
        }
        self.body.extend_from_slice(piece);
        true
    }

    /// Takes more out of the budget when `cost` is more than was taken.
    fn afford(&mut self, cost: usize) -> bool {
        let more = cost.saturating_sub(self.taken);
        let afforded = more == 0 || self.cache.take(more);
        if afforded {
            self.taken += more;
        }
        afforded
    }

    /// The body is complete.
    pub(crate) fn finish(mut self, x: &Exchange) {
        let head = std::mem::take(&mut self.head);
        let body = std::mem::take(&mut self.body);
        let entry = Entry::new(&self.key, head, body.into(), std::mem::take(&mut self.variant));
        if !self.afford(entry.cost) {
            return;
        }
        self.cache.give(self.taken - entry.cost);
        self.taken = 0;
        let now = now_ms();
        let entry = Entry {
            stored_at_s: control::now_s(),
            age_s: self.lifetime.age.as_secs(),
            fresh_until_ms: now + self.lifetime.left.as_millis() as u64,
            ..entry
        };
        self.cache.store(entry, &x.txn.request.fields, now);
    }
}

impl Drop for Storing {
    /// What was not stored gives its room back.
    fn drop(&mut self) {
        self.cache.give(self.taken);
    }
}

/// Looks at a response that the rules are done with: begins to keep it, or forgets what it makes invalid.
pub(crate) fn response(x: &mut Exchange, body: BodyLength) {
    let Some(wanted) = &x.txn.cache_use else { return };
    let caches = &x.worker.shared.caches.0;
    if control::invalidates(&x.txn.request, x.txn.status) {
        if let Some(cache) = caches.get(&*wanted.cache) {
            cache.forget(&wanted.key);
        }
        return;
    }
    let Some(store) = &x.txn.cache_store else { return };
    let Some(cache) = caches.get(&*store.cache) else { return };
    if !control::concerns(&x.txn.request) || x.tunnel || x.txn.cache_hit.is_some() {
        return;
    }
    let mut head = store.head.clone();
    let settings = &cache.settings;
    let now = control::now_s();
    let Some(lifetime) = control::lifetime(&x.txn.request, &head, settings.max_age, now) else { return };
    let Some(variant) = Variant::of(&x.txn.request.fields, &head.fields, settings.process_vary) else {
        return;
    };
    for name in [FieldName::ContentLength, FieldName::TransferEncoding, FieldName::Connection] {
        head.fields.remove(name);
    }
    head.fields.remove_named(b"age");
    let (cache, key) = (Arc::clone(cache), wanted.key.clone());
    let length = match body {
        BodyLength::Exact(length) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => 0,
    };
    let fields = memory::cost(&[], &head.fields, 0);
    if length.saturating_add(fields) > settings.max_object_size {
        return;
    }
    let storing = Storing { cache, key, head, body: Vec::new(), variant, lifetime, taken: 0 };
    x.storing = Some(Box::new(storing));
}

/// A piece of the body went to the client.
pub(crate) fn body(storing: &mut Option<Box<Storing>>, piece: &[u8]) {
    if storing.as_mut().is_some_and(|storing| !storing.push(piece)) {
        *storing = None;
    }
}

/// `option checkcache`
pub(crate) fn check(x: &Exchange, proxy: &Proxy) -> bool {
    let leaks = |response: &Response| leaks_cookie(x.txn.request.method, response);
    proxy.options.checkcache && x.txn.response.as_ref().is_some_and(leaks)
}
