//! HAProxy's configuration language: source, lexer, syntax tree, check, [`model::Config`].

pub mod model;
