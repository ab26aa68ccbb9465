//! HAProxy's configuration language: source, lexer, sections, keyword tables, check, [`model::Config`].
//!
//! Reading has no effects except reading the files that the configuration names; everything that is wrong is
//! collected and shown with file, line, caret and what was expected.

pub mod language;

pub mod status_set;

pub mod keywords;

mod global;

mod tune;

mod tls;

mod bind;

mod server;

mod proxy;

mod sections;

mod fcgi;

mod check;

mod load;

pub mod model;

pub use language::diagnostics::Diagnostics;
pub use language::environment::Environment;
pub use load::{Loaded, load, load_sources, load_str, parse_server};
