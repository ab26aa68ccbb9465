//! The expression language: samples, fetches, converters, ACLs, log formats, actions.
//!
//! Everything is data that is parsed once and evaluated against a [`Txn`]: values in, values out.
//! An entry per keyword (name, arguments, where it may stand, types, documentation, code)
//! feeds the parser, the checker and the manual.

// From the bottom up: a folder names those before it in this list, never those behind it.

pub mod words;

pub mod value;

pub mod data;

pub mod facts;

pub mod expr;

pub mod reply;

mod fetch;

mod convert;

pub mod action;

pub mod table;

pub use action::{Flow, Rule, WaitFor};
pub use convert::forwarded::{forwarded_node_name, forwarded_node_port};
pub use convert::token::verify_error_number;
pub use expr::Expr;
pub use expr::condition::Condition;
pub use expr::log_format::LogFormat;
pub use expr::scope::{Place, Scope, Shared};
pub use facts::{Environment, Reply, Session, Txn};
pub use fetch::http::basic_credentials;
pub use value::Value;
pub use value::codec::decode_url;
pub use words::diagnostic::{Diagnostic, Level, Pos, Word};
pub use words::phase::Phase;
