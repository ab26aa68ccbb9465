//! Commands about files of authorities (`ca-file`) and of revocation lists (`crl-file`).

use std::fmt::Write as _;
use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use weir_net::tls::trust_files::{TrustFiles, TrustItem};
use weir_proxy::control::certificates::{Certificates, Prepared};
use weir_proxy::control::trust::TrustChange;
use weir_rules::data::certificate;

use super::{Answer, Request, Session};

/// What the two kinds of files differ in.
struct Kind<T> {
    /// `CA` or `CRL`.
    label: &'static str,
    files: fn(&Certificates) -> &TrustFiles<T>,
    change: fn(&Certificates) -> &TrustChange,
    /// What one item is called where a whole file is shown.
    title: &'static str,
    describe: fn(&T) -> Option<String>,
    /// What the list of files says of each.
    count: fn(usize) -> String,
}

const CA: Kind<CertificateDer<'static>> = Kind {
    label: "CA",
    files: |certificates| &certificates.store.authorities,
    change: |certificates| &certificates.authorities,
    title: "Certificate",
    describe: |der| certificate::description(der),
    count: |count| format!(" - {count} certificate(s)"),
};

const CRL: Kind<CertificateRevocationListDer<'static>> = Kind {
    label: "CRL",
    files: |certificates| &certificates.store.revocations,
    change: |certificates| &certificates.revocations,
    title: "Certificate Revocation List",
    describe: |der| certificate::list_description(der.as_ref()),
    count: |_| String::new(),
};

/// `new ssl ca-file <name>`
pub(crate) fn new_ca(session: &mut Session, request: &Request) -> Answer {
    create(session, request, &CA)
}

/// `new ssl crl-file <name>`
pub(crate) fn new_crl(session: &mut Session, request: &Request) -> Answer {
    create(session, request, &CRL)
}

/// `set ssl ca-file <name> <<` and PEM text
pub(crate) fn set_ca(session: &mut Session, request: &Request) -> Answer {
    prepare(session, request, &CA, false)
}

/// `add ssl ca-file <name> <<` and PEM text
pub(crate) fn add_ca(session: &mut Session, request: &Request) -> Answer {
    prepare(session, request, &CA, true)
}

/// `set ssl crl-file <name> <<` and PEM text
pub(crate) fn set_crl(session: &mut Session, request: &Request) -> Answer {
    prepare(session, request, &CRL, false)
}

/// `commit ssl ca-file <name>`
pub(crate) fn commit_ca(session: &mut Session, request: &Request) -> Answer {
    commit(session, request, &CA)
}

/// `commit ssl crl-file <name>`
pub(crate) fn commit_crl(session: &mut Session, request: &Request) -> Answer {
    commit(session, request, &CRL)
}

/// `abort ssl ca-file <name>`
pub(crate) fn abort_ca(session: &mut Session, request: &Request) -> Answer {
    abort(session, request, &CA)
}

/// `abort ssl crl-file <name>`
pub(crate) fn abort_crl(session: &mut Session, request: &Request) -> Answer {
    abort(session, request, &CRL)
}

/// `del ssl ca-file <name>`
pub(crate) fn delete_ca(session: &mut Session, request: &Request) -> Answer {
    delete(session, request, &CA)
}

/// `del ssl crl-file <name>`
pub(crate) fn delete_crl(session: &mut Session, request: &Request) -> Answer {
    delete(session, request, &CRL)
}

/// `show ssl ca-file [[*]<name>[:<index>]]`
pub(crate) fn show_ca(session: &mut Session, request: &Request) -> Answer {
    show(session, request, &CA)
}

/// `show ssl crl-file [[*]<name>[:<index>]]`
pub(crate) fn show_crl(session: &mut Session, request: &Request) -> Answer {
    show(session, request, &CRL)
}

fn create<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>) -> Answer {
    let (certificates, name) = (&session.shared.certificates, request.word(3));
    if name.is_empty() {
        return Answer::error("a filename is expected");
    }
    match (kind.change)(certificates).create((kind.files)(certificates), name) {
        Ok(()) => Answer::info(format!("New {} file created '{name}'!", kind.label)),
        Err(reason) => Answer::error(format!("Cannot create a new {} file: {reason}", kind.label)),
    }
}

fn prepare<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>, added: bool) -> Answer {
    let certificates = &session.shared.certificates;
    let (name, Some(text)) = (request.word(3), &request.payload) else {
        return Answer::error("a filename and its new content as a payload are expected");
    };
    let label = kind.label;
    match (kind.change)(certificates).prepare((kind.files)(certificates), name, text, added) {
        Ok(Prepared::Created) => Answer::info(format!("transaction created for {label} {name}!")),
        Ok(Prepared::Updated) => Answer::info(format!("transaction updated for {label} {name}!")),
        Err(reason) => Answer::error(reason),
    }
}

fn commit<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>) -> Answer {
    let (certificates, name) = (&session.shared.certificates, request.word(3));
    match (kind.change)(certificates).commit(&session.shared, (kind.files)(certificates), name) {
        Ok(()) => Answer::Data(format!("Committing {name}.\nSuccess!\n")),
        Err(reason) => Answer::error(reason),
    }
}

fn abort<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>) -> Answer {
    let name = request.word(3);
    match (kind.change)(&session.shared.certificates).abort(name) {
        Ok(()) => Answer::info(format!("Transaction aborted for certificate '{name}'!")),
        Err(reason) => Answer::error(reason),
    }
}

fn delete<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>) -> Answer {
    let (certificates, name) = (&session.shared.certificates, request.word(3));
    match (kind.change)(certificates).delete(&session.shared, (kind.files)(certificates), name) {
        Ok(()) => Answer::info(format!("{} file '{name}' deleted!", kind.label)),
        Err(reason) => Answer::error(format!("Can't remove the {} file: {reason}", kind.label)),
    }
}

fn show<T: TrustItem>(session: &Session, request: &Request, kind: &Kind<T>) -> Answer {
    let certificates = &session.shared.certificates;
    let (files, change) = ((kind.files)(certificates), (kind.change)(certificates));
    let asked = request.word(3);
    if asked.is_empty() {
        return list(kind, files, change);
    }
    let not_found = || Answer::error(format!("Can't display the {} file: not found!", kind.label));
    if let Some(asked) = asked.strip_prefix('*') {
        let Some((name, items)) = change.current::<T>() else { return not_found() };
        return match index_after(asked, &name) {
            Some(index) => details(kind, &format!("*{name}"), "Unused", &items, index),
            None => not_found(),
        };
    }
    let asked = asked.strip_prefix('\\').unwrap_or(asked);
    if change.empty().iter().any(|empty| empty == asked) {
        return Answer::Data(format!("Filename: {asked}\nStatus: Empty\n"));
    }
    // The whole may be a name too.
    let whole = files.find(asked).map(|items| (asked, items, 0));
    let found = whole.or_else(|| {
        let (name, index) = asked.rsplit_once(':')?;
        Some((name, files.find(name)?, index.parse().ok()?))
    });
    let Some((name, items, index)) = found else { return not_found() };
    let status = if session.shared.trusts_by(Path::new(name)) { "Used" } else { "Unused" };
    details(kind, name, status, &items, index)
}

/// The index behind a name, 0 when there is none.
fn index_after(asked: &str, name: &str) -> Option<usize> {
    match asked.strip_prefix(name)? {
        "" => Some(0),
        rest => rest.strip_prefix(':')?.parse().ok(),
    }
}

fn list<T: TrustItem>(kind: &Kind<T>, files: &TrustFiles<T>, change: &TrustChange) -> Answer {
    let mut text = String::new();
    // Writing to memory cannot fail.
    if let Some((name, items)) = change.current::<T>() {
        writeln!(text, "# transaction\n*{name}{}", (kind.count)(items.len())).unwrap_or_default();
    }
    text.push_str("# filename\n");
    let known = files.all().into_iter().map(|(name, items)| (name, items.len()));
    for (name, count) in known.chain(change.empty().into_iter().map(|name| (name, 0))) {
        writeln!(text, "{name}{}", (kind.count)(count)).unwrap_or_default();
    }
    Answer::Data(text)
}

/// All items of a file, or the one of an index from 1.
fn details<T>(kind: &Kind<T>, name: &str, status: &str, items: &[T], index: usize) -> Answer {
    let mut text = format!("Filename: {name}\nStatus: {status}\n");
    for (number, item) in (1_usize..).zip(items).filter(|(number, _)| index == 0 || *number == index) {
        let description = (kind.describe)(item).unwrap_or_default();
        // Writing to memory cannot fail.
        writeln!(text, "\n{} #{number}:\n{}", kind.title, description.trim_end()).unwrap_or_default();
    }
    Answer::Data(text)
}
