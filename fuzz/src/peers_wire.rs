//! The peers protocol: what was read and written anew is read the same again.

use weir_proxy::control::peers::wire::{Definition, Message, next_message, put, raw_update, read_update};

/// Messages one after another, and the updates with the definitions that came before them.
pub fn peers_wire(data: &[u8]) {
    let mut input = data;
    let mut definition: Option<Definition> = None;
    let mut dictionary = Vec::new();
    loop {
        let before = input;
        let Ok(Some(message)) = next_message(&mut input) else { return };
        let length = before.len() - input.len();
        assert!(
            matches!(next_message(&mut &before[..length - 1]), Ok(None)),
            "a message is read before its end"
        );
        if message != Message::Unknown {
            let mut written = Vec::new();
            put(&message, &mut written);
            assert_eq!(next_message(&mut &written[..]), Ok(Some(message.clone())));
        }
        match (message, &definition) {
            (Message::Define(new), _) => definition = Some(new),
            (Message::Update(raw), Some(definition)) => {
                let Ok(update) = read_update(definition, &raw, &mut dictionary) else { continue };
                let again = raw_update(definition, &update);
                assert_eq!(read_update(definition, &again, &mut Vec::new()), Ok(update));
            }
            _ => {}
        }
    }
}
