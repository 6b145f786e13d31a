//! The stream that the plugin of qemu-user writes (`source/plugin.c`).
//!
//! It is of 64-bit words in the host's order. The first says what it is. Chunks follow: a word with the kind (8 bits), the thread
//! (24 bits) and the number of words behind it (32 bits).
//!
//! - Kind 1, a block of instructions: its number, which counts from 0, and the instructions, four words each: address, length, sixteen bytes.
//! - Kind 2, what a thread did: a word for each event. Without the top bit it is the block that is executed, else an access: whether it stores
//!   (1 bit), the binary logarithm of its bytes (4), the instruction of the block (9), the address (49).
//! - Kind 3, the end.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

use super::{Access, Analyser, Direction, Id, TraceError};

/// `DPBTRAC1`.
const MAGIC: u64 = u64::from_le_bytes(*b"DPBTRAC1");
/// Most words of a chunk.
const CHUNK_WORDS_MAX: usize = 1 << 16;
/// Most threads.
const THREADS_MAX: usize = 1 << 12;
/// Most bytes of an instruction's place in a definition.
const INSTRUCTION_WORDS: usize = 4;

const BLOCK: u64 = 1;
const EVENTS: u64 = 2;
const END: u64 = 3;

/// A thread's block, and how many of its instructions have begun.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: usize,
    begun: usize,
}

/// The blocks so far, and where threads are in them.
struct Reader<'a> {
    analyser: &'a mut Analyser,
    ids: Vec<Id>,
    /// Where each block's instructions begin in `ids`, and where the last one's end.
    starts: Vec<usize>,
    places: BTreeMap<u32, Place>,
    last_thread: Option<u32>,
}

/// Tells the analyser what the stream says. Threads are taken in the order in which they hand over what they did.
///
/// # Errors
/// If the stream cannot be read, is none of the plugin's, or has no end.
pub fn read_plugin(stream: &mut dyn Read, analyser: &mut Analyser) -> Result<(), TraceError> {
    let mut reader = Reader {
        analyser,
        ids: Vec::new(),
        starts: vec![0],
        places: BTreeMap::new(),
        last_thread: None,
    };
    let mut words = Vec::new();
    if word(stream)? != MAGIC {
        return Err(TraceError::Malformed(
            "a stream without a beginning".to_owned(),
        ));
    }
    loop {
        let head = word(stream)?;
        let (kind, thread, count) = (head >> 56, (head >> 32) as u32 & 0xff_ffff, head as u32);
        let count = count as usize;
        if count > CHUNK_WORDS_MAX {
            return Err(TraceError::Malformed(format!("a chunk of {count} words")));
        }
        read_words(stream, count, &mut words)?;
        match kind {
            BLOCK => reader.define(&words)?,
            EVENTS => reader.events(thread, &words)?,
            END if count == 0 => return reader.end(),
            _ => return Err(TraceError::Malformed(format!("a chunk of kind {kind}"))),
        }
    }
}

impl Reader<'_> {
    fn define(&mut self, words: &[u64]) -> Result<(), TraceError> {
        let wrong = |what: &str| TraceError::Malformed(format!("a block {what}"));
        let [number, instructions @ ..] = words else {
            return Err(wrong("of nothing"));
        };
        if *number != self.starts.len() as u64 - 1 {
            return Err(wrong("out of order"));
        }
        let (instructions, rest) = instructions.as_chunks::<INSTRUCTION_WORDS>();
        if instructions.is_empty() || !rest.is_empty() {
            return Err(wrong("without whole instructions"));
        }
        for (at, [address, length, low, high]) in instructions.iter().enumerate() {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&low.to_le_bytes());
            bytes[8..].copy_from_slice(&high.to_le_bytes());
            let length = usize::try_from(*length).ok();
            let bytes = length.and_then(|length| bytes.get(..length));
            let bytes = bytes.ok_or_else(|| wrong("with an instruction of too many bytes"))?;
            // An instruction that lies over a page's end begins a block of its own. QEMU finds that out when it has read a part of it,
            // and shows the part as the last instruction of the block before, which does not execute it.
            let is_last = at > 0 && at + 1 == instructions.len();
            if is_last && self.analyser.isa.is_beginning(bytes) {
                continue;
            }
            self.ids.push(self.analyser.define(*address, bytes)?);
        }
        self.starts.push(self.ids.len());
        Ok(())
    }

    fn events(&mut self, thread: u32, words: &[u64]) -> Result<(), TraceError> {
        if self
            .last_thread
            .replace(thread)
            .is_some_and(|last| last != thread)
        {
            self.analyser.interrupt();
        }
        let mut place = self.places.get(&thread).copied();
        for &word in words {
            if word >> 63 == 0 {
                if let Some(place) = &mut place {
                    self.advance(place, usize::MAX);
                }
                let block = usize::try_from(word).unwrap_or(usize::MAX);
                if block >= self.starts.len() - 1 {
                    return Err(TraceError::Malformed(format!("no block {block}")));
                }
                place = Some(Place { block, begun: 0 });
                continue;
            }
            let place = place.as_mut().ok_or_else(|| {
                TraceError::Malformed("an access before any instruction".to_owned())
            })?;
            let instruction = (word >> 49) as usize & 0x1ff;
            self.advance(place, instruction + 1);
            // Beyond the block's end, or behind what has begun.
            if place.begun != instruction + 1 {
                return Err(TraceError::Malformed("an access out of order".to_owned()));
            }
            self.analyser.access(Access {
                address: word & ((1 << 49) - 1),
                bytes: 1 << (word >> 58 & 0xf),
                direction: match word >> 62 & 1 {
                    0 => Direction::Load,
                    _ => Direction::Store,
                },
            })?;
        }
        if let Some(place) = place {
            self.places.insert(thread, place);
        }
        if self.places.len() > THREADS_MAX {
            return Err(TraceError::Malformed("too many threads".to_owned()));
        }
        Ok(())
    }

    /// Begins instructions of the thread's block until so many have begun.
    fn advance(&mut self, place: &mut Place, until: usize) {
        let ids = &self.ids[self.starts[place.block]..self.starts[place.block + 1]];
        let until = until.min(ids.len());
        for id in ids.get(place.begun..until).unwrap_or_default() {
            self.analyser.execute(*id);
        }
        place.begun = place.begun.max(until);
    }

    fn end(&mut self) -> Result<(), TraceError> {
        for (thread, mut place) in std::mem::take(&mut self.places) {
            if self.last_thread != Some(thread) {
                self.analyser.interrupt();
            }
            self.last_thread = Some(thread);
            self.advance(&mut place, usize::MAX);
        }
        Ok(())
    }
}

fn word(stream: &mut dyn Read) -> Result<u64, TraceError> {
    let mut bytes = [0; 8];
    read_exact(stream, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn read_words(stream: &mut dyn Read, count: usize, words: &mut Vec<u64>) -> Result<(), TraceError> {
    let mut bytes = vec![0; 8 * count];
    read_exact(stream, &mut bytes)?;
    words.clear();
    let (whole, _) = bytes.as_chunks();
    words.extend(whole.iter().map(|bytes| u64::from_ne_bytes(*bytes)));
    Ok(())
}

fn read_exact(stream: &mut dyn Read, bytes: &mut [u8]) -> Result<(), TraceError> {
    stream
        .read_exact(bytes)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => TraceError::CutOff,
            _ => TraceError::Read(error),
        })
}
