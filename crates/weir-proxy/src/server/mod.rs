//! The server of a request: which one it is ([`choose`]), and a connection to it ([`reach`]).

pub(crate) mod choose;
pub(crate) mod reach;
