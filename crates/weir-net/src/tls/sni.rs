//! Which certificate a client gets: by the name it asks for and the signatures it understands.
//!
//! Owns the table of names of one bind line. Reading certificates is left to `certificate`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, SignatureScheme, SupportedCipherSuite};

use super::certificate::{Certificate, Loaded};
use super::crt_list::SniFilter;
use super::generate::Generator;
use super::info;
use super::signing;

/// A line of a crt-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListLine {
    pub(crate) list: PathBuf,
    pub(crate) number: usize,
}

/// A certificate of a bind line and what it is for.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) certificate: Arc<Certificate>,
    /// From a crt-list; the certificate's own names count when there are none.
    pub(crate) filters: Vec<SniFilter>,
    /// It was given as a default (`default-crt`).
    pub(crate) is_default: bool,
    /// Which of the bind line's configurations goes with it.
    pub(crate) configuration: usize,
    /// Where it stands, when it is from a crt-list.
    pub(crate) line: Option<ListLine>,
    /// Its OCSP response is fetched.
    pub(crate) ocsp_update: bool,
}

/// The names of one bind line.
#[derive(Debug, Default)]
pub(crate) struct SniTable {
    entries: Vec<Entry>,
    exact: HashMap<String, Vec<usize>>,
    /// By suffix, from the first dot on.
    wildcards: HashMap<String, Vec<usize>>,
    defaults: Vec<usize>,
    strict: bool,
}

impl SniTable {
    pub(crate) fn new(entries: Vec<Entry>, strict: bool) -> Self {
        let mut table = Self { strict, ..Self::default() };
        for (index, entry) in entries.iter().enumerate() {
            let mut is_default = entry.is_default;
            if entry.filters.is_empty() {
                for name in entry.certificate.current().names() {
                    table.add(&SniFilter::parse(name), index);
                }
            }
            for filter in &entry.filters {
                is_default |= *filter == SniFilter::Default;
                table.add(filter, index);
            }
            // The first certificate is a default too, unless one was named before it.
            if is_default || (index == 0 && table.defaults.is_empty()) {
                table.defaults.push(index);
            }
        }
        table.entries = entries;
        table
    }

    fn add(&mut self, filter: &SniFilter, index: usize) {
        let (map, name) = match filter {
            SniFilter::Exact(name) => (&mut self.exact, name),
            SniFilter::Wildcard(suffix) => (&mut self.wildcards, suffix),
            SniFilter::Not(_) | SniFilter::Default => return,
        };
        let found = map.entry(name.clone()).or_default();
        if !found.contains(&index) {
            found.push(index);
        }
    }

    /// The certificate for a name in lower case; `suits` says which ones the client can use.
    ///
    /// A name of its own wins over a wildcard, a wildcard over the defaults; among equals ECDSA wins over
    /// RSA, and what was declared first over the rest.
    pub(crate) fn choose(&self, name: Option<&str>, suits: impl Fn(&Loaded) -> bool) -> Option<&Entry> {
        let exact = name.and_then(|name| self.exact.get(name)).map_or(&[][..], Vec::as_slice);
        let wildcards = name.map_or_else(Vec::new, |name| self.wildcards_for(name));
        let defaults = if self.strict { &[][..] } else { &self.defaults };
        let groups = [exact, &wildcards, defaults];
        let chosen = groups.iter().find_map(|group| self.best(group, &suits));
        // None suits: the handshake will fail, and says why with the certificate that was meant.
        chosen.or_else(|| groups.iter().find_map(|group| self.entries.get(*group.first()?)))
    }

    /// Certificates with a wildcard for a name.
    fn wildcards_for(&self, name: &str) -> Vec<usize> {
        let suffix = name.find('.').and_then(|dot| name.get(dot..));
        let wildcards = suffix.and_then(|suffix| self.wildcards.get(suffix)).map_or(&[][..], Vec::as_slice);
        wildcards.iter().copied().filter(|index| !self.excludes(*index, name)).collect()
    }

    /// Whether a certificate other than the default is for a name in lower case.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.exact.contains_key(name) || !self.wildcards_for(name).is_empty()
    }

    fn best(&self, group: &[usize], suits: impl Fn(&Loaded) -> bool) -> Option<&Entry> {
        let mut rsa = None;
        for entry in group.iter().filter_map(|index| self.entries.get(*index)) {
            let loaded = entry.certificate.current.load();
            if !suits(&loaded) {
                continue;
            }
            if !loaded.is_rsa() {
                return Some(entry);
            }
            rsa = rsa.or(Some(entry));
        }
        rsa
    }

    fn excludes(&self, index: usize, name: &str) -> bool {
        let filters = self.entries.get(index).map_or(&[][..], |entry| &entry.filters);
        filters.iter().any(|filter| matches!(filter, SniFilter::Not(not) if not == name))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Each name and the certificate it leads to, for display.
    pub(crate) fn names(&self) -> Vec<NameUse> {
        let mut names: Vec<NameUse> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let excluded = || entry.filters.iter().filter(|filter| matches!(filter, SniFilter::Not(_)));
            let used = |name: String, is_wildcard: bool| NameUse {
                excluded: excluded().filter(|_| is_wildcard).map(ToString::to_string).collect(),
                certificate: Arc::clone(&entry.certificate),
                name,
            };
            let of = |map: &HashMap<String, Vec<usize>>, prefix: &str| {
                let own = map.iter().filter(|(_, indexes)| indexes.contains(&index));
                let mut found: Vec<_> =
                    own.map(|(name, _)| used(format!("{prefix}{name}"), !prefix.is_empty())).collect();
                found.sort_by(|one, other| one.name.cmp(&other.name));
                found
            };
            names.extend(of(&self.exact, ""));
            names.extend(of(&self.wildcards, "*"));
            if self.defaults.contains(&index) && !self.strict {
                names.push(used("*".to_owned(), false));
            }
        }
        names
    }
}

/// A name of a bind line.
#[derive(Debug, Clone)]
pub struct NameUse {
    /// In lower case; with `*` in front for all below a suffix, or `*` alone for all that nothing else matches.
    pub name: String,
    /// What a client that asks for it gets.
    pub certificate: Arc<Certificate>,
    /// What a wildcard is not for.
    pub excluded: Vec<String>,
}

/// Answers rustls' question for a certificate from the table in use at that moment.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) table: Arc<ArcSwap<SniTable>>,
    /// Suites of the line that go with an ECDSA key.
    pub(crate) ecdsa_suites: Vec<CipherSuite>,
    /// The only signatures to make (`sigalgs`).
    pub(crate) schemes: Option<Vec<SignatureScheme>>,
    /// Makes certificates for names that there is none for.
    pub(crate) generator: Option<Arc<Generator>>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(name) = hello.server_name() {
            info::note_server_name(name);
        }
        let table = self.table.load();
        let restricted = self.schemes.as_ref().map(|own| signing::both(own, hello.signature_schemes()));
        let schemes = restricted.as_deref().unwrap_or_else(|| hello.signature_schemes());
        let ecdsa_suite = hello.cipher_suites().iter().any(|suite| self.ecdsa_suites.contains(suite));
        let suits = |loaded: &Loaded| (loaded.is_rsa() || ecdsa_suite) && loaded.suits(schemes);
        let name = hello.server_name();
        let made = name.filter(|name| !table.knows(name)).and_then(|name| {
            // A client without ECDSA gets the default certificate.
            let made = self.generator.as_ref()?.certificate(name)?;
            suits(&made.current.load()).then_some(made)
        });
        let certificate = match made {
            Some(made) => made,
            None => match table.choose(name, suits) {
                Some(entry) => Arc::clone(&entry.certificate),
                None => {
                    if table.choose(name, |_| true).is_none() {
                        info::note_unknown_name();
                    }
                    return None;
                }
            },
        };
        info::note_certificate(Arc::clone(&certificate));
        let loaded = certificate.current.load();
        Some(match &self.schemes {
            None => Arc::clone(loaded.stapled_key()),
            Some(own) => signing::restricted(loaded.stapled_key(), own),
        })
    }
}

/// The suites that a certificate with an ECDSA key can be used with: TLS 1.3's leave the key open, those of TLS 1.2
/// name it.
pub(crate) fn ecdsa_suites(suites: &[SupportedCipherSuite]) -> Vec<CipherSuite> {
    let is_for_ecdsa = |suite: &&SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls13(_) => true,
        SupportedCipherSuite::Tls12(suite) => suite.sign.iter().any(|scheme| {
            matches!(scheme, SignatureScheme::ECDSA_NISTP256_SHA256 | SignatureScheme::ECDSA_NISTP384_SHA384)
        }),
    };
    suites.iter().filter(is_for_ecdsa).map(SupportedCipherSuite::suite).collect()
}

#[cfg(test)]
mod tests {
    use super::super::certificate::CertificateStore;
    use super::super::certificate::tests::self_signed;
    use super::*;

    fn entry(store: &CertificateStore, name: &str, names: &[&str], rsa: bool, filters: &[&str]) -> Entry {
        let (certificate, key) = self_signed(names, rsa);
        let loaded = Loaded::from_pem(format!("{certificate}{key}").as_bytes()).unwrap();
        Entry {
            certificate: store.insert(name.to_owned(), loaded),
            filters: filters.iter().map(|filter| SniFilter::parse(filter)).collect(),
            is_default: false,
            configuration: 0,
            line: None,
            ocsp_update: false,
        }
    }

    #[test]
    fn names_lead_to_certificates() {
        let store = CertificateStore::default();
        let entries = || {
            vec![
                entry(&store, "first", &["a.org"], false, &[]),
                entry(&store, "wild", &["*.a.org"], false, &[]),
                entry(&store, "rsa", &["b.org"], true, &[]),
                entry(&store, "ecdsa", &["b.org"], false, &[]),
                entry(&store, "filtered", &["own.org"], false, &["*.f.org", "!not.f.org", "f.org"]),
                entry(&store, "duplicate", &["a.org"], false, &[]),
            ]
        };
        let loose = SniTable::new(entries(), false);
        let strict = SniTable::new(entries(), true);
        let check =
            |name: Option<&str>, only_rsa: bool, expected: Option<&str>, expected_strict: Option<&str>| {
                let suits = |loaded: &Loaded| loaded.is_rsa() || !only_rsa;
                let found = |table: &SniTable| {
                    table.choose(name, suits).map(|entry| entry.certificate.name().to_owned())
                };
                assert_eq!(found(&loose).as_deref(), expected, "{name:?}");
                assert_eq!(found(&strict).as_deref(), expected_strict, "{name:?} strictly");
            };
        check(Some("a.org"), false, Some("first"), Some("first"));
        check(Some("x.a.org"), false, Some("wild"), Some("wild"));
        check(Some("x.y.a.org"), false, Some("first"), None);
        check(Some("b.org"), false, Some("ecdsa"), Some("ecdsa"));
        check(Some("b.org"), true, Some("rsa"), Some("rsa"));
        check(Some("f.org"), false, Some("filtered"), Some("filtered"));
        check(Some("x.f.org"), false, Some("filtered"), Some("filtered"));
        check(Some("not.f.org"), false, Some("first"), None);
        check(Some("own.org"), false, Some("first"), None);
        check(None, false, Some("first"), None);
        check(Some(""), false, Some("first"), None);
        check(Some("."), false, Some("first"), None);
        assert!(SniTable::new(Vec::new(), false).choose(None, |_| true).is_none());
    }

    #[test]
    fn defaults_can_be_of_both_kinds() {
        let store = CertificateStore::default();
        let table = SniTable::new(
            vec![
                entry(&store, "rsa", &["a.org"], true, &["*"]),
                entry(&store, "ecdsa", &["a.org"], false, &["*"]),
                entry(&store, "other", &["c.org"], false, &[]),
            ],
            false,
        );
        let name = |only_rsa: bool| {
            let suits = |loaded: &Loaded| loaded.is_rsa() || !only_rsa;
            table.choose(None, suits).map(|entry| entry.certificate.name().to_owned())
        };
        assert_eq!(name(false).as_deref(), Some("ecdsa"));
        assert_eq!(name(true).as_deref(), Some("rsa"));
        assert_eq!(table.names().len(), 4);
    }
}
