//! One thread: what its connections share, its tasks, and what runs out.

pub(crate) mod closing;
pub(crate) mod environment;
pub mod memory_pools;
pub mod panics;
pub mod scarcity;
pub(crate) mod task;
pub(crate) mod worker;
