//! The words of a configuration: where they stand, what may be said about them, which of them the manual knows.

pub(crate) mod call;
pub mod diagnostic;
pub(crate) mod manual;
pub mod phase;
