//! The language that a configuration is written in, whatever it says: files, lines, words, conditions, units.

pub mod address;
pub(crate) mod args;
pub mod conditional;
pub mod diagnostics;
pub mod environment;
pub(crate) mod files;
pub mod lexer;
pub mod source;
pub mod tree;
pub mod units;
