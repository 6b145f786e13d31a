//! Errors of ICMP, which quote a packet that was translated (RFC 5508, section 4).

use super::super::{Steering, Tuple};
use super::{
    Nat, Realm, TranslatedError, ends, reply_to, session_of, with_destination, with_source,
};

impl<S: Steering> Nat<S> {
    /// Says what becomes of an error of ICMP from `realm` with these addresses, source first, which quotes a packet: of a query of ICMP both ports are the
    /// identifier. `None` if it quotes no packet of a session; from inside it may also quote a packet of a stranger that was let in. Sessions are neither kept
    /// nor ended by it (RFC 5508, REQ-6), nor is it counted there.
    ///
    /// A card gives an error from outside to any shard. One that belongs to another shard is to go there as it is.
    pub fn error(
        &mut self,
        realm: Realm,
        addresses: [u32; 2],
        quoted: Tuple<u32>,
        now_ms: u32,
    ) -> Option<TranslatedError> {
        let translated = match realm {
            Realm::Inside => self.error_out(addresses, quoted, now_ms),
            Realm::Outside => self.error_in(addresses, quoted, now_ms),
        };
        match translated {
            Some(_) => self.stats.errors += 1,
            None => self.stats.errors_refused += 1,
        }
        translated
    }

    /// It quotes a packet that went out, so the session is that of the packet's source.
    fn error_in(
        &self,
        addresses: [u32; 2],
        quoted: Tuple<u32>,
        now_ms: u32,
    ) -> Option<TranslatedError> {
        let (outside, remote) = ends(Realm::Inside, &quoted);
        let key = self.mapping_key(outside, remote, quoted.protocol);
        let Some(mapping) = self.mapping_with_outside(&key) else {
            let shard = self.elsewhere(&reply_to(outside, remote, quoted.protocol))?;
            return Some(TranslatedError {
                by_shard: Some(shard),
                addresses,
                quoted,
            });
        };
        let inside = self.mappings[mapping as usize].inside;
        let quoted = with_source(quoted, inside);
        let (session, _) = session_of(Realm::Inside, &quoted);
        self.sessions.get(&session, now_ms)?;
        Some(TranslatedError {
            by_shard: None,
            addresses: [addresses[0], inside.0],
            quoted,
        })
    }

    /// It quotes a packet that came in, so the session is that of the packet's destination. Its sender, a router perhaps, shows the outside address.
    fn error_out(
        &self,
        addresses: [u32; 2],
        quoted: Tuple<u32>,
        now_ms: u32,
    ) -> Option<TranslatedError> {
        let (session, _) = session_of(Realm::Outside, &quoted);
        if !self.lets_strangers_in() {
            self.sessions.get(&session, now_ms)?;
        }
        let (inside, remote) = ends(Realm::Outside, &quoted);
        let key = self.mapping_key(inside, remote, quoted.protocol);
        let mapping = self.mapping_with_inside(&key)?;
        let outside = self.mappings[mapping as usize].outside;
        let quoted = with_destination(quoted, outside);
        let addresses = [outside.0, addresses[1]];
        match self.addresses.contains(&addresses[1]) {
            true => self.error_in(addresses, quoted, now_ms),
            false => Some(TranslatedError {
                by_shard: None,
                addresses,
                quoted,
            }),
        }
    }
}
