//! Commands about stick tables.

use weir_proxy::Shared;
use weir_proxy::state::stick_table::{Filter, MAX_FILTERS, Removal, StickTable};

use super::{Answer, Request, Session};

/// What a command applies to.
enum Chosen {
    All,
    Filtered(Vec<Filter>),
    Key(weir_balance::Key),
}

type Outcome = Result<Answer, Answer>;

fn either(outcome: Outcome) -> Answer {
    outcome.unwrap_or_else(|refused| refused)
}

fn named<'a>(shared: &'a Shared, name: &str) -> Result<&'a StickTable, Answer> {
    shared.tables.named(name).map(AsRef::as_ref).ok_or_else(|| Answer::error("No such table"))
}

/// Reads the words after the table's name: `key K`, or up to four `data.TYPE OPERATOR VALUE`.
fn chosen(table: &StickTable, words: &[String]) -> Result<Chosen, Answer> {
    match words.first().map(String::as_str) {
        None => Ok(Chosen::All),
        Some("key") => match words.get(1) {
            None => Err(Answer::error("Key value expected")),
            Some(key) => table.parse_key(key).map(Chosen::Key).map_err(Answer::error),
        },
        Some("ptr") => Err(Answer::missing("choosing an entry by ptr")),
        Some(word) if word.starts_with("data.") => {
            if words.len() > MAX_FILTERS * 3 {
                return Err(Answer::error(format!("More than {MAX_FILTERS} filters.")));
            }
            let mut filters = Vec::new();
            for (at, filter) in words.chunks(3).enumerate() {
                let word = |at: usize| filter.get(at).map_or("", String::as_str);
                let parsed = Filter::parse(table, word(0), word(1), word(2));
                filters.push(
                    parsed.map_err(|error| Answer::error(format!("Filter entry #{}: {error}", at + 1)))?,
                );
            }
            Ok(Chosen::Filtered(filters))
        }
        Some(_) => Err(Answer::error(
            "Optional argument only supports \"data.<store_data_type>\" <operator> <value> and key <key>",
        )),
    }
}

/// `show table [<table> [<filter>]*]`
pub(crate) fn show(session: &mut Session, request: &Request) -> Answer {
    either(try_show(session, request))
}

fn try_show(session: &Session, request: &Request) -> Outcome {
    let mut text = String::new();
    if request.word(2).is_empty() {
        for table in session.shared.tables.iter() {
            text.push_str(&table.header());
            text.push('\n');
        }
        return Ok(Answer::Data(text));
    }
    let table = named(&session.shared, request.word(2))?;
    let filters = match chosen(table, &request.words[3..])? {
        Chosen::All => Vec::new(),
        Chosen::Filtered(filters) => filters,
        Chosen::Key(key) => {
            if let Some(row) = table.row(&key) {
                text = format!("{}\n{row}\n", table.header());
            }
            return Ok(Answer::Data(text));
        }
    };
    text = table.header();
    text.push('\n');
    for part in 0..table.parts() {
        for row in table.rows(part, &filters) {
            text.push_str(&row.to_string());
            text.push('\n');
        }
    }
    Ok(Answer::Data(text))
}

/// `clear table <table> [<filter>]*`
pub(crate) fn clear(session: &mut Session, request: &Request) -> Answer {
    either(try_clear(session, request))
}

fn try_clear(session: &Session, request: &Request) -> Outcome {
    if request.word(2).is_empty() {
        return Err(Answer::error(
            "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key>",
        ));
    }
    let table = named(&session.shared, request.word(2))?;
    match chosen(table, &request.words[3..])? {
        Chosen::All => table.clear(&[]),
        Chosen::Filtered(filters) => table.clear(&filters),
        Chosen::Key(key) => {
            if table.remove(&key) == Removal::InUse {
                return Err(Answer::error("Entry currently in use, cannot remove"));
            }
            return Ok(Answer::Done);
        }
    };
    Ok(Answer::Done)
}

/// `set table <table> key <k> [data.* <v>]*`
pub(crate) fn set(session: &mut Session, request: &Request) -> Answer {
    either(try_set(session, request))
}

fn try_set(session: &Session, request: &Request) -> Outcome {
    if request.word(2).is_empty() {
        return Err(Answer::error("Required arguments: <table> key <key> [data.<store_data_type> <value>]*"));
    }
    let table = named(&session.shared, request.word(2))?;
    if request.word(3).starts_with("data.") {
        let refused = "content-based lookup is only supported with the \"show\" and \"clear\" actions";
        return Err(Answer::error(refused));
    }
    let Chosen::Key(key) = chosen(table, &request.words[3..])? else {
        return Err(Answer::error("Required arguments: <table> key <key> [data.<store_data_type> <value>]*"));
    };
    // Everything is read before anything is changed.
    let mut values = Vec::new();
    for pair in request.words.get(5..).unwrap_or_default().chunks(2) {
        let name = pair.first().map_or("", String::as_str);
        if !name.starts_with("data.") {
            return Err(Answer::error("\"data.<type>\" followed by a value expected"));
        }
        let (kind, element) = table.data_type(name).map_err(Answer::error)?;
        let value = pair.get(1).and_then(|value| value.parse().ok());
        let value: u64 = value.ok_or_else(|| Answer::error("Require a valid integer value to store"))?;
        values.push((kind, element, value));
    }
    if !table.make(&key) {
        return Err(Answer::error("Unable to allocate a new entry"));
    }
    for (kind, element, value) in values {
        table.set(&key, kind, element, value);
    }
    Ok(Answer::Done)
}
