//! Questions to name servers and what their answers say: bytes in, values out (RFC 1035, RFC 2782, RFC 6891).
//!
//! Owns which records of an answer count; leaves the wire format to `simple-dns` and the sockets to [`super::ask`].

use std::net::IpAddr;

use simple_dns::rdata::{OPT, RData, SRV};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE, header_buffer,
};

/// Records of an answer that are looked at: an answer that promises more is refused before it is read.
const MAX_RECORDS: u32 = 1024;

/// Longest chain of aliases that is followed.
const MAX_ALIASES: usize = 8;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Services (RFC 2782).
    Srv,
}

impl Kind {
    fn code(self) -> TYPE {
        match self {
            Self::A => TYPE::A,
            Self::Aaaa => TYPE::AAAA,
            Self::Srv => TYPE::SRV,
        }
    }
}

/// A question; one is open on a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Answers have the same number.
    pub id: u16,
    /// A name without its final dot.
    pub name: String,
    /// What is asked for.
    pub kind: Kind,
}

/// One SRV record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Host that offers it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its weight, as in the record.
    pub weight: u16,
    /// Its addresses, when the answer brings them along.
    pub addresses: Vec<IpAddr>,
}

/// What a valid answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Addresses; at least one.
    Addresses {
        /// In the answer's order.
        found: Vec<IpAddr>,
        /// They belong to an alias.
        alias: bool,
    },
    /// Services; at least one.
    Services(Vec<Service>),
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Another question's answer, or nobody's: the right one may still come.
    NotOurs,
    /// Not understood.
    Invalid,
    /// Longer than what was accepted.
    TooBig,
    /// There is more; over TCP all of it.
    Truncated,
    /// The name does not exist.
    Nx,
    /// The name server does not want to answer.
    Refused,
    /// The name exists, without records of this kind.
    Empty,
    /// An alias of a name that has no records of this kind here.
    Alias,
    /// Any other error of the name server.
    Other,
    /// No answer in time.
    Timeout,
    /// The name server cannot be reached.
    Unreachable,
}

impl Question {
    /// The bytes to send; nothing for what is no name.
    #[must_use]
    pub fn to_bytes(&self, accepted_payload: u16) -> Option<Vec<u8>> {
        let name = Name::new(&self.name).ok().filter(|name| !name.get_labels().is_empty())?;
        let mut packet = Packet::new_query(self.id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let kind = QTYPE::TYPE(self.kind.code());
        packet.questions.push(simple_dns::Question::new(name, kind, QCLASS::CLASS(CLASS::IN), false));
        // RFC 6891 section 6.2.3: how much fits into one datagram here.
        *packet.opt_mut() =
            Some(OPT { opt_codes: Vec::new(), udp_packet_size: accepted_payload, version: 0 });
        packet.build_bytes_vec().ok()
    }

    /// What an answer says.
    ///
    /// # Errors
    /// When it says nothing that can be used.
    pub fn read(&self, bytes: &[u8]) -> Result<Answer, Fault> {
        let header = header_buffer::id(bytes).map_err(|_| Fault::Invalid)?;
        let is_response = header_buffer::has_flags(bytes, PacketFlag::RESPONSE).unwrap_or(false);
        if header != self.id || !is_response {
            return Err(Fault::NotOurs);
        }
        if promised(bytes).is_none_or(|records| records > MAX_RECORDS) {
            return Err(Fault::Invalid);
        }
        // RFC 2181 section 9: what a truncated answer holds is not to be used.
        if header_buffer::has_flags(bytes, PacketFlag::TRUNCATION).unwrap_or(false) {
            return Err(Fault::Truncated);
        }
        let packet = Packet::parse(bytes).map_err(|_| Fault::Invalid)?;
        let asked = Name::new(&self.name).map_err(|_| Fault::NotOurs)?;
        match packet.questions.as_slice() {
            [one] if one.qname == asked && one.qtype == QTYPE::TYPE(self.kind.code()) => {}
            // Servers may leave the question out when they refuse to look at it.
            [] if packet.rcode() != RCODE::NoError => {}
            _ => return Err(Fault::NotOurs),
        }
        match packet.rcode() {
            RCODE::NoError => {}
            RCODE::NameError => return Err(Fault::Nx),
            RCODE::Refused => return Err(Fault::Refused),
            _ => return Err(Fault::Other),
        }
        self.collect(&packet, &asked)
    }

    fn collect(&self, packet: &Packet<'_>, asked: &Name<'_>) -> Result<Answer, Fault> {
        let (owner, alias) = canonical(asked, &packet.answers)?;
        let own = packet.answers.iter().filter(|record| record.name == *owner);
        let answer = match self.kind {
            Kind::A | Kind::Aaaa => {
                let wanted = |ip: &IpAddr| ip.is_ipv4() == (self.kind == Kind::A);
                Answer::Addresses { found: own.filter_map(address).filter(wanted).collect(), alias }
            }
            Kind::Srv => Answer::Services(own.filter_map(|record| service(record, packet)).collect()),
        };
        match &answer {
            Answer::Addresses { found, .. } if !found.is_empty() => Ok(answer),
            Answer::Services(found) if !found.is_empty() => Ok(answer),
            _ if alias => Err(Fault::Alias),
            _ => Err(Fault::Empty),
        }
    }
}

/// Number of records that a header promises.
fn promised(bytes: &[u8]) -> Option<u32> {
    let counts = [
        header_buffer::questions(bytes),
        header_buffer::answers(bytes),
        header_buffer::name_servers(bytes),
        header_buffer::additional_records(bytes),
    ];
    counts.into_iter().map(|count| count.ok().map(u32::from)).sum()
}

/// The name at the end of the aliases, and whether there is any.
fn canonical<'a>(
    asked: &'a Name<'a>,
    answers: &'a [ResourceRecord<'a>],
) -> Result<(&'a Name<'a>, bool), Fault> {
    let mut owner = asked;
    for followed in 0..=MAX_ALIASES {
        let next = answers.iter().find_map(|record| match &record.rdata {
            RData::CNAME(target) if record.name == *owner => Some(&target.0),
            _ => None,
        });
        match next {
            Some(next) => owner = next,
            None => return Ok((owner, followed > 0)),
        }
    }
    Err(Fault::Alias)
}

fn address(record: &ResourceRecord<'_>) -> Option<IpAddr> {
    match &record.rdata {
        RData::A(a) => Some(IpAddr::V4(a.address.into())),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.address.into())),
        _ => None,
    }
}

fn service(record: &ResourceRecord<'_>, packet: &Packet<'_>) -> Option<Service> {
    let RData::SRV(SRV { port, weight, target, .. }) = &record.rdata else { return None };
    let host = target.to_string().trim_end_matches('.').to_ascii_lowercase();
    // RFC 2782: the root as a target says that the service is not offered.  What is no host's name (RFC 1123
    // section 2.1, and the underscore that is in use) must not get into logs and further questions.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if host.is_empty() || !host.bytes().all(fits) {
        return None;
    }
    let additional = packet.additional_records.iter().filter(|record| record.name == *target);
    Some(Service { host, port: *port, weight: *weight, addresses: additional.filter_map(address).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::rdata::{A, AAAA, CNAME};

    fn name(text: &str) -> Name<'_> {
        Name::new(text).unwrap()
    }

    fn record<'a>(owner: &'a str, rdata: RData<'a>) -> ResourceRecord<'a> {
        ResourceRecord::new(name(owner), CLASS::IN, 60, rdata)
    }

    fn a(owner: &str, ip: [u8; 4]) -> ResourceRecord<'_> {
        record(owner, RData::A(A { address: u32::from_be_bytes(ip) }))
    }

    fn cname<'a>(owner: &'a str, target: &'a str) -> ResourceRecord<'a> {
        record(owner, RData::CNAME(CNAME(name(target))))
    }

    fn srv<'a>(owner: &'a str, port: u16, target: &'a str) -> ResourceRecord<'a> {
        record(owner, RData::SRV(SRV { priority: 1, weight: 10, port, target: name(target) }))
    }

    /// An answer to the question for `kind` of `a.test`.
    fn reply<'a>(kind: Kind, answers: Vec<ResourceRecord<'a>>) -> Packet<'a> {
        let mut packet = Packet::new_reply(7);
        let kind = QTYPE::TYPE(kind.code());
        packet.questions.push(simple_dns::Question::new(
            name("a.test"),
            kind,
            QCLASS::CLASS(CLASS::IN),
            false,
        ));
        packet.answers = answers;
        packet
    }

    fn read(kind: Kind, packet: &Packet<'_>) -> Result<Answer, Fault> {
        let question = Question { id: 7, name: "A.test".into(), kind };
        question.read(&packet.build_bytes_vec_compressed().unwrap())
    }

    #[test]
    fn addresses_of_the_name_or_of_its_alias_count() {
        let check = |kind, answers, expected: Result<&[&str], Fault>| {
            let got = read(kind, &reply(kind, answers)).map(|answer| match answer {
                Answer::Addresses { found, .. } => found.iter().map(IpAddr::to_string).collect::<Vec<_>>(),
                Answer::Services(_) => panic!("services"),
            });
            assert_eq!(got, expected.map(|list| list.iter().map(|ip| (*ip).to_owned()).collect()));
        };
        check(
            Kind::A,
            vec![a("a.test", [10, 0, 0, 1]), a("a.test", [10, 0, 0, 2])],
            Ok(&["10.0.0.1", "10.0.0.2"]),
        );
        check(Kind::A, vec![a("other.test", [10, 0, 0, 1])], Err(Fault::Empty));
        check(Kind::A, vec![cname("a.test", "b.test"), a("b.test", [10, 0, 0, 1])], Ok(&["10.0.0.1"]));
        check(Kind::A, vec![cname("a.test", "b.test"), a("a.test", [10, 0, 0, 1])], Err(Fault::Alias));
        check(Kind::A, vec![cname("a.test", "b.test"), cname("b.test", "a.test")], Err(Fault::Alias));
        check(Kind::A, vec![], Err(Fault::Empty));
        check(Kind::Aaaa, vec![record("a.test", RData::AAAA(AAAA { address: 1 }))], Ok(&["::1"]));
        check(Kind::Aaaa, vec![a("a.test", [10, 0, 0, 1])], Err(Fault::Empty));
    }

    #[test]
    fn services_bring_addresses_along() {
        let mut packet = reply(Kind::Srv, vec![srv("a.test", 80, "x.test"), srv("a.test", 81, "y.test")]);
        packet.additional_records.push(a("x.test", [10, 0, 0, 1]));
        let of = |host: &str, port, address: Option<&str>| Service {
            host: host.into(),
            port,
            weight: 10,
            addresses: address.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let expected = Answer::Services(vec![of("x.test", 80, Some("10.0.0.1")), of("y.test", 81, None)]);
        assert_eq!(read(Kind::Srv, &packet), Ok(expected));
        for no_host in [".", "a\\010b.test", "a\\.b.test", "a b"] {
            let packet = reply(Kind::Srv, vec![srv("a.test", 80, no_host)]);
            assert_eq!(read(Kind::Srv, &packet), Err(Fault::Empty), "{no_host}");
        }
    }

    #[test]
    fn what_does_not_fit_the_question_is_no_answer() {
        let check = |change: fn(&mut Packet<'_>), expected: Fault| {
            let mut packet = reply(Kind::A, vec![a("a.test", [10, 0, 0, 1])]);
            change(&mut packet);
            assert_eq!(read(Kind::A, &packet), Err(expected));
        };
        check(|packet| packet.set_id(8), Fault::NotOurs);
        check(|packet| packet.remove_flags(PacketFlag::RESPONSE), Fault::NotOurs);
        check(|packet| packet.questions.clear(), Fault::NotOurs);
        check(|packet| packet.questions[0].qname = name("b.test"), Fault::NotOurs);
        check(|packet| packet.questions[0].qtype = QTYPE::TYPE(TYPE::AAAA), Fault::NotOurs);
        check(|packet| packet.set_flags(PacketFlag::TRUNCATION), Fault::Truncated);
        check(|packet| *packet.rcode_mut() = RCODE::NameError, Fault::Nx);
        check(|packet| *packet.rcode_mut() = RCODE::Refused, Fault::Refused);
        check(|packet| *packet.rcode_mut() = RCODE::ServerFailure, Fault::Other);
        let question = Question { id: 7, name: "a.test".into(), kind: Kind::A };
        assert_eq!(question.read(b"\x00\x07\x80"), Err(Fault::Invalid));
        let endless = b"\x00\x07\x80\x00\x00\x00\xff\xff\x00\x00\x00\x00";
        assert_eq!(question.read(endless), Err(Fault::Invalid));
    }

    #[test]
    fn a_question_asks_for_one_thing() {
        let bytes = |name: &str| Question { id: 7, name: name.into(), kind: Kind::A }.to_bytes(512);
        let expected = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x04test\x00\x00\x01\x00\x01\
                         \x00\x00\x29\x02\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(bytes("a.test").as_deref(), Some(&expected[..]));
        assert_eq!(bytes(""), None);
        assert_eq!(bytes(&"a".repeat(64)), None);
    }
}
