//! Commands about name servers: what is counted for each.

use std::fmt::Write as _;

use weir_proxy::control::dns::{COUNTS, Section};

use super::{Answer, Request, Session};

/// `show resolvers [<id>]`
pub(crate) fn show(session: &mut Session, request: &Request) -> Answer {
    let directory = &session.shared.dns;
    let asked = request.word(2);
    if !asked.is_empty() && directory.section(asked).is_none() {
        return Answer::error("Can't find that resolvers section");
    }
    let mut text = String::new();
    for section in directory.sections().filter(|section| asked.is_empty() || section.name() == asked) {
        tell(section, &mut text);
    }
    Answer::Data(text)
}

/// Column of the values in `show resolvers`, from the start of the name.
const VALUE_COLUMN: usize = 13;

fn tell(section: &Section, text: &mut String) {
    // Writing to memory cannot fail.
    writeln!(text, "Resolvers section {}", section.name()).unwrap_or_default();
    for server in &section.servers {
        writeln!(text, " nameserver {}:", server.name).unwrap_or_default();
        for ((name, _), count) in COUNTS.iter().zip(server.counts()) {
            let name = format!("{name}:");
            writeln!(text, "  {name:VALUE_COLUMN$}{count}").unwrap_or_default();
        }
    }
}

/// `show stat domain resolvers`, in the layout of CSV.
pub(crate) fn statistics(session: &Session) -> Answer {
    let mut text = "# id,pid".to_owned();
    for (_, name) in COUNTS {
        text.push(',');
        text.push_str(name);
    }
    text.push_str(",\n");
    for section in session.shared.dns.sections() {
        for server in &section.servers {
            // Writing to memory cannot fail.
            write!(text, "{},{}", server.name, section.name()).unwrap_or_default();
            for count in server.counts() {
                write!(text, ",{count}").unwrap_or_default();
            }
            text.push_str(",\n");
        }
    }
    Answer::Data(text)
}
