//! Flows added up by what they are and whom they are with: [`Tally`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::recognition::{Application, Protocol, Verdict};

/// Flows that were decided, by application and by the server's name; the stages of all shards write it. Names are what clients say, so there is a bound: flows with other names than the
/// first ones are added up without.
#[derive(Debug)]
pub struct Tally {
    names_max: usize,
    entries: Mutex<Entries>,
}

/// Flows of a protocol and an application, if that is known.
type Kind = (Protocol, Option<Application>, u64);

#[derive(Debug)]
struct Entries {
    /// Kinds by name. The empty name is always there.
    by_name: HashMap<Box<[u8]>, Vec<Kind>>,
    beyond: u64,
}

/// The flows of one kind with one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallied {
    /// Their protocol.
    pub protocol: Protocol,
    /// Their application, if it is known.
    pub application: Option<Application>,
    /// The server's name as clients say it, which may be any bytes; empty where there is none, or where there was no room for it.
    pub name: Vec<u8>,
    /// Their number.
    pub flows: u64,
}

impl Tally {
    /// With room for so many names.
    pub fn new(names_max: usize) -> Self {
        let by_name = HashMap::from([(Box::default(), Vec::new())]);
        Self {
            names_max,
            entries: Mutex::new(Entries { by_name, beyond: 0 }),
        }
    }

    /// All kinds, the most flows first.
    pub fn read(&self) -> Vec<Tallied> {
        let entries = self.lock();
        let each = entries.by_name.iter().flat_map(|(name, kinds)| {
            kinds.iter().map(|(protocol, application, flows)| Tallied {
                protocol: *protocol,
                application: *application,
                name: name.to_vec(),
                flows: *flows,
            })
        });
        let mut all: Vec<Tallied> = each.collect();
        all.sort_by(|a, b| b.flows.cmp(&a.flows).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// Flows whose server's name found no room.
    pub fn beyond(&self) -> u64 {
        self.lock().beyond
    }

    pub(super) fn write(&self, verdict: &Verdict) {
        let mut entries = self.lock();
        let Entries { by_name, beyond } = &mut *entries;
        let mut name = verdict.host.as_bytes();
        if !by_name.contains_key(name) {
            match by_name.len() > self.names_max {
                true => {
                    *beyond += 1;
                    name = b"";
                }
                false => {
                    by_name.insert(name.into(), Vec::new());
                }
            }
        }
        let Some(kinds) = by_name.get_mut(name) else {
            return;
        };
        let kind = (verdict.label.protocol, verdict.label.application);
        match kinds.iter_mut().find(|(a, b, _)| (*a, *b) == kind) {
            Some((.., flows)) => *flows += 1,
            None => kinds.push((kind.0, kind.1, 1)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // An entry is written whole or not at all.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
