//! The requests of a lane that are in progress, by their tickets.
//!
//! Owns the tickets, which are used again, and which request has waited too long. What is counted of a request is
//! `lane`'s.

use crate::client::Ticket;

/// A request in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) connection: u32,
    /// The part of the run that it was sent in.
    pub(crate) part: u32,
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// When the first byte of its answer came; 0 before.
    pub(crate) begun_ns: u64,
}

/// A ticket and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Unused,
    Waiting,
    Overdue,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    slots: Vec<(Use, Pending)>,
    unused: Vec<Ticket>,
}

impl PendingRequests {
    pub(crate) fn open(&mut self, request: Pending) -> Ticket {
        let opened = (Use::Waiting, request);
        match self.unused.pop() {
            Some(ticket) => {
                if let Some(slot) = self.slots.get_mut(ticket as usize) {
                    *slot = opened;
                }
                ticket
            }
            None => {
                self.slots.push(opened);
                self.slots.len() as Ticket - 1
            }
        }
    }

    /// Ends a request; nothing when it has ended before.
    pub(crate) fn close(&mut self, ticket: Ticket) -> Option<Pending> {
        let (state, request) = self.slots.get_mut(ticket as usize)?;
        if std::mem::replace(state, Use::Unused) == Use::Unused {
            return None;
        }
        self.unused.push(ticket);
        Some(*request)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Pending> {
        self.slots.get(ticket as usize).map(|(_, request)| request)
    }

    /// The first byte of a request's answer has come.
    #[inline]
    pub(crate) fn begun(&mut self, ticket: Ticket, now_ns: u64) {
        if let Some((_, request)) = self.slots.get_mut(ticket as usize) {
            request.begun_ns = now_ns;
        }
    }

    /// The requests of a part of the run.
    pub(crate) fn of_part(&self, part: u32) -> impl Iterator<Item = &Pending> {
        let open = move |(state, request): &&(Use, Pending)| *state != Use::Unused && request.part == part;
        self.slots.iter().filter(open).map(|(_, request)| request)
    }

    /// Marks those that have waited so long, and tells the connection of each.
    pub(crate) fn mark_overdue(&mut self, timeout_ns: u64, now_ns: u64, mut tell: impl FnMut(u32)) {
        for (state, request) in &mut self.slots {
            if *state == Use::Waiting && now_ns.saturating_sub(request.sent_ns) >= timeout_ns {
                *state = Use::Overdue;
                tell(request.connection);
            }
        }
    }

    /// The marked ones of a connection.
    pub(crate) fn overdue_of(&self, connection: u32) -> Vec<Ticket> {
        let own =
            |(_, slot): &(Ticket, &(Use, Pending))| slot.0 == Use::Overdue && slot.1.connection == connection;
        (0..).zip(&self.slots).filter(own).map(|(ticket, _)| ticket).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_used_again_and_end_once() {
        let mut requests = PendingRequests::default();
        let request = |connection| Pending { connection, part: 1, due_ns: 0, sent_ns: 10, begun_ns: 0 };
        assert_eq!((requests.open(request(7)), requests.open(request(8))), (0, 1));
        requests.begun(0, 12);
        assert_eq!(requests.close(0).map(|request| (request.connection, request.begun_ns)), Some((7, 12)));
        assert!(requests.close(0).is_none() && requests.close(9).is_none());
        assert_eq!(requests.of_part(1).count(), 1);
        assert_eq!(requests.open(request(9)), 0);
    }

    #[test]
    fn what_waits_too_long_is_told_once() {
        let mut requests = PendingRequests::default();
        for (connection, sent_ns) in [(7, 10), (8, 10), (7, 20)] {
            requests.open(Pending { connection, part: 1, due_ns: 0, sent_ns, begun_ns: 0 });
        }
        requests.close(1);
        let mut told = |now_ns| {
            let mut told = Vec::new();
            requests.mark_overdue(5, now_ns, |connection| told.push(connection));
            told
        };
        assert_eq!((told(14), told(15), told(16)), (vec![], vec![7], vec![]));
        assert_eq!((requests.overdue_of(7), requests.overdue_of(8)), (vec![0], vec![]));
    }
}
