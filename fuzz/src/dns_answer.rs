//! Answers of name servers: what is taken from them fits the question and can be asked for in turn.

use weir_proxy::control::dns::message::{Answer, Kind, Question};

/// The kind that is asked for, then an answer to a question for `a.test` with the number 7.
pub fn dns_answer(data: &[u8]) {
    let Some((kind, answer)) = data.split_first() else { return };
    let kind = [Kind::A, Kind::Aaaa, Kind::Srv][usize::from(kind % 3)];
    let question = Question { id: 7, name: "a.test".into(), kind };
    match question.read(answer) {
        Ok(Answer::Addresses { found, .. }) => {
            assert!(!found.is_empty());
            assert!(found.iter().all(|ip| ip.is_ipv4() == (kind == Kind::A)));
        }
        Ok(Answer::Services(found)) => {
            assert!(kind == Kind::Srv && !found.is_empty());
            for service in found {
                assert!(service.host.bytes().all(|byte| byte.is_ascii_graphic()));
                let next = Question { id: 7, name: service.host, kind: Kind::A };
                assert!(next.to_bytes(512).is_some());
            }
        }
        Err(_) => {}
    }
}
