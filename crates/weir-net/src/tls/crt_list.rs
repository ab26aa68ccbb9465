//! The crt-list format: a certificate on each line, with options in brackets and names to use it for.
//!
//! Owns the reading of the text. What the options mean is left to `server`.

use std::path::PathBuf;

/// One line of a crt-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrtListLine {
    /// The number of the line, from 1.
    pub number: usize,
    /// The certificate's file.
    pub file: PathBuf,
    /// The words between the brackets.
    pub options: Vec<String>,
    /// The names to use the certificate for, in lower case; its own when there are none.
    pub filters: Vec<SniFilter>,
}

/// A name that a certificate is or is not used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SniFilter {
    /// Exactly this name.
    Exact(String),
    /// Every name one label longer than this suffix, which begins with a dot.
    Wildcard(String),
    /// Not this name, although a wildcard of the same line matches it.
    Not(String),
    /// Every name that nothing else matches (`*`).
    Default,
}

impl std::fmt::Display for SniFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(suffix) => write!(f, "*{suffix}"),
            Self::Not(name) => write!(f, "!{name}"),
            Self::Default => f.write_str("*"),
        }
    }
}

impl SniFilter {
    /// Reads a filter; `!` before a wildcard has no meaning and is ignored.
    pub fn parse(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let (negated, name) = text.strip_prefix('!').map_or((false, text.as_str()), |name| (true, name));
        if name == "*" {
            return Self::Default;
        }
        match name.strip_prefix('*') {
            Some(suffix) => Self::Wildcard(suffix.to_owned()),
            None if negated => Self::Not(name.to_owned()),
            None => Self::Exact(name.to_owned()),
        }
    }
}

/// Reads a crt-list.
pub fn parse(text: &str) -> Result<Vec<CrtListLine>, String> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        lines.push(parse_line(number, line).map_err(|reason| format!("line {number}: {reason}"))?);
    }
    Ok(lines)
}

fn parse_line(number: usize, line: &str) -> Result<CrtListLine, String> {
    let (file, rest) = line.split_once([' ', '\t', '[']).unwrap_or((line, ""));
    let after_file = line.get(file.len()..).unwrap_or_default().trim_start();
    if file.is_empty() {
        return Err("a certificate's file is expected before '['".to_owned());
    }
    let (options, filters) = match after_file.strip_prefix('[') {
        None => ("", rest),
        Some(inside) => inside.split_once(']').ok_or("']' is missing after the options")?,
    };
    if filters.contains(['[', ']']) || options.contains('[') {
        return Err("options stand between one '[' and one ']' behind the file".to_owned());
    }
    Ok(CrtListLine {
        number,
        file: PathBuf::from(file),
        options: options.split_whitespace().map(str::to_owned).collect(),
        filters: filters.split_whitespace().map(SniFilter::parse).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, file: &str, options: &[&str], filters: &[SniFilter]| {
            let lines = parse(line).unwrap();
            assert_eq!(lines.len(), 1, "{line}");
            assert_eq!(lines[0].file, PathBuf::from(file));
            assert_eq!(lines[0].options, options);
            assert_eq!(lines[0].filters, filters);
        };
        let exact = |name: &str| SniFilter::Exact(name.to_owned());
        check("a.pem", "a.pem", &[], &[]);
        check("# comment\n\n  a.pem.rsa *\n", "a.pem.rsa", &[], &[SniFilter::Default]);
        check("c.pem [alpn h2,http/1.1]", "c.pem", &["alpn", "h2,http/1.1"], &[]);
        check("c.pem[ssl-min-ver TLSv1.3] A.b", "c.pem", &["ssl-min-ver", "TLSv1.3"], &[exact("a.b")]);
        check(
            "w.pem\t*.domain.tld !secure.domain.tld !*.x",
            "w.pem",
            &[],
            &[
                SniFilter::Wildcard(".domain.tld".to_owned()),
                SniFilter::Not("secure.domain.tld".to_owned()),
                SniFilter::Wildcard(".x".to_owned()),
            ],
        );
        check("s.pem [] a b", "s.pem", &[], &[exact("a"), exact("b")]);
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, expected: &str| assert_eq!(parse(line).unwrap_err(), expected);
        check("\na.pem [alpn h2", "line 2: ']' is missing after the options");
        check("[alpn h2]", "line 1: a certificate's file is expected before '['");
        check("a.pem [x] y [z]", "line 1: options stand between one '[' and one ']' behind the file");
    }
}
