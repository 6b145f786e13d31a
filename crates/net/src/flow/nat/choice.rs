//! Which outside port an inside one gets.

use dpb_core::random::SplitMix64;

use super::super::{Steering, Tuple, V4};
use super::{End, NOBODY, Nat, UDP, protocol_index, reply_to};

/// Ports that are looked at for one connection, at most: whoever has nearly all ports of an address taken makes no packet cost more than that. The draws are of
/// different ports, so smaller ranges are looked through. Of larger ones all draws fail once in ten million times where 97 ports of 100 are taken, or where one
/// port of 32 comes to this shard.
const DRAWS_MAX: usize = 512;

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

    /// A port that no connection to this other end has, and by which its replies come here, of [`DRAWS_MAX`] that are drawn; or the shard that they go to.
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
        let count = usize::from(last - first) + 1;
        let start = self.random.below(count);
        let stride = stride(count, &mut self.random);
        let is_paired = self.behaviour.keeps_parity && protocol == UDP;
        let is_like = |port: &u16| !is_paired || port % 2 == wanted % 2;
        let port = |i: usize| first + ((start + i * stride) % count) as u16;
        let drawn = || (0..count.min(DRAWS_MAX)).map(port);
        let kept =
            (self.behaviour.keeps_ports && (first..=last).contains(&wanted)).then_some(wanted);
        let candidates = kept.into_iter().chain(drawn().filter(is_like));
        let mut come_here = false;
        for port in candidates.chain(drawn().filter(|port| !is_like(port))) {
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
            false => Err(self.elsewhere(&reply_to((address, port(0)), remote, protocol))),
        }
    }

    /// The shard that a packet comes to, if it is not this one.
    pub(super) fn elsewhere(&self, tuple: &Tuple<u32>) -> Option<usize> {
        let shard = self.steering.shard(tuple);
        (shard != self.shard).then_some(shard)
    }
}

/// A step at random that leads to each of `count` places before it comes back to the first.
pub(super) fn stride(count: usize, random: &mut SplitMix64) -> usize {
    loop {
        let stride = 1 + random.below(count);
        if common_divisor(stride, count) == 1 {
            return stride;
        }
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}
