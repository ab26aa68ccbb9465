//! What rules look values up in, and what they can read: patterns, user lists, certificates, hellos, JSON.

pub mod auth;
pub mod certificate;
pub(crate) mod client_hello;
mod crypt;
pub(crate) mod json_path;
pub mod matcher;
pub mod pattern;
pub mod pcre;
