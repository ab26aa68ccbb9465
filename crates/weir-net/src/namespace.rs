//! Network namespaces by name (`namespace`): sockets that are made in another one than the process's own.
//!
//! A socket stays in the namespace its thread was in when it was made, whatever the thread does later; so a thread
//! goes there for the one system call. The files are opened at start, before the root folder changes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

use crate::kernel;

/// Where `ip netns add` puts names.
const FOLDER: &str = "/var/run/netns";

/// The namespace of the calling thread.
const HOME: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: Arc<str>,
    /// It and the process's own; none when there is no namespace of this name.
    files: Option<Arc<(File, File)>>,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Namespace {}

impl Namespace {
    /// The namespace of this name; without one, nothing can be done in it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        // A name is one, and not a way to another folder.
        let valid = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        let open =
            || Some(Arc::new((File::open(Path::new(FOLDER).join(name)).ok()?, File::open(HOME).ok()?)));
        Self { name: name.into(), files: if valid { open() } else { None } }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// It was there.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.files.is_some()
    }

    /// Runs something with the thread in this namespace.
    fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(files) = &self.files else {
            let message = format!("there is no network namespace '{}'", self.name);
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let (there, home) = &**files;
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))?;
        let done = work();
        move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a thread that could go into a namespace may go back");
        done
    }
}

/// A new socket in a namespace, or in the process's own.
pub(crate) fn new_socket(
    namespace: Option<&Namespace>,
    domain: Domain,
    kind: Type,
    protocol: Option<Protocol>,
) -> io::Result<Socket> {
    let new = || Socket::new_raw(domain, kind, protocol);
    namespace.map_or_else(new, |namespace| namespace.within(new))
}

/// The kernel's number of a namespace; none where it has none to tell.
pub(crate) fn cookie(namespace: Option<&Namespace>) -> Option<u64> {
    let probe = new_socket(namespace, Domain::UNIX, Type::STREAM.cloexec(), None).ok()?;
    kernel::namespace_cookie(probe.as_fd()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none() {
        let check = |name: &str| {
            let namespace = Namespace::named(name);
            assert!(!namespace.is_open());
            let made = new_socket(Some(&namespace), Domain::IPV4, Type::STREAM, None);
            assert_eq!(made.unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        check("weir-no-such-namespace");
        check("../../../proc/self/ns/net");
        check("");
        check("..");
    }

    #[test]
    fn all_sockets_of_the_process_are_in_one() {
        assert_eq!(cookie(None), cookie(None));
    }
}
