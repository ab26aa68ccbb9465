//! The program beside HAProxy: the same configuration and the same requests, compared answer by answer.
//!
//! `HAPROXY` names the real program; without it, one on the path that is new enough is taken.  Where there is none,
//! the tests say so and compare nothing: what must hold everywhere is frozen in the unit tests of each part.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]
#![allow(clippy::print_stderr, reason = "a test that has nothing to compare with says so")]

mod figures;
mod hashing;
mod metrics;
mod programs;
mod tables;
