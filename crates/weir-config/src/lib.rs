//! HAProxy's configuration language: source, lexer, sections, keyword tables, check, [`model::Config`].
//!
//! Reading has no effects except reading the files that the configuration names; everything that is wrong is
//! collected and shown with file, line, caret and what was expected.

// From the bottom up: a module names those before it in this list, never those behind it.

pub mod language;

pub mod status_set;

pub mod model;

mod sections;

mod keyword;

mod tls;

mod server;

mod bind;

mod proxy;

mod tune;

mod global;

mod small_sections;

mod fcgi;

pub mod table;

mod check;

mod load;

pub use language::diagnostics::Diagnostics;
pub use language::environment::Environment;
pub use load::{Loaded, load, load_sources, load_str, parse_server};
