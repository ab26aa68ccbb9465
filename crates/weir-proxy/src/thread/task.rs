//! Tasks of a thread, and what a panic in one of them ends.
//!
//! The runtime catches a panic where a task is polled: what the task holds is dropped, which closes its connections and
//! gives its places back, and the other tasks go on.  A task that the whole thread needs must not be missing in silence:
//! its panic ends the process, which a master or a service manager starts again.

/// Starts a task that serves the thread as a whole.
pub(crate) fn spawn_vital(task: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(vital(task));
}

/// A future whose panic ends the process.
pub(crate) async fn vital<T>(task: impl Future<Output = T>) -> T {
    let _needed = Needed;
    task.await
}

struct Needed;

impl Drop for Needed {
    fn drop(&mut self) {
        // The panic has said why already.
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_panic_ends_its_task_and_what_that_holds() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let held = Rc::new(Cell::new(0));
            let place = Rc::clone(&held);
            let failing = tokio::task::spawn_local(async move {
                place.set(place.get() + 1);
                tokio::task::yield_now().await;
                assert!(place.get() == 0, "a fault of the program");
            });
            let other = tokio::task::spawn_local(async { 7 });
            assert!(failing.await.unwrap_err().is_panic());
            assert_eq!(other.await.unwrap(), 7);
            assert_eq!((held.get(), Rc::strong_count(&held)), (1, 1));
        });
    }
}
