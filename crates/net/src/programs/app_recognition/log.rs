//! What a recognizer found out of each flow, for whoever knows what is right: [`Log`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::recognition::{Label, Verdict};

/// A flow that was decided, or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The addresses of the packet that brought the verdict, source first; where none did but a rule, or the flow's end, those of its two ends in order. IPv4 as
    /// `::ffff:a.b.c.d`.
    pub addresses: [u128; 2],
    /// Its ports, likewise.
    pub ports: [u16; 2],
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
    /// What the flow is.
    pub label: Label,
    /// [`Log::digest`] of the server's name, which may be empty.
    pub host: u64,
}

/// Flows in the order of their verdicts, up to a number; those beyond it are counted.
#[derive(Debug)]
pub struct Log(Mutex<Entries>);

#[derive(Debug)]
struct Entries {
    decided: Vec<Decided>,
    beyond: u64,
}

impl Log {
    /// For up to `flows` flows, whose memory is there at once.
    pub fn new(flows: usize) -> Self {
        Self(Mutex::new(Entries {
            decided: Vec::with_capacity(flows),
            beyond: 0,
        }))
    }

    /// Takes all that was written; says how many flows there were besides.
    pub fn take(&self) -> (Vec<Decided>, u64) {
        let mut entries = self.lock();
        let room = Vec::with_capacity(entries.decided.capacity());
        let decided = std::mem::replace(&mut entries.decided, room);
        (decided, std::mem::take(&mut entries.beyond))
    }

    /// Sixty-four bits of a name, by which two names are told apart: FNV-1a.
    pub fn digest(name: &[u8]) -> u64 {
        name.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    pub(super) fn write(
        &self,
        addresses: [u128; 2],
        ports: [u16; 2],
        is_tcp: bool,
        verdict: &Verdict,
    ) {
        let mut entries = self.lock();
        if entries.decided.len() == entries.decided.capacity() {
            entries.beyond += 1;
            return;
        }
        entries.decided.push(Decided {
            addresses,
            ports,
            is_tcp,
            label: verdict.label,
            host: Self::digest(verdict.host.as_bytes()),
        });
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // An entry is written whole or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
