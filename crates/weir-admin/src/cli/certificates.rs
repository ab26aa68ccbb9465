//! Commands about certificates: which there are, and their replacement without a reload.

use std::fmt::Write as _;
use std::path::Path;

use weir_config::language::units::{self, Unit};
use weir_net::tls::certificate::Loaded;
use weir_proxy::control::certificates::Prepared;
use weir_rules::data::certificate;

use super::{Answer, Request, Session, ocsp};

/// `show ssl cert [<name>]`
pub(crate) fn show(session: &mut Session, request: &Request) -> Answer {
    let certificates = &session.shared.certificates;
    let name = request.word(3);
    if name.is_empty() {
        let mut text = String::new();
        // Writing to memory cannot fail.
        if let Some(changing) = certificates.changing() {
            writeln!(text, "# transaction\n*{changing}").unwrap_or_default();
        }
        text.push_str("# filename\n");
        let loaded = certificates.store.all();
        let names = loaded.iter().map(|known| known.name().to_owned()).chain(certificates.empty());
        names.for_each(|name| writeln!(text, "{name}").unwrap_or_default());
        return Answer::Data(text);
    }
    if let Some(name) = name.strip_prefix('*') {
        return show_prepared(session, name);
    }
    let name = name.strip_prefix('\\').unwrap_or(name);
    if let Some(of) = name.strip_suffix(OCSP).filter(|_| certificates.store.find(name).is_none()) {
        return match certificates.store.find(of) {
            Some(known) => response_of(&known.current()),
            None => Answer::error(NOT_FOUND),
        };
    }
    if certificates.empty().iter().any(|empty| empty == name) {
        return Answer::Data(format!("Filename: {name}\nStatus: Empty\n"));
    }
    let Some(known) = certificates.store.find(name) else {
        return Answer::error(NOT_FOUND);
    };
    let status = if session.shared.uses_certificate(&known) { "Used" } else { "Unused" };
    Answer::Data(format!("Filename: {name}\nStatus: {status}\n{}", details(&known.current())))
}

/// The suffix of the name of a certificate's OCSP response.
const OCSP: &str = ".ocsp";

const NOT_FOUND: &str = "Can't display the certificate: Not found or the certificate is a bundle!";

/// `show ssl cert *<name>`: what the change in preparation would make of it.
fn show_prepared(session: &Session, name: &str) -> Answer {
    let certificates = &session.shared.certificates;
    let of =
        name.strip_suffix(OCSP).filter(|of| certificates.changing().is_some_and(|changing| changing == **of));
    match certificates.prepared(of.unwrap_or(name)) {
        Ok(loaded) if of.is_some() => response_of(&loaded),
        Ok(loaded) => Answer::Data(format!("Filename: *{name}\nStatus: Unused\n{}", details(&loaded))),
        Err(reason) => Answer::error(reason),
    }
}

fn details(loaded: &Loaded) -> String {
    let mut text = certificate::description(loaded.certificate()).unwrap_or_default();
    for issuer in loaded.chain().iter().skip(1) {
        let subject = certificate::subject(issuer).unwrap_or_default();
        // Writing to memory cannot fail.
        writeln!(text, "Chain Subject: {subject}").unwrap_or_default();
    }
    if let Some(id) = loaded.ocsp_id().filter(|_| loaded.uses_ocsp()) {
        writeln!(text, "OCSP Response Key: {}", id.to_hex()).unwrap_or_default();
    }
    text
}

fn response_of(loaded: &Loaded) -> Answer {
    match loaded.ocsp_response() {
        Some(response) => ocsp::described(response),
        None => Answer::error("Can't display the OCSP response: the certificate has none!"),
    }
}

/// `dump ssl cert [*]<name>`
pub(crate) fn dump(session: &mut Session, request: &Request) -> Answer {
    let certificates = &session.shared.certificates;
    let name = request.word(3);
    if name.is_empty() {
        return Answer::error("'dump ssl cert' expects a filename");
    }
    let pem = match name.strip_prefix('*') {
        Some(name) => match certificates.prepared(name) {
            Ok(loaded) => loaded.to_pem(),
            Err(reason) => return Answer::error(reason),
        },
        None => {
            let name = name.strip_prefix('\\').unwrap_or(name);
            certificates.store.find(name).and_then(|known| known.current().to_pem())
        }
    };
    pem.map_or_else(|| Answer::error(CANNOT_DUMP), Answer::Data)
}

const CANNOT_DUMP: &str = "Can't dump the certificate: Not found or the certificate is a bundle!";

/// `show ssl sni [-f <frontend>] [-A] [-t <offset>]`
pub(crate) fn show_names(session: &mut Session, request: &Request) -> Answer {
    let (mut frontend, mut only_expired, mut offset_s) = (None, false, 0);
    let mut words = request.words.iter().skip(3);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-A" => only_expired = true,
            "-f" => frontend = words.next(),
            "-t" => match words.next().and_then(|text| units::time(text, Unit::Seconds).ok()) {
                Some(offset) => offset_s = i64::try_from(offset.as_secs()).unwrap_or(i64::MAX),
                None => return Answer::error("'-t' expects a time such as 30d"),
            },
            other => return Answer::error(format!("'{other}': expected -f <frontend>, -A or -t <offset>")),
        }
    }
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let at = i64::try_from(now).unwrap_or(i64::MAX).saturating_add(offset_s);
    let mut text = "# Frontend/Bind\tSNI\tNegative Filter\tType\tFilename\tNotAfter\tNotBefore\n".to_owned();
    for (line, server) in session.shared.certificates.lines() {
        if frontend.is_some_and(|wanted| *wanted != line.frontend) {
            continue;
        }
        for used in server.names() {
            let current = used.certificate.current();
            let (begins, ends) = certificate::validity(current.certificate()).unwrap_or_default();
            if only_expired && ends > at {
                continue;
            }
            let excluded = if used.excluded.is_empty() { "-".to_owned() } else { used.excluded.join(" ") };
            // Writing to memory cannot fail.
            writeln!(
                text,
                "{}/{}\t{}\t{excluded}\t{}\t{}\t{}\t{}",
                line.frontend,
                line.place,
                used.name,
                if current.is_rsa() { "rsa" } else { "ecdsa" },
                used.certificate.name(),
                certificate::readable_date(ends),
                certificate::readable_date(begins)
            )
            .unwrap_or_default();
        }
    }
    Answer::Data(text)
}

/// `new ssl cert <name>`
pub(crate) fn create(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(3);
    if name.is_empty() {
        return Answer::error("'new ssl cert' expects a filename");
    }
    said(session.shared.certificates.create(name), || format!("New empty certificate store '{name}'!"))
}

/// `set ssl cert <name> <<` and PEM text
pub(crate) fn set(session: &mut Session, request: &Request) -> Answer {
    let (name, Some(content)) = (request.word(3), &request.payload) else {
        return Answer::error("'set ssl cert' expects a filename and a certificate as a payload");
    };
    match session.shared.certificates.prepare(name, content.clone()) {
        Ok((name, Prepared::Created)) => Answer::info(format!("Transaction created for certificate {name}!")),
        Ok((name, Prepared::Updated)) => Answer::info(format!("Transaction updated for certificate {name}!")),
        Err(reason) => Answer::error(reason),
    }
}

/// `commit ssl cert <name>`
pub(crate) fn commit(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(3);
    match session.shared.commit_certificate(name) {
        Ok(()) => Answer::Data(format!("Committing {name}.\nSuccess!\n")),
        Err(reason) => Answer::error(reason),
    }
}

/// `abort ssl cert <name>`
pub(crate) fn abort(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(3);
    said(session.shared.certificates.abort(name), || format!("Transaction aborted for certificate '{name}'!"))
}

/// `del ssl cert <name>`
pub(crate) fn delete(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(3);
    said(session.shared.delete_certificate(name), || format!("Certificate '{name}' deleted!"))
}

/// `show ssl crt-list [-n] [<list>]`
pub(crate) fn show_lists(session: &mut Session, request: &Request) -> Answer {
    let numbered = request.word(3) == "-n";
    let name = request.word(if numbered { 4 } else { 3 });
    let lists = session.shared.certificates.lists();
    if name.is_empty() {
        return Answer::Data(lists.keys().map(|list| format!("{}\n", list.display())).collect());
    }
    let Some(entries) = lists.get(Path::new(name)) else {
        return Answer::error("didn't find the specified filename");
    };
    let mut text = format!("# {name}\n");
    for entry in entries {
        text.push_str(&entry.certificate);
        // Writing to memory cannot fail.
        if numbered {
            write!(text, ":{}", entry.line.number).unwrap_or_default();
        }
        if !entry.line.options.is_empty() {
            write!(text, " [{}]", entry.line.options.join(" ")).unwrap_or_default();
        }
        entry.line.filters.iter().for_each(|filter| write!(text, " {filter}").unwrap_or_default());
        text.push('\n');
    }
    Answer::Data(text)
}

/// `add ssl crt-list <list> <certificate>`, or with a whole line as payload
pub(crate) fn add_line(session: &mut Session, request: &Request) -> Answer {
    let list = request.word(3);
    let payload = request.payload.as_deref().map(String::from_utf8_lossy);
    let line = payload.as_deref().unwrap_or_else(|| request.word(4));
    if list.is_empty() || line.is_empty() {
        return Answer::error("'add ssl crt-list' expects a filename and a certificate name");
    }
    match session.shared.certificates.add_line(list, line) {
        Ok(name) => Answer::Data(format!("Inserting certificate '{name}' in crt-list '{list}'.\nSuccess!\n")),
        Err(reason) => Answer::error(reason),
    }
}

/// `del ssl crt-list <list> <certificate>[:<line>]`
pub(crate) fn delete_line(session: &mut Session, request: &Request) -> Answer {
    let (list, certificate) = (request.word(3), request.word(4));
    match session.shared.certificates.delete_line(list, certificate) {
        Ok(name) => Answer::info(format!("Entry '{name}' deleted in crtlist '{list}'!")),
        Err(reason) => Answer::error(reason),
    }
}

fn said(outcome: Result<(), String>, done: impl FnOnce() -> String) -> Answer {
    match outcome {
        Ok(()) => Answer::info(done()),
        Err(reason) => Answer::error(reason),
    }
}
