//! Health checks.

use std::rc::Rc;

use crate::worker::Worker;

/// Starts the checks this thread is responsible for.
pub(crate) fn start(_worker: &Rc<Worker>) {}
