//! The vocabulary as one table: every keyword of every section, of bind and of server lines.
//!
//! Owns the list of families and looking keywords up in all of them.  The parser, the status list and the manual all
//! read this list.

use std::sync::LazyLock;

use weir_rules::{Diagnostic, Word};

use crate::keyword::{Found, Index};

pub use crate::keyword::{Keyword, Places, Status};

/// The tables, in the order of the manual.
const TABLES: &[&[Keyword]] = &[
    crate::global::KEYWORDS,
    crate::tune::KEYWORDS,
    crate::proxy::KEYWORDS,
    crate::proxy::options::KEYWORDS,
    crate::proxy::timeouts::KEYWORDS,
    crate::proxy::logging::KEYWORDS,
    crate::proxy::rules::KEYWORDS,
    crate::proxy::balance::KEYWORDS,
    crate::proxy::checks::KEYWORDS,
    crate::proxy::errors::KEYWORDS,
    crate::proxy::stats::KEYWORDS,
    crate::proxy::content::KEYWORDS,
    crate::proxy::stick::KEYWORDS,
    crate::proxy::removed::KEYWORDS,
    crate::bind::KEYWORDS,
    crate::server::KEYWORDS,
    crate::tls::KEYWORDS,
    crate::small_sections::KEYWORDS,
    crate::fcgi::KEYWORDS,
];

static INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(TABLES));

/// Every keyword.
pub fn all() -> impl Iterator<Item = &'static Keyword> {
    INDEX.all()
}

/// Keywords of that name in all places, for the manual.
#[must_use]
pub fn named(name: &str) -> &'static [&'static Keyword] {
    INDEX.named(name)
}

/// Every keyword with its status, for the list of what works.
pub fn status() -> impl Iterator<Item = (&'static Keyword, Status)> {
    all().map(|keyword| (keyword, keyword.status()))
}

/// The longest keyword that a line starts with.
pub(crate) fn find(line: &[Word], place: Places) -> Found {
    INDEX.find(line, place)
}

/// A word that is no keyword of a place, with the nearest one that is.
pub(crate) fn unknown(line: &[Word], place: Places, where_: &str) -> Diagnostic {
    INDEX.unknown(line, place, where_)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn entries_are_complete() {
        for keyword in all() {
            assert!(!keyword.doc.is_empty() && !keyword.doc.ends_with('.'), "{}", keyword.name);
            assert!(!keyword.places.names().is_empty(), "{}", keyword.name);
            assert_eq!(keyword.name.trim(), keyword.name);
        }
    }

    /// What examples refer to.
    const AROUND: &str = "global\n external-check\n h1-case-adjust host Host\n\
        resolvers dns\n nameserver one 192.0.2.53:53\n\
        healthcheck web\n type httpchk\n\
        mailers mail\n mailer one 192.0.2.25:25\n\
        fcgi-app php\n docroot /var/www\n\
        defaults\n mode http\n timeout client 1m\n timeout connect 1m\n timeout server 1m\n\
        backend api\n server s 192.0.2.3:80\n";

    /// A section that a keyword of this place is right in; its lines stand at `{}`.
    fn section(places: Places) -> &'static str {
        let known = [
            (
                Places::SERVER,
                "backend b\n retry-on conn-failure empty-response response-timeout\n server other 192.0.2.2:80 check\n server s 192.0.2.1:80 {}\n",
            ),
            (Places::BIND, "frontend f\n bind 192.0.2.9:80 {}\n"),
            (Places::BACKEND, "backend b\n server s 192.0.2.1:80\n {}\n"),
            (Places::FRONTEND, "frontend f\n bind 192.0.2.9:80\n {}\n"),
            (Places::HEALTHCHECK, "healthcheck h\n {}\n"),
        ];
        known.into_iter().find(|(place, _)| places.meets(*place)).map_or("", |(_, section)| section)
    }

    #[test]
    fn examples_are_read_without_a_word() {
        let mut wrong = Vec::new();
        for keyword in all() {
            let Some(example) = keyword.example else { continue };
            let named =
                example.lines().any(|line| format!(" {line}").contains(&format!(" {}", keyword.name)));
            let text = AROUND.to_owned() + &section(keyword.places).replace("{}", example);
            let said = match crate::load_str("example", &text) {
                Ok(loaded) => loaded.diagnostics.render(false),
                Err(problems) => problems.render(false),
            };
            if !named || !said.is_empty() {
                wrong.push(format!("{}: {example}\n{said}", keyword.name));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Keywords in force without an example, by the first place they stand in: a number only gets smaller.
    #[test]
    fn few_keywords_have_no_example() {
        let mut without: BTreeMap<&str, usize> = BTreeMap::new();
        for keyword in all().filter(|k| k.example.is_none() && k.status() == Status::Implemented) {
            *without.entry(keyword.places.names()[0]).or_default() += 1;
        }
        assert_eq!(without.into_iter().collect::<Vec<_>>(), WITHOUT_EXAMPLE);
    }

    const WITHOUT_EXAMPLE: &[(&str, usize)] = &[
        ("cache", 5),
        ("crt-store", 3),
        ("defaults", 7),
        ("fcgi-app", 9),
        ("frontend", 3),
        ("global", 157),
        ("http-errors", 1),
        ("log-forward", 9),
        ("log-profile", 2),
        ("mailers", 2),
        ("peers", 10),
        ("resolvers", 7),
        ("ring", 8),
        ("server line", 1),
        ("userlist", 2),
    ];

    #[test]
    fn a_keyword_stands_once_in_a_place() {
        for keyword in all() {
            let same = named(keyword.name).iter().filter(|other| other.places.meets(keyword.places)).count();
            assert_eq!(same, 1, "{}", keyword.name);
        }
    }
}
