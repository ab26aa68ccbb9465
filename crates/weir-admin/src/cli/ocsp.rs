//! Commands about OCSP responses: which there are, what they say, and fetching them.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_net::tls::ocsp::{Basic, CertificateId, CertificateStatus, Responder, Response};
use weir_proxy::control::certificates::from_base64;
use weir_rules::data::certificate;

use super::{Answer, Request, Session};

/// `show ssl ocsp-response [[text|base64] <id|certificate>]`
pub(crate) fn show(session: &mut Session, request: &Request) -> Answer {
    let certificates = &session.shared.certificates;
    let (format, name) = match (request.word(3), request.word(4)) {
        (format @ ("text" | "base64"), name) => (format, name),
        (name, _) => ("text", name),
    };
    if name.is_empty() {
        return Answer::Data(list(&certificates.with_ocsp()));
    }
    let by_id = || certificates.with_ocsp().into_iter().find(|(id, _)| id.to_hex() == name);
    let found = certificates.store.find(name).or_else(|| by_id().map(|(_, certificate)| certificate));
    let Some(loaded) = found.map(|certificate| certificate.current()) else {
        return Answer::error("Certificate ID or path does not match any certificate.");
    };
    match loaded.ocsp_response() {
        None => Answer::error("There is no OCSP response yet."),
        Some(response) if format == "base64" => Answer::Data(STANDARD.encode(response) + "\n"),
        Some(response) => described(response),
    }
}

fn list(
    found: &std::collections::BTreeMap<CertificateId, Arc<weir_net::tls::certificate::Certificate>>,
) -> String {
    let mut text = "# Certificate IDs\n".to_owned();
    for (id, certificate) in found {
        // Writing to memory cannot fail.
        writeln!(
            text,
            "Certificate ID key : {}\nCertificate path : {}\n  Certificate ID:\n{}",
            id.to_hex(),
            certificate.name(),
            identity(id, "    ")
        )
        .unwrap_or_default();
    }
    text
}

fn identity(id: &CertificateId, indent: &str) -> String {
    let serial: Vec<u8> = id.serial.iter().copied().skip_while(|byte| *byte == 0).collect();
    format!(
        "{indent}Issuer Name Hash: {}\n{indent}Issuer Key Hash: {}\n{indent}Serial Number: {}",
        hex(&id.name_hash),
        hex(&id.key_hash),
        hex(&serial)
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A response for people.
pub(crate) fn described(response: &[u8]) -> Answer {
    let Some(response) = Response::parse(response) else {
        return Answer::error("The OCSP response is malformed.");
    };
    let mut text = format!(
        "OCSP Response Data:\n    OCSP Response Status: {} (0x{:x})\n",
        status_name(response.status),
        response.status
    );
    if let Some(basic) = &response.basic {
        text.push_str(&answers(basic));
    }
    Answer::Data(text)
}

/// RFC 6960 section 4.2.1, OCSPResponseStatus.
fn status_name(status: u8) -> &'static str {
    match status {
        0 => "successful",
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "(UNKNOWN)",
    }
}

fn answers(basic: &Basic) -> String {
    let responder = match &basic.responder {
        Responder::Name(name) => certificate::name_in_line(name).unwrap_or_default(),
        Responder::KeyHash(hash) => hex(hash),
    };
    let mut text = format!(
        "    Response Type: Basic OCSP Response\n    Version: {} (0x{:x})\n    Responder Id: {responder}\n    \
         Produced At: {}\n    Responses:\n",
        basic.version,
        basic.version - 1,
        certificate::readable_date(basic.produced_at)
    );
    for single in &basic.singles {
        if let Some(id) = &single.id {
            let identity = identity(id, "      ");
            // Writing to memory cannot fail.
            writeln!(text, "    Certificate ID:\n      Hash Algorithm: sha1\n{identity}").unwrap_or_default();
        }
        let status = match single.status {
            CertificateStatus::Good => "good".to_owned(),
            CertificateStatus::Unknown => "unknown".to_owned(),
            CertificateStatus::Revoked(at, _) => {
                format!("revoked\n    Revocation Time: {}", certificate::readable_date(at))
            }
        };
        let this_update = certificate::readable_date(single.this_update);
        writeln!(text, "    Cert Status: {status}\n    This Update: {this_update}").unwrap_or_default();
        if let Some(next) = single.next_update {
            writeln!(text, "    Next Update: {}", certificate::readable_date(next)).unwrap_or_default();
        }
    }
    text
}

/// `show ssl ocsp-updates`
pub(crate) fn show_updates(session: &mut Session, _: &Request) -> Answer {
    let mut text =
        "OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status | \
                    Last Update Status (str)\n"
            .to_owned();
    for (id, update) in session.shared.certificates.updates.planned() {
        let date = |seconds: u64| {
            let time = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
            time.map_or_else(|| "-".to_owned(), |time| time.strftime("%d/%b/%Y:%H:%M:%S %z").to_string())
        };
        // Writing to memory cannot fail.
        writeln!(
            text,
            "{} | {} | {} | {} | {} | {} | {} | {}",
            id.to_hex(),
            update.path,
            date(update.next),
            update.last.map_or_else(|| "-".to_owned(), date),
            update.successes,
            update.failures,
            update.outcome as u8,
            update.outcome
        )
        .unwrap_or_default();
    }
    Answer::Data(text)
}

/// `set ssl ocsp-response <response>`, or as payload; in base64
pub(crate) fn set(session: &mut Session, request: &Request) -> Answer {
    let text = request.payload.as_deref().unwrap_or_else(|| request.word(3).as_bytes());
    if text.is_empty() {
        return Answer::error("'set ssl ocsp-response' expects response in base64 encoding.");
    }
    let done = from_base64(text).and_then(|der| session.shared.certificates.set_ocsp(&der));
    match done {
        Ok(()) => Answer::info("OCSP Response updated!"),
        Err(reason) => Answer::error(format!("Failed to update OCSP response: {reason}.")),
    }
}

/// `update ssl ocsp-response <certificate>`
pub(crate) fn update(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(3).to_owned();
    if name.is_empty() {
        return Answer::error("'update ssl ocsp-response' expects a certificate.");
    }
    let shared = Arc::clone(&session.shared);
    Answer::later(async move {
        match shared.update_ocsp(&name).await {
            Ok(response) => described(&response),
            Err(reason) => Answer::error(reason),
        }
    })
}
