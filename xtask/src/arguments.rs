//! Reads a command's options: `--name VALUE` and `--switch`, checked against what the command knows.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The options a command was given.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    values: BTreeMap<String, String>,
    switches: Vec<String>,
    /// Words that belong to no option.
    pub(crate) words: Vec<String>,
}

impl Arguments {
    /// Reads `given`; an option that stands neither in `with_value` nor in `switches` is an error.
    pub(crate) fn read(given: &[String], with_value: &[&str], switches: &[&str]) -> Result<Self, String> {
        let mut read = Self::default();
        let mut rest = given.iter();
        while let Some(word) = rest.next() {
            let Some(option) = word.strip_prefix("--") else {
                read.words.push(word.clone());
                continue;
            };
            let (name, inline) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            if switches.contains(&name) && inline.is_none() {
                read.switches.push(name.to_owned());
            } else if with_value.contains(&name) {
                let value = inline
                    .or_else(|| rest.next().cloned())
                    .ok_or_else(|| format!("--{name} needs a value"))?;
                read.values.insert(name.to_owned(), value);
            } else {
                return Err(format!("unknown option '{word}'"));
            }
        }
        Ok(read)
    }

    pub(crate) fn has(&self, switch: &str) -> bool {
        self.switches.iter().any(|given| given == switch)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The number given for `name`, or `default`.
    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name}: '{text}' is not a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let given: Vec<String> = ["--jobs", "3", "one", "--keep-logs", "--case=ssl"]
            .iter()
            .map(|word| (*word).to_owned())
            .collect();
        let read = Arguments::read(&given, &["jobs", "case"], &["keep-logs"]).unwrap();
        assert_eq!(read.number("jobs", 1), Ok(3));
        assert_eq!(read.text("case"), Some("ssl"));
        assert!(read.has("keep-logs"));
        assert_eq!(read.words, ["one"]);
        assert!(Arguments::read(&given, &["jobs"], &[]).is_err());
    }
}
