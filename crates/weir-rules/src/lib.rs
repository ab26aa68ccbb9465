//! The expression language: samples, fetches, converters, ACLs, log formats, actions.
//!
//! Everything is data that is parsed once and evaluated against a [`Txn`]: values in, values out.
//! A registry entry per keyword (name, arguments, where it may stand, types, documentation, code)
//! feeds the parser, the checker and the manual.

pub mod action;
mod convert;
pub mod data;
pub mod expr;
pub mod facts;
mod fetch;
pub mod reply;
pub mod table;
pub mod value;
pub mod words;

pub use action::{Flow, Phase, Reply, Rule, WaitFor};
pub use convert::codec::decode_url;
pub use convert::forwarded::{forwarded_node_name, forwarded_node_port};
pub use convert::token::verify_error_number;
pub use expr::condition::Condition;
pub use expr::log_format::LogFormat;
pub use expr::scope::{Place, Scope, Shared};
pub use expr::{Expr, Value};
pub use facts::{Environment, Session, Txn};
pub use fetch::http::basic_credentials;
pub use words::diagnostic::{Diagnostic, Level, Pos, Word};
