//! Which server is next, is it well, and how often things happen: decisions as pure functions.
//!
//! No clocks, threads or sockets: the time and the servers' current loads are arguments.  What
//! threads share (counters, connections in flight, snapshots) is the caller's, but for limits that commands change.

mod algorithm;
mod bandwidth;
mod hash;
mod health;
mod limit;
mod pick;
mod rate;
mod ring;
mod schedule;
mod server;
mod table;

pub use algorithm::Algorithm;
pub use bandwidth::{Bandwidth, Passage};
pub use hash::{HashFunction, HashMethod, HashType, UriKey, avalanche, domain_only, source_key, url_param};
pub use health::{CheckResult, CheckSettings, Health, InitState, Observer, OnError};
pub use limit::{AtomicLimit, Limit};
pub use pick::{Affinity, Choice, Load, Pick, Picker, ServerView, Settings, WEIGHT_SCALE};
pub use rate::RateCounter;
pub use ring::MAX_RING_NODES;
pub use schedule::MAX_SCHEDULE;
pub use server::{Admin, OpState, Server, Status, Transition, dynamic_maxconn};
pub use table::{DataType, Entry, EntryId, Key, KeyType, MAX_ARRAY, Table, TableFull, TableSettings};
