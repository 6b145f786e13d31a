//! Which outside port an inside one gets.

use super::super::{Steering, Tuple, V4};
use super::{End, NOBODY, Nat, UDP, protocol_index, reply_to};

impl<S: Steering> Nat<S> {
    /// A port of this shard alone; or the shard that replies to this address go to.
    pub(super) fn own_port(
        &mut self,
        at: usize,
        wanted: u16,
        protocol: u8,
    ) -> Result<u16, Option<usize>> {
        let behaviour = &self.behaviour;
        let ports = &mut self.ports[at][protocol_index(protocol).unwrap_or(0)];
        if ports.is_nobodys() {
            let reply = reply_to((self.addresses[at], wanted), NOBODY, protocol);
            return Err(self.elsewhere(&reply));
        }
        let is_paired = behaviour.keeps_parity && protocol == UDP;
        let port = ports.take(wanted, behaviour.keeps_ports, is_paired, &mut self.random);
        port.ok_or(None)
    }

    /// A port that no connection to this other end has, and by which its replies come here; or the shard that they go to.
    pub(super) fn shared_port(
        &mut self,
        at: usize,
        wanted: u16,
        remote: End,
        protocol: u8,
    ) -> Result<u16, Option<usize>> {
        let address = self.addresses[at];
        let (first, last) = (*self.behaviour.ports.start(), *self.behaviour.ports.end());
        if first > last {
            return Err(None);
        }
        let start = first + self.random.below(usize::from(last - first) + 1) as u16;
        let is_paired = self.behaviour.keeps_parity && protocol == UDP;
        let is_like = |port: &u16| !is_paired || port % 2 == wanted % 2;
        let around = || (start..=last).chain(first..start);
        let kept =
            (self.behaviour.keeps_ports && (first..=last).contains(&wanted)).then_some(wanted);
        let candidates = kept.into_iter().chain(around().filter(is_like));
        let mut come_here = false;
        for port in candidates.chain(around().filter(|port| !is_like(port))) {
            let reply = reply_to((address, port), remote, protocol);
            if self.steering.shard(&reply) != self.shard {
                continue;
            }
            come_here = true;
            let key = V4::of_ends((address, port), remote, protocol);
            if self.mapping_with_outside(&key).is_none() {
                return Ok(port);
            }
        }
        match come_here {
            true => Err(None),
            false => Err(self.elsewhere(&reply_to((address, start), remote, protocol))),
        }
    }

    /// The shard that a packet comes to, if it is not this one.
    pub(super) fn elsewhere(&self, tuple: &Tuple<u32>) -> Option<usize> {
        let shard = self.steering.shard(tuple);
        (shard != self.shard).then_some(shard)
    }
}
