//! Pages for a reader: the index, a source text, the request that was sent.

use weir_http::{FieldName, Request};

use crate::content::SOURCE;
use crate::url::WORDS;

/// Body and media type.
pub(crate) type Page = (Vec<u8>, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// How pages look.
const STYLE: &str = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>\
    <style>:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:60rem;margin:2rem auto;\
    padding:0 1rem}table{border-collapse:collapse;width:100%}td{padding:.25rem .75rem .25rem 0;vertical-align:top;\
    border-top:1px solid #8884}code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow-x:auto}</style>";

/// What this server does: for browsers a page, for others text.
pub(crate) fn index(request: &Request) -> Page {
    let accept = request.fields.first(FieldName::Accept).unwrap_or_default();
    if accept.windows(9).any(|part| part == b"text/html") { index_html() } else { index_text() }
}

fn index_html() -> Page {
    let mut page = format!(
        "{STYLE}<title>weir origin</title><h1>weir origin</h1><p>Answers are described by their URLs. Words can be \
         put together, in a path (<code>/status/503/bytes/9000</code>) or in a query \
         (<code>/bytes/9000?delay=50ms</code>). Query parameters that begin with an underscore are ignored.</p><table>"
    );
    for word in WORDS {
        let (name, value) = (word.name, escape(word.value));
        let (doc, example) = (escape(word.doc), escape(word.example));
        page.push_str(&format!(
            "<tr><td><code>{name}</code> <code>{value}</code><td>{doc}<td><a href='{example}'><code>{example}</code></a>\n"
        ));
    }
    page.push_str("</table>\n");
    (page.into_bytes(), HTML)
}

fn index_text() -> Page {
    let mut page = "Answers are described by their URLs.  Words can be put together, in a path\n\
                    (/status/503/bytes/9000) or in a query (/bytes/9000?delay=50ms).  Query parameters that\n\
                    begin with an underscore are ignored.\n\n"
        .to_owned();
    for word in WORDS {
        let usage = format!("{} {}", word.name, word.value);
        page.push_str(&format!("  {usage:<16} {}\n  {:<16} {}\n", word.doc, "", word.example));
    }
    (page.into_bytes(), PLAIN)
}

/// The source text.
pub(crate) fn source(plain: bool) -> Page {
    if plain {
        return (SOURCE.into(), PLAIN);
    }
    let text = escape(SOURCE);
    (format!("{STYLE}<title>weir origin: source</title><pre>{text}</pre>\n").into_bytes(), HTML)
}

/// The request as it arrived.
pub(crate) fn echo(request: &Request, body_bytes: u64) -> Page {
    let mut page = Vec::new();
    page.extend_from_slice(request.method_bytes());
    page.push(b' ');
    page.extend_from_slice(request.uri_bytes());
    page.push(b'\n');
    for (name, value) in request.fields.iter() {
        page.extend_from_slice(name);
        page.extend_from_slice(b": ");
        page.extend_from_slice(value);
        page.push(b'\n');
    }
    page.extend_from_slice(format!("\n{body_bytes} bytes of body\n").as_bytes());
    (page, PLAIN)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&#39;")
}
