//! What the sections and lines of a configuration have said so far, and which defaults a section starts from.
//!
//! Owns the drafts and inheritance; leaves what a keyword does to its family, and the order of reading to `load`.

mod bind;
pub(crate) mod checks;
pub(crate) mod defaults;
mod fcgi;
mod global;
mod proxy;
mod server;
mod small;
mod stats;

pub(crate) use bind::{BindDraft, empty};
pub(crate) use fcgi::FcgiDraft;
pub(crate) use global::GlobalDraft;
pub(crate) use proxy::{Finished, NO_PROXY, ProxyDraft, World};
pub(crate) use server::{ServerArgs, ServerDraft};
pub(crate) use small::SectionDraft;
