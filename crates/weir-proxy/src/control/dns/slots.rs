//! Which server of a backend gets which address or service: pure decisions over what name servers said.

use std::net::IpAddr;

use weir_config::model::Network;

use super::message::Service;

/// A server that waits for an address of the same name as the others beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot<'a> {
    pub(crate) current: Option<IpAddr>,
    /// `resolve-prefer`
    pub(crate) ipv6: bool,
    /// `resolve-net`
    pub(crate) networks: &'a [Network],
    /// `resolve-opts allow-dup-ip`
    pub(crate) allow_dup_ip: bool,
}

impl Slot<'_> {
    /// How much it wants an address; what counts more stands first.
    fn rank(&self, ip: IpAddr, is_used: bool) -> (bool, bool, bool, bool) {
        let wanted_net = self.networks.iter().any(|network| network.contains(ip));
        (ip.is_ipv6() == self.ipv6, wanted_net, !is_used, self.current == Some(ip))
    }
}

/// The address of each server, if there is one for it.
///
/// A server keeps what it has unless there is something that it prefers.  No two servers get the same address,
/// except those that may.
pub(crate) fn share_out(found: &[IpAddr], slots: &[Slot<'_>]) -> Vec<Option<IpAddr>> {
    let mut given: Vec<Option<IpAddr>> = slots.iter().map(|slot| slot.current).collect();
    for (at, slot) in slots.iter().enumerate() {
        let used = |ip: IpAddr| given.iter().enumerate().any(|(other, has)| other != at && *has == Some(ip));
        let free = found.iter().copied().filter(|ip| slot.allow_dup_ip || !used(*ip));
        // The first one of the best: `max_by_key` would take the last one.
        let best = free.rev().max_by_key(|ip| slot.rank(*ip, used(*ip)));
        given[at] = best;
    }
    given
}

/// The service of each server, as an index into the services; a server that has one of them keeps it.
///
/// `current` holds host and port.
pub(crate) fn assign(services: &[Service], current: &[Option<(&str, u16)>]) -> Vec<Option<usize>> {
    let is = |service: &Service, (host, port): (&str, u16)| service.host == host && service.port == port;
    let mut taken = vec![false; services.len()];
    let mut assigned = Vec::with_capacity(current.len());
    for has in current {
        let found = has.and_then(|has| {
            services.iter().enumerate().position(|(at, service)| !taken[at] && is(service, has))
        });
        if let Some(at) = found {
            taken[at] = true;
        }
        assigned.push(found);
    }
    for empty in assigned.iter_mut().filter(|place| place.is_none()) {
        let Some(at) = taken.iter().position(|taken| !taken) else { break };
        taken[at] = true;
        *empty = Some(at);
    }
    assigned
}

/// Weight of a server for the weight of an SRV record: 1 to 256 for 0 to 65535.
pub(crate) fn weight(of_record: u16) -> u32 {
    u32::from(of_record >> 8) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(text: &str) -> Vec<Option<IpAddr>> {
        text.split_whitespace().map(|ip| ip.parse().ok()).collect()
    }

    #[test]
    fn addresses_are_shared_out() {
        let check = |current: &str, found: &str, expected: &str| {
            let slots: Vec<Slot<'_>> =
                ips(current).into_iter().map(|current| Slot { current, ..Slot::default() }).collect();
            let found: Vec<IpAddr> = ips(found).into_iter().flatten().collect();
            assert_eq!(share_out(&found, &slots), ips(expected), "{current}: {found:?}");
        };
        check("-", "10.0.0.1 10.0.0.2", "10.0.0.1");
        check("10.0.0.2", "10.0.0.1 10.0.0.2", "10.0.0.2");
        check("10.0.0.2", "10.0.0.1", "10.0.0.1");
        check("- - -", "10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2 -");
        check("10.0.0.2 -", "10.0.0.1 10.0.0.2", "10.0.0.2 10.0.0.1");
        check("10.0.0.1 10.0.0.2", "10.0.0.2 10.0.0.3", "10.0.0.3 10.0.0.2");
        check("10.0.0.1 10.0.0.2", "10.0.0.9", "10.0.0.9 -");
        check("10.0.0.1", "", "-");
        check("-", "::1 10.0.0.1", "10.0.0.1");
        check("-", "::1", "::1");
    }

    #[test]
    fn preferences_count_in_their_order() {
        let networks = [Network::parse("10.1.0.0/16").unwrap()];
        let check = |slots: &[Slot<'_>], found: &str, expected: &str| {
            let found: Vec<IpAddr> = ips(found).into_iter().flatten().collect();
            assert_eq!(share_out(&found, slots), ips(expected));
        };
        let near = Slot { networks: &networks, ..Slot::default() };
        check(std::slice::from_ref(&near), "10.2.0.1 10.1.0.1", "10.1.0.1");
        check(std::slice::from_ref(&near), "10.2.0.1", "10.2.0.1");
        let moved = Slot { current: "10.2.0.1".parse().ok(), ..near.clone() };
        check(&[moved], "10.2.0.1 10.1.0.1", "10.1.0.1");
        check(&[Slot { ipv6: true, ..near }], "10.1.0.1 ::1", "::1");
        let both = Slot { allow_dup_ip: true, ..Slot::default() };
        check(&[both.clone(), both.clone()], "10.0.0.1", "10.0.0.1 10.0.0.1");
        check(&[both.clone(), both], "10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2");
    }

    #[test]
    fn services_stay_where_they_are() {
        let check =
            |current: &[Option<(&str, u16)>], services: &[(&str, u16)], expected: &[Option<usize>]| {
                let services: Vec<Service> = services
                    .iter()
                    .map(|(host, port)| Service {
                        host: (*host).into(),
                        port: *port,
                        weight: 0,
                        addresses: Vec::new(),
                    })
                    .collect();
                assert_eq!(assign(&services, current), expected);
            };
        check(&[None, None, None], &[("a", 1), ("b", 1)], &[Some(0), Some(1), None]);
        check(&[Some(("b", 1)), None], &[("a", 1), ("b", 1)], &[Some(1), Some(0)]);
        check(&[Some(("a", 1)), Some(("b", 1))], &[("b", 1), ("b", 2)], &[Some(1), Some(0)]);
        check(&[Some(("a", 1))], &[("b", 1), ("a", 1)], &[Some(1)]);
        check(&[Some(("a", 1))], &[], &[None]);
    }

    #[test]
    fn weights_of_records_become_weights_of_servers() {
        let check = |record, expected| assert_eq!(weight(record), expected);
        check(0, 1);
        check(255, 1);
        check(300, 2);
        check(65535, 256);
    }
}
