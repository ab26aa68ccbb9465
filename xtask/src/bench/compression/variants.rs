//! Every algorithm and level that is compared, and what each takes in a configuration.

/// One way to compress, or not to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) subject: &'static str,
    /// The Content-Encoding that the client asks for; none for pages as they are.
    pub(super) coding: Option<&'static str>,
    /// `tune.comp.maxlevel`, or nginx's `gzip_comp_level`.
    pub(super) level: u32,
    /// What the level is called.
    pub(super) name: &'static str,
    /// Variants of one colour are steps of the same thing.
    pub(super) family: usize,
}

const fn variant(
    subject: &'static str,
    coding: Option<&'static str>,
    level: u32,
    name: &'static str,
    family: usize,
) -> Variant {
    Variant { subject, coding, level, name, family }
}

/// In the order of the tables.
pub(super) const VARIANTS: &[Variant] = &[
    variant("weir", None, 1, "weir, uncompressed", 0),
    variant("weir", Some("gzip"), 1, "weir, gzip fast", 0),
    variant("weir", Some("gzip"), 2, "weir, gzip default", 0),
    variant("weir", Some("gzip"), 5, "weir, gzip high", 0),
    variant("weir", Some("deflate"), 1, "weir, deflate fast", 3),
    variant("weir", Some("deflate"), 2, "weir, deflate default", 3),
    variant("weir", Some("deflate"), 5, "weir, deflate high", 3),
    variant("weir", Some("br"), 1, "weir, br", 4),
    variant("weir", Some("zstd"), 1, "weir, zstd", 5),
    variant("haproxy", None, 1, "haproxy, uncompressed", 1),
    variant("haproxy", Some("gzip"), 1, "haproxy, gzip", 1),
    variant("haproxy", Some("deflate"), 1, "haproxy, deflate", 6),
    variant("nginx", None, 1, "nginx, uncompressed", 2),
    variant("nginx", Some("gzip"), 1, "nginx, gzip 1", 2),
    variant("nginx", Some("gzip"), 6, "nginx, gzip 6", 2),
];

/// What the families are called.
pub(super) const FAMILIES: [&str; 7] = [
    "weir, gzip",
    "haproxy, gzip",
    "nginx, gzip",
    "weir, deflate",
    "weir, br",
    "weir, zstd",
    "haproxy, deflate",
];

impl Variant {
    /// What stands in the subject's configuration.
    pub(super) fn values(&self) -> Vec<(&'static str, String)> {
        let compression = match self.coding {
            None => "# not compressed".to_owned(),
            Some(coding) => format!("compression algo {coding}\n    compression type text/html"),
        };
        let gzip = if self.coding.is_some() { "on" } else { "off" };
        vec![("LEVEL", self.level.to_string()), ("COMPRESSION", compression), ("GZIP", gzip.to_owned())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_name_and_one_subject() {
        for variant in VARIANTS {
            let subject = FAMILIES[variant.family].split(',').next();
            assert_eq!(subject, Some(variant.subject), "{}", variant.name);
            assert!(variant.name.starts_with(variant.subject), "{}", variant.name);
        }
    }

    #[test]
    fn what_is_not_compressed_is_not_configured() {
        let check = |coding, expected: [&str; 3]| {
            let values = variant("weir", coding, 2, "", 0).values();
            let values: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(values, expected);
        };
        check(None, ["2", "# not compressed", "off"]);
        check(Some("br"), ["2", "compression algo br\n    compression type text/html", "on"]);
    }
}
