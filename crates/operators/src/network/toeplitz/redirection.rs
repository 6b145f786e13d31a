//! From hashes to queues.

/// A redirection table: the low bits of a hash choose an entry, which is a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection(Box<[u16]>);

impl Redirection {
    /// A table with these entries. `None` unless there are 128 or 512, as network cards have.
    pub fn new(queues: &[u16]) -> Option<Self> {
        matches!(queues.len(), 128 | 512).then(|| Self(queues.into()))
    }

    /// `entries` in turn to queues 0 to `queues` − 1, as drivers fill it at first. `None` unless there are 128 or 512
    /// entries, and from 1 to so many queues.
    pub fn in_turn(queues: u16, entries: usize) -> Option<Self> {
        if queues == 0 || usize::from(queues) > entries {
            return None;
        }
        let turn: Vec<u16> = (0..queues).cycle().take(entries).collect();
        Self::new(&turn)
    }

    /// The queue of a hash.
    #[inline]
    pub fn queue(&self, hash: u32) -> u32 {
        // A power of two of entries.
        u32::from(self.0[hash as usize & (self.0.len() - 1)])
    }
}
