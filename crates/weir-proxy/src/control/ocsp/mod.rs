//! OCSP responses of the process: which certificates have one, and when each is fetched again.
//!
//! Owns the plan of updates and what became of them. The responses themselves are with the certificates; asking a
//! responder is `fetch`'s.

mod fetch;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use weir_config::model::OcspUpdate;
use weir_net::tls::certificate::{Certificate, Loaded};
use weir_net::tls::ocsp::{CertificateId, Response};

use crate::control::certificates::{Certificates, locked};
use crate::log::level;
use crate::state::Shared;
use crate::thread::worker::Worker;

/// After so many failures in a row the delay does not double any more.
const MAX_DOUBLINGS: u32 = 16;

/// How an update ended; the numbers are those of `show ssl ocsp-updates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// There was none yet.
    #[default]
    Unknown = 0,
    /// The response is in use.
    Successful = 1,
    /// The responder was not reached or did not answer.
    HttpError = 2,
    /// The answer is not said to be an OCSP response.
    MissingHeader = 3,
    /// The response cannot be trusted or used.
    CheckFailure = 4,
    /// The certificate is gone.
    InsertionError = 5,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "Unknown",
            Self::Successful => "Update successful",
            Self::HttpError => "HTTP error",
            Self::MissingHeader => "Missing \"ocsp-response\" header",
            Self::CheckFailure => "OCSP response check failure",
            Self::InsertionError => "Error during insertion",
        })
    }
}

/// A response that is fetched again and again; times in seconds since 1970.
#[derive(Debug, Clone)]
pub struct Update {
    /// The first certificate that has it.
    pub path: String,
    /// When it is fetched next.
    pub next: u64,
    /// When it was fetched last.
    pub last: Option<u64>,
    /// How often that worked.
    pub successes: u32,
    /// How often it did not.
    pub failures: u32,
    /// How it ended the last time.
    pub outcome: Outcome,
    failures_in_a_row: u32,
}

/// The plan of updates.
#[derive(Default)]
pub struct Updates {
    planned: Mutex<BTreeMap<CertificateId, Update>>,
    changed: Notify,
}

impl Updates {
    /// All updates, the next one first.
    #[must_use]
    pub fn planned(&self) -> Vec<(CertificateId, Update)> {
        let planned = locked(&self.planned);
        let mut list: Vec<_> = planned.iter().map(|(id, update)| (id.clone(), update.clone())).collect();
        list.sort_by_key(|(_, update)| update.next);
        list
    }

    /// Whether a response is fetched by itself.
    pub(crate) fn is_planned(&self, id: &CertificateId) -> bool {
        locked(&self.planned).contains_key(id)
    }

    /// Lines came or went: looks again which responses are to be fetched.
    pub(crate) fn plan(&self, certificates: &[Arc<Certificate>], times: &OcspUpdate) {
        let mut planned = locked(&self.planned);
        let mut before = std::mem::take(&mut *planned);
        for certificate in certificates.iter().filter(|_| !times.disable) {
            let loaded = certificate.current();
            let (Some(id), Some(_)) = (loaded.ocsp_id(), loaded.ocsp_uri()) else { continue };
            let known = before.remove(&id);
            planned
                .entry(id.clone())
                .or_insert_with(|| known.unwrap_or_else(|| first_update(certificate, &loaded, &id, times)));
        }
        drop(planned);
        self.changed.notify_one();
    }

    /// Notes what became of an update and when the next one is. Returns failures and successes so far.
    fn record(
        &self,
        id: &CertificateId,
        outcome: Outcome,
        next_update: Option<i64>,
        times: &OcspUpdate,
    ) -> Option<(u32, u32)> {
        let mut planned = locked(&self.planned);
        let update = planned.get_mut(id)?;
        let now = now_s();
        update.outcome = outcome;
        if outcome == Outcome::Successful {
            update.last = Some(now);
            update.successes = update.successes.saturating_add(1);
            update.failures_in_a_row = 0;
            update.next = next_after(now, next_update, times);
        } else {
            update.failures = update.failures.saturating_add(1);
            update.failures_in_a_row = (update.failures_in_a_row + 1).min(MAX_DOUBLINGS);
            let delay = times.mindelay.as_secs() << (update.failures_in_a_row - 1);
            update.next = now.saturating_add(delay.min(times.maxdelay.as_secs()));
        }
        Some((update.failures, update.successes))
    }
}

/// Manual, `ocsp-update`: a response that is there waits at least `mindelay`, one that is missing is fetched at once.
fn first_update(
    certificate: &Certificate,
    loaded: &Loaded,
    id: &CertificateId,
    times: &OcspUpdate,
) -> Update {
    let now = now_s();
    let expires = loaded.ocsp_response().map(|response| next_update(response, id));
    Update {
        path: certificate.name().to_owned(),
        next: expires.map_or(now, |expires| next_after(now, expires, times)),
        last: None,
        successes: 0,
        failures: 0,
        outcome: Outcome::Unknown,
        failures_in_a_row: 0,
    }
}

/// When a response is replaced: before it expires, within `mindelay` and `maxdelay`.
fn next_after(now: u64, next_update: Option<i64>, times: &OcspUpdate) -> u64 {
    let (least, most) = (times.mindelay.as_secs(), times.maxdelay.as_secs());
    let expires = next_update.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
    expires.clamp(now.saturating_add(least), now.saturating_add(most.max(least)))
}

fn next_update(response: &[u8], id: &CertificateId) -> Option<i64> {
    let response = Response::parse(response)?;
    let single = response.basic?.singles.into_iter().find(|single| single.id.as_ref() == Some(id))?;
    single.next_update
}

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// Fetches what is due, one response after the other.
pub(crate) async fn run(worker: Rc<Worker>) {
    let shared = &worker.shared;
    let updates = &shared.certificates.updates;
    loop {
        let next = updates.planned().into_iter().next();
        let wait = next.as_ref().map(|(_, update)| Duration::from_secs(update.next.saturating_sub(now_s())));
        tokio::select! {
            biased;
            () = shared.stopped() => return,
            () = updates.changed.notified() => continue,
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
        let Some((id, update)) = next else { continue };
        let certificate = shared.certificates.store.find(&update.path);
        update_one(shared, &id, certificate.as_ref(), &update.path).await;
    }
}

impl Shared {
    /// `update ssl ocsp-response`: fetches the response of a certificate now and returns it.
    ///
    /// # Errors
    /// Why that cannot be done, or how it failed.
    pub async fn update_ocsp(&self, path: &str) -> Result<Vec<u8>, String> {
        let certificate = self.certificates.store.find(path).ok_or("Certificate not found")?;
        let loaded = certificate.current();
        let id = loaded.ocsp_id().filter(|_| loaded.uses_ocsp()).ok_or("Certificate has no OCSP response")?;
        match update_one(self, &id, Some(&certificate), path).await {
            Outcome::Successful => Ok(certificate.current().ocsp_response().unwrap_or_default().to_vec()),
            failed => Err(format!("The OCSP response was not updated: {failed}")),
        }
    }
}

async fn update_one(
    shared: &Shared,
    id: &CertificateId,
    certificate: Option<&Arc<Certificate>>,
    path: &str,
) -> Outcome {
    let times = &shared.config.global.ocsp_update;
    let loaded = certificate.map(|certificate| certificate.current());
    let fetched = match loaded.as_deref().map(|loaded| (loaded, loaded.ocsp_uri())) {
        Some((loaded, Some(uri))) => {
            let answer = fetch::fetch(&uri, times.httpproxy.as_ref(), &id.request()).await;
            answer.and_then(|der| accept(&shared.certificates, id, loaded, &der))
        }
        Some((_, None)) => Err(Outcome::HttpError),
        None => Err(Outcome::InsertionError),
    };
    let (outcome, next_update) = match fetched {
        Ok(next_update) => (Outcome::Successful, next_update),
        Err(failed) => (failed, None),
    };
    let counted = shared.certificates.updates.record(id, outcome, next_update, times);
    // One that is not fetched by itself has no counters but this.
    let alone = if outcome == Outcome::Successful { (0, 1) } else { (1, 0) };
    let (failures, successes) = counted.unwrap_or(alone);
    let number = outcome as u8;
    shared.log(level::NOTICE, &format!("<OCSP-UPDATE> {path} {number} \"{outcome}\" {failures} {successes}"));
    outcome
}

/// Puts a fetched response in use, when the right one signed it; returns when the next is expected.
fn accept(
    certificates: &Certificates,
    id: &CertificateId,
    loaded: &Loaded,
    der: &[u8],
) -> Result<Option<i64>, Outcome> {
    let response = Response::parse(der).ok_or(Outcome::CheckFailure)?;
    let now = weir_net::tls::ocsp::now();
    let issuer = loaded.issuer().ok_or(Outcome::CheckFailure)?;
    let next_update = response.answer(id, now).map_err(|_| Outcome::CheckFailure)?.next_update;
    if !response.is_signed_for(issuer, now) {
        return Err(Outcome::CheckFailure);
    }
    certificates.set_ocsp_of(id, der).map_err(|_| Outcome::InsertionError)?;
    Ok(next_update)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let times = OcspUpdate::default();
        let check = |next_update: Option<i64>, expected: u64| {
            assert_eq!(next_after(1_000_000, next_update, &times), 1_000_000 + expected, "{next_update:?}");
        };
        check(None, 300);
        check(Some(-1), 300);
        check(Some(1_000_010), 300);
        check(Some(1_001_000), 1000);
        check(Some(2_000_000), 3600);
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let updates = Updates::default();
        let times = OcspUpdate::default();
        let id = CertificateId { name_hash: [0; 20], key_hash: [0; 20], serial: vec![1] };
        let update = Update {
            path: "a".to_owned(),
            next: 0,
            last: None,
            successes: 0,
            failures: 0,
            outcome: Outcome::Unknown,
            failures_in_a_row: 0,
        };
        updates.planned.lock().unwrap().insert(id.clone(), update);
        let check = |outcome: Outcome, counted: (u32, u32), delay: u64| {
            let before = now_s();
            assert_eq!(updates.record(&id, outcome, None, &times), Some(counted));
            let (_, update) = updates.planned().remove(0);
            assert!(update.next >= before + delay && update.next <= now_s() + delay, "{outcome} {delay}");
            assert_eq!(update.outcome, outcome);
        };
        check(Outcome::HttpError, (1, 0), 300);
        check(Outcome::HttpError, (2, 0), 600);
        check(Outcome::CheckFailure, (3, 0), 1200);
        for failures in 4..40 {
            assert_eq!(updates.record(&id, Outcome::HttpError, None, &times), Some((failures, 0)));
        }
        check(Outcome::HttpError, (40, 0), 3600);
        check(Outcome::Successful, (40, 1), 300);
        check(Outcome::HttpError, (41, 1), 300);
    }
}
