//! The expression language: samples, fetches, converters, ACLs, log formats, actions.
//!
//! Everything is data that is parsed once and evaluated against a [`Txn`]: values in, values out.
//! A registry entry per keyword (name, arguments, where it may stand, types, documentation, code)
//! feeds the parser, the checker and the manual.

pub mod acl;
pub mod action;
pub mod args;
pub mod auth;
pub mod certificate;
mod client_hello;
pub mod condition;
mod convert;
mod crypt;
pub mod diagnostic;
pub mod expr;
mod fetch;
pub mod hash;
mod json_path;
mod log_alias;
mod log_encoding;
pub mod log_format;
mod manual;
pub mod matcher;
pub mod pattern;
pub mod pcre;
pub mod registry;
pub mod reply;
pub mod scope;
pub mod status;
pub mod txn;
pub mod value;
pub mod vars;

pub use action::{Flow, Phase, Reply, Rule, WaitFor};
pub use condition::Condition;
pub use convert::codec::decode_url;
pub use convert::forwarded::{forwarded_node_name, forwarded_node_port};
pub use convert::token::verify_error_number;
pub use diagnostic::{Diagnostic, Level, Pos, Word};
pub use expr::{Expr, Value};
pub use fetch::http::basic_credentials;
pub use log_format::LogFormat;
pub use scope::{Place, Scope, Shared};
pub use txn::{Environment, Session, Txn};
