//! Carrying out rules in all phases of a request.

pub(crate) mod wait;
