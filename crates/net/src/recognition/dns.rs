//! DNS messages (RFC 1035): the name that is asked for, and the addresses that an answer gives it. mDNS (RFC 6762) and LLMNR (RFC 4795) have the same form.
//!
//! [`Message::read`] accepts only what is a message all through its header and its first question, since noise must not be taken for one.

mod names;
mod questions;

pub use names::{Name, Names};

pub(super) use questions::{Question, Questions};

use super::bytes::Bytes;

/// A message's start.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    /// Flags and codes, the second word.
    flags: u16,
    /// Questions, answers, authorities, further records.
    counts: [u16; 4],
    /// The place behind the header and the first question.
    at: usize,
    /// The identifier that a question and its answer share.
    pub id: u16,
    /// What the first question asks for, a type of record.
    pub kind: u16,
}

/// An address that an answer gives to the name that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address; IPv4 as `::ffff:a.b.c.d`.
    pub address: u128,
    /// Seconds for which it holds.
    pub ttl_s: u32,
}

const HEADER: usize = 12;
const CLASS_IN: u16 = 1;
const A: u16 = 1;
const AAAA: u16 = 28;

impl<'a> Message<'a> {
    /// Reads a message's header and its first question; the name is put into `name`. `None` if this is no message that asks something, or answers.
    pub fn read(bytes: &'a [u8], name: &mut Name) -> Option<Self> {
        let mut header = Bytes(bytes.get(..HEADER)?);
        let id = header.u16()?;
        let flags = header.u16()?;
        let counts = [header.u16()?, header.u16()?, header.u16()?, header.u16()?];
        let (opcode, zero, code) = (flags >> 11 & 15, flags >> 6 & 1, flags & 15);
        let is_answer = flags & 0x8000 != 0;
        let [questions, answers, authorities, further] = counts;
        let is_likely = matches!(opcode, 0..=2 | 4 | 5)
            && zero == 0
            && questions <= 8
            && (is_answer || code == 0)
            && (is_answer || (answers <= 256 && authorities <= 256))
            && further <= 256;
        if !is_likely {
            return None;
        }
        name.clear();
        let mut message = Self {
            bytes,
            flags,
            counts,
            at: HEADER,
            id,
            kind: 0,
        };
        if questions == 0 {
            // mDNS tells without being asked: its first record's name is taken.
            let start = (answers > 0 && is_answer).then_some(HEADER)?;
            let at = read_name(bytes, start, Some(name))?;
            let mut rest = Bytes(bytes.get(at..)?);
            message.kind = rest.u16()?;
            let class = rest.u16()?;
            return is_class(class).then_some(message);
        }
        message.at = read_name(bytes, HEADER, Some(name))?;
        let mut rest = Bytes(bytes.get(message.at..)?);
        message.kind = rest.u16()?;
        let class = rest.u16()?;
        message.at += 4;
        is_class(class).then_some(message)
    }

    /// True if this answers.
    pub fn is_answer(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// True if this asks one question of a usual kind and holds nothing else but, perhaps, EDNS's record (RFC 6891): the form by which it is known on any port.
    pub fn is_plain_question(&self) -> bool {
        let [questions, answers, authorities, further] = self.counts;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_kind = matches!(
            self.kind,
            1 | 2 | 5 | 6 | 12 | 15 | 16 | 28 | 33 | 35 | 43 | 48 | 64 | 65 | 255
        );
        let is_end = match further {
            0 => rest.is_empty(),
            1 => rest.starts_with(&[0, 0, 41]),
            _ => false,
        };
        !self.is_answer() && (questions, answers, authorities) == (1, 0, 0) && is_kind && is_end
    }

    /// The addresses among the answers. It ends where a record is broken.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + 'a {
        let [questions, answers, ..] = self.counts;
        let bytes = self.bytes;
        // Most messages have one question; others have none of the addresses.
        let is_usable = questions == 1 && self.flags & 0x800f == 0x8000;
        let mut left = if is_usable { answers } else { 0 };
        let mut at = self.at;
        std::iter::from_fn(move || {
            while left > 0 {
                left -= 1;
                at = read_name(bytes, at, None)?;
                let mut record = Bytes(bytes.get(at..)?);
                let (kind, class, ttl_s) = (record.u16()?, record.u16()?, record.u32()?);
                let data = record.vector_16()?;
                at = bytes.len() - record.len();
                if class & 0x7fff != CLASS_IN {
                    continue;
                }
                let address = match (kind, data) {
                    (A, [a, b, c, d]) => {
                        0xffff_0000_0000 | u128::from(u32::from_be_bytes([*a, *b, *c, *d]))
                    }
                    (AAAA, data) => match data.first_chunk::<16>() {
                        Some(data) => u128::from_be_bytes(*data),
                        None => continue,
                    },
                    _ => continue,
                };
                return Some(Address { address, ttl_s });
            }
            None
        })
    }
}

/// IN, CH, HS, none, any; mDNS has a flag in the topmost bit.
fn is_class(class: u16) -> bool {
    matches!(class & 0x7fff, 1 | 3 | 4 | 254 | 255)
}

/// Passes over the name at `at`, and puts it into `name` if one is given; the place behind it.
///
/// Each pointer must lead to before the last one, so a name ends.
fn read_name(message: &[u8], at: usize, mut name: Option<&mut Name>) -> Option<usize> {
    const POINTER: u8 = 0xc0;
    let mut at = at;
    let mut before = at;
    let mut behind = None;
    let mut len = 0;
    loop {
        let first = *message.get(at)?;
        match first & POINTER {
            0 if first == 0 => return Some(behind.unwrap_or(at + 1)),
            0 => {
                let label = message.get(at + 1..)?.get(..usize::from(first))?;
                len += label.len() + 1;
                // With the root's length of zero a name has 255 bytes at most.
                if len > 254 {
                    return None;
                }
                if let Some(name) = &mut name {
                    name.push_label(label);
                }
                at += 1 + label.len();
            }
            POINTER => {
                let to = usize::from(first & !POINTER) << 8 | usize::from(*message.get(at + 1)?);
                if to >= before {
                    return None;
                }
                behind = behind.or(Some(at + 2));
                if name.is_none() {
                    return behind;
                }
                (before, at) = (to, to);
            }
            _ => return None,
        }
    }
}
