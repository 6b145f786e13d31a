//! What the first 48 bits of an IPv6 address come to, for lookups of many addresses: few lines, and the same few instructions for each.
//!
//! Of the routes of a full table nine of ten end between 32 and 48 bits, so a trie of bytes takes five lines of memory for an
//! address, and as many branches that nobody can guess. Here the first 16 bits are looked up in a table, the next two bytes in one each of
//! 256 entries, and what they lead to decides the two bytes behind at once: a *line* has the last values of up to 20 runs of
//! addresses, each of 16 bits, and a code for each run, so that one comparison finds the run. (Ranges in place of a trie's lower levels:
//! Zec, Rizzo and Mikuc, "DXR: Towards a Billion Routing Lookups per Second in Software", 2012.) Where there are more runs, tables of the
//! fifth byte, and of the sixth if need be, stand before the lines. What is behind 48 bits, and what a byte does not hold, the trie knows.
//!
//! An entry has a mask of the byte that chooses the next one: all ones for a table, none for a line, whose first word is the entry itself.
//! A code is a line too. So each address takes the same steps, wherever it is decided:
//!
//! ```text
//! entry = top[bits 0..16], then for each of the bytes 2 to 5: words[(entry >> 8) + (byte & entry)]
//! code  = codes of the line [how many of its ends are below bytes 4 and 5]
//! ```

use dpb_core::huge::Huge;

use super::direct::SLOTS;

/// The way on: in the low byte the mask, above it the place, in words, of a table or a line.
pub(super) type Entry = u32;

/// In place of a code: the trie knows.
pub(super) const ASK: u8 = 0xff;
/// Codes there can be, for hops.
pub(super) const CODES: usize = ASK as usize;
/// The mask of a table.
const TABLE: Entry = 0xff;
/// Bits of a mask.
pub(super) const MASK_BITS: u32 = 8;

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;
/// Words of a line, and the bits of their number.
const LINE_WORDS: usize = 16;
pub(super) const CODE_AT: u32 = MASK_BITS + LINE_WORDS.ilog2();
/// Ends of a line, behind its entry, and as many codes.
pub(super) const ENDS: usize = 20;
pub(super) const ENDS_AT: usize = 4;
pub(super) const CODES_AT: usize = ENDS_AT + 2 * ENDS;
/// Ends and values are compared as numbers with a sign, which is what vectors compare.
pub(super) const SIGN: u16 = 1 << 15;

/// Lines of a table of 256 entries.
const TABLE_LINES: usize = 256 / LINE_WORDS;
/// Lines of codes, which are first, so that a code's place is known.
const CODE_LINES: usize = CODES + 1;
/// Lines of a fresh memory.
const LINES_START: usize = 4096;
/// Most lines, 64 MiB: an entry has 24 bits for a word.
const LINES_MAX: usize = 1 << (32 - CODE_AT);

/// Runs of values of 16 bits, by their last values, and their codes.
pub(super) type Run = (u16, u8);

/// Tables and lines.
#[derive(Debug)]
pub(super) struct Spans {
    /// By the first 16 bits.
    top: Box<[Entry; SLOTS]>,
    memory: Huge,
    /// Lines that were ever given out.
    used: usize,
    /// How many may be.
    most: usize,
    /// The places of lines, and of tables, that were given back.
    free_lines: Vec<u32>,
    free_tables: Vec<u32>,
}

/// The entry for a code of a hop.
pub(super) fn of_code(code: u32) -> Entry {
    u32::from(byte_of(code)) << CODE_AT
}

/// The code of an entry that leads to no table and no other line, or [`ASK`].
#[inline(always)]
pub(super) fn code_of(entry: Entry) -> u8 {
    let code = entry >> CODE_AT;
    code as u8
}

/// The line of an entry, by number.
#[inline(always)]
pub(super) fn line_of(entry: Entry) -> usize {
    (entry >> CODE_AT) as usize
}

/// The lowest entry that leads on.
pub(super) const ON: Entry = LEFT;
/// The entry of what is left to the trie.
pub(super) const LEFT: Entry = (ASK as Entry) << CODE_AT;

/// The code for a line.
pub(super) fn byte_of(code: u32) -> u8 {
    code.min(u32::from(ASK)) as u8
}

/// True if the entry leads to a table.
pub(super) fn is_table(entry: Entry) -> bool {
    entry & TABLE != 0
}

impl Spans {
    /// All codes zero.
    pub(super) fn new() -> Self {
        let top: Box<[Entry]> = vec![of_code(0); SLOTS].into();
        let mut spans = Self {
            top: top.try_into().expect("so many"),
            memory: Huge::zeroed(LINES_START * LINE_BYTES),
            used: CODE_LINES,
            most: LINES_MAX,
            free_lines: Vec::new(),
            free_tables: Vec::new(),
        };
        for code in 0..=ASK {
            spans.write_line(usize::from(code), &[(u16::MAX, code)]);
        }
        spans
    }

    /// The table by the first 16 bits, and all tables and lines. Entries lead to these: [`Spans::fill`] and [`Spans::line`] make them.
    #[inline]
    pub(super) fn parts(&self) -> (&[Entry; SLOTS], &[u8]) {
        (&self.top, &self.memory)
    }

    /// Room for so many lines from now on.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Bytes of tables and lines that were ever given out.
    pub(super) fn lookup_bytes(&self) -> usize {
        self.used * LINE_BYTES + size_of_val(&*self.top)
    }

    /// The entry of a slot of the top.
    pub(super) fn of_slot(&self, slot: usize) -> Entry {
        self.top[slot]
    }

    /// Sets it, and gives back what it led to.
    pub(super) fn set_slot(&mut self, slot: usize, entry: Entry) {
        self.release(self.top[slot]);
        self.top[slot] = entry;
    }

    /// A table, whose entries are to be filled in before anything else is done with it; `None` if there is no room.
    pub(super) fn reserve(&mut self) -> Option<Entry> {
        let free = self.free_tables.pop().map(|place| place as usize);
        let place = free.or_else(|| self.take(TABLE_LINES))?;
        Some(to_line(place) | TABLE)
    }

    /// Fills in the entries of a reserved table.
    pub(super) fn fill(&mut self, table: Entry, entries: &[Entry; 256]) {
        for (byte, below) in (0..=u8::MAX).zip(entries) {
            *self.word(table, byte) = below.to_le_bytes();
        }
    }

    /// The entry for a byte in the table that `table` leads to.
    pub(super) fn entry(&self, table: Entry, byte: u8) -> Entry {
        let at = (table >> MASK_BITS) as usize + usize::from(byte);
        Entry::from_le_bytes(self.memory.as_chunks().0[at])
    }

    /// Sets it, and gives back what it led to.
    pub(super) fn set(&mut self, table: Entry, byte: u8, entry: Entry) {
        self.release(self.entry(table, byte));
        *self.word(table, byte) = entry.to_le_bytes();
    }

    /// A line of these runs, of values of which each is in one; [`LEFT`] if there is no room, `None` if they are too many.
    pub(super) fn line(&mut self, runs: &[Run]) -> Option<Entry> {
        if let [(_, code)] = runs {
            return Some(of_code(u32::from(*code)));
        }
        if runs.len() > ENDS {
            return None;
        }
        let free = self.free_lines.pop().map(|place| place as usize);
        let Some(place) = free.or_else(|| self.take(1)) else {
            return Some(LEFT);
        };
        self.write_line(place, runs);
        Some(to_line(place))
    }

    fn write_line(&mut self, place: usize, runs: &[Run]) {
        let line = &mut self.memory[place * LINE_BYTES..][..LINE_BYTES];
        line[..ENDS_AT].copy_from_slice(&to_line(place).to_le_bytes());
        let (ends, codes) = line[ENDS_AT..].split_at_mut(CODES_AT - ENDS_AT);
        let ends = ends.as_chunks_mut().0;
        // No value is above the ends that are not needed.
        ends.fill((u16::MAX ^ SIGN).to_le_bytes());
        for (number, (end, code)) in runs.iter().enumerate() {
            ends[number] = (end ^ SIGN).to_le_bytes();
            codes[number] = *code;
        }
        // All values of a line are below its last end, whatever the line is asked.
        ends[runs.len() - 1] = (u16::MAX ^ SIGN).to_le_bytes();
    }

    /// What `entry` leads to is room again, and all behind it.
    fn release(&mut self, entry: Entry) {
        let place = entry >> CODE_AT;
        if is_table(entry) {
            for byte in 0..=u8::MAX {
                self.release(self.entry(entry, byte));
            }
            self.free_tables.push(place);
        } else if place as usize >= CODE_LINES {
            self.free_lines.push(place);
        }
    }

    /// The place of so many fresh lines side by side; `None` if there is no room.
    fn take(&mut self, lines: usize) -> Option<usize> {
        let place = self.used;
        if place + lines > self.most {
            return None;
        }
        self.used += lines;
        // One more may be read in part.
        if (self.used + 1) * LINE_BYTES > self.memory.len() {
            let mut memory = Huge::zeroed(2 * self.memory.len());
            memory[..place * LINE_BYTES].copy_from_slice(&self.memory[..place * LINE_BYTES]);
            self.memory = memory;
        }
        Some(place)
    }

    fn word(&mut self, table: Entry, byte: u8) -> &mut [u8; 4] {
        let at = (table >> MASK_BITS) as usize + usize::from(byte);
        &mut self.memory.as_chunks_mut().0[at]
    }
}

fn to_line(place: usize) -> Entry {
    (place as Entry) << CODE_AT
}

impl Clone for Spans {
    fn clone(&self) -> Self {
        let mut memory = Huge::zeroed(self.memory.len());
        let used = self.used * LINE_BYTES;
        memory[..used].copy_from_slice(&self.memory[..used]);
        Self {
            top: self.top.clone(),
            memory,
            used: self.used,
            most: self.most,
            free_lines: self.free_lines.clone(),
            free_tables: self.free_tables.clone(),
        }
    }
}
