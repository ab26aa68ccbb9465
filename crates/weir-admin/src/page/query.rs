//! The words after the page's address: `;csv`, `;up`, `?scope=...`.
//!
//! They stand anywhere and in any order, behind `;`, `?` or `&`.

use super::form::Outcome;

/// Longest part of a name that is searched for.
const MAX_SCOPE_CHARACTERS: usize = 64;

/// What a reader asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Query {
    pub(crate) wanted: Wanted,
    /// Only servers that are up.
    pub(crate) up: bool,
    /// No servers in maintenance.
    pub(crate) no_maint: bool,
    /// The page does not load itself again.
    pub(crate) no_refresh: bool,
    /// Only proxies with this in their name.
    pub(crate) scope: Option<String>,
    /// What became of the last change.
    pub(crate) outcome: Option<Outcome>,
}

/// In which layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    #[default]
    Page,
    Csv,
    Typed,
    Json,
    Schema,
}

impl Query {
    /// Reads what follows `stats uri` in a request.
    pub(crate) fn parse(rest: &[u8]) -> Self {
        let mut query = Self::default();
        let text = String::from_utf8_lossy(rest);
        for word in text.split([';', '?', '&']) {
            match word {
                "csv" => query.wanted = Wanted::Csv,
                "typed" => query.wanted = Wanted::Typed,
                "json" => query.wanted = Wanted::Json,
                "json-schema" => query.wanted = Wanted::Schema,
                "up" => query.up = true,
                "no-maint" => query.no_maint = true,
                "norefresh" => query.no_refresh = true,
                _ => {}
            }
            if let Some(name) = word.strip_prefix("scope=") {
                let decoded = String::from_utf8_lossy(&decode(name.as_bytes())).into_owned();
                let name: String = decoded.chars().take(MAX_SCOPE_CHARACTERS).collect();
                query.scope = Some(name).filter(|name| !name.is_empty());
            }
            if let Some(code) = word.strip_prefix("st=") {
                query.outcome = Outcome::from_code(code);
            }
        }
        query
    }

    /// The same page with what became of a change.
    pub(crate) fn location(&self, uri: &[u8], outcome: Outcome) -> String {
        let query = Self { outcome: Some(outcome), ..self.clone() };
        query.link(uri)
    }

    /// A link to the page in this view.
    pub(crate) fn link(&self, uri: &[u8]) -> String {
        let mut link = String::from_utf8_lossy(uri).into_owned();
        match self.wanted {
            Wanted::Page => {}
            Wanted::Csv => link.push_str(";csv"),
            Wanted::Typed => link.push_str(";typed"),
            Wanted::Json => link.push_str(";json"),
            Wanted::Schema => link.push_str(";json-schema"),
        }
        if let Some(outcome) = self.outcome {
            link.push_str(";st=");
            link.push_str(outcome.code());
        }
        let flags = [(self.up, ";up"), (self.no_maint, ";no-maint"), (self.no_refresh, ";norefresh")];
        for (_, word) in flags.iter().filter(|(on, _)| *on) {
            link.push_str(word);
        }
        if let Some(scope) = &self.scope {
            link.push_str("?scope=");
            encode(scope, &mut link);
        }
        link
    }
}

/// Undoes `%XX` and `+` (application/x-www-form-urlencoded).
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    let digit = |byte: Option<&u8>| byte.and_then(|b| (*b as char).to_digit(16));
    while let Some(byte) = text.get(at) {
        match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            (other, ..) => {
                out.push(*other);
                at += 1;
            }
        }
    }
    out
}

/// Writes `%XX` for everything that could mean something in an address.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_order() {
        let check =
            |rest: &str, expected: Query| assert_eq!(Query::parse(rest.as_bytes()), expected, "{rest}");
        let csv = Query { wanted: Wanted::Csv, ..Query::default() };
        check("", Query::default());
        check(";csv", csv.clone());
        check(";csv;", csv.clone());
        check("?;csv;scope=b1", Query { scope: Some("b1".into()), ..csv.clone() });
        check("?scope=b1;csv", Query { scope: Some("b1".into()), ..csv });
        check(
            ";up;norefresh;no-maint",
            Query { up: true, no_refresh: true, no_maint: true, ..Query::default() },
        );
        check(";st=DONE?scope=", Query { outcome: Some(Outcome::Done), ..Query::default() });
        check("?scope=a%20b", Query { scope: Some("a b".into()), ..Query::default() });
        check(";csvx", Query::default());
    }

    #[test]
    fn locations() {
        let check = |rest: &str, outcome, expected: &str| {
            assert_eq!(Query::parse(rest.as_bytes()).location(b"/stats", outcome), expected);
        };
        check(";up?scope=be", Outcome::Done, "/stats;st=DONE;up?scope=be");
        check("?scope=a\r\nb", Outcome::Nothing, "/stats;st=NONE?scope=a%0D%0Ab");
    }

    #[test]
    fn decoding() {
        let check = |text: &str, expected: &str| assert_eq!(decode(text.as_bytes()), expected.as_bytes());
        check("%233", "#3");
        check("a+b%", "a b%");
        check("%zz%4", "%zz%4");
    }
}
