//! Blocks: how often each symbol occurs, the code for it, and its bits (RFC 1951, 3.2).

use dpb_core::JobError;

use super::bits::Bits;
use super::repeats::Repeat;
use crate::storage::prefix_code;

/// Literals, the end, and lengths.
const SYMBOLS: usize = 288;
/// Codes of distances, two of them never used.
const DISTANCES: usize = 32;
/// The symbol that ends a block.
const END: usize = 256;
/// The symbol of the shortest length.
const FIRST_LENGTH: usize = 257;
/// Bits of the longest code of a symbol: the format allows one more, but four of these fit between two flushes.
const SYMBOL_BITS_MAX: usize = 14;
/// Bits of the longest code of a distance.
const DISTANCE_BITS_MAX: usize = 15;
/// Literals between two flushes.
const LITERALS: usize = Bits::WORD as usize / SYMBOL_BITS_MAX;
/// All bits of so many entries of a group, and none of the others.
static KEPT: [[u32; LITERALS]; LITERALS + 1] = {
    let mut kept = [[0; LITERALS]; LITERALS + 1];
    let mut count = 0;
    while count <= LITERALS {
        let mut i = 0;
        while i < count {
            kept[count][i] = u32::MAX;
            i += 1;
        }
        count += 1;
    }
    kept
};
/// Codes for the lengths of codes, and the bits of the longest.
const META_SYMBOLS: usize = 19;
const META_BITS_MAX: usize = 7;
/// As many as fit between two flushes, with what follows them: seven bits at most.
const META_GROUP: usize = Bits::WORD as usize / (META_BITS_MAX + 7);
/// In what order their lengths are written.
const META_ORDER: [usize; META_SYMBOLS] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];
/// Of each of them, the bits that follow.
const META_EXTRA: [u8; META_SYMBOLS] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7];
/// Plain bytes up to which a block has fixed codes or none: the table of a code of its own would take too many.
const SHORT_BYTES: usize = 128;
/// Plain bytes of a stored block, at most.
const STORED_BYTES_MAX: usize = u16::MAX as usize;

/// A range of lengths or distances that shares a symbol.
#[derive(Clone, Copy)]
struct Range {
    first: u16,
    extra: u8,
}

/// Of lengths, by symbol.
const LENGTH_RANGES: [Range; 29] = {
    let mut ranges = [Range { first: 3, extra: 0 }; 29];
    let (mut symbol, mut first) = (0, 3);
    while symbol < 28 {
        let extra = if symbol < 8 { 0 } else { symbol as u8 / 4 - 1 };
        ranges[symbol] = Range { first, extra };
        first += 1 << extra;
        symbol += 1;
    }
    // The longest has a symbol of its own.
    ranges[28].first = 258;
    ranges
};

/// Of distances less one, by symbol.
const DISTANCE_RANGES: [Range; DISTANCES] = {
    let mut ranges = [Range { first: 0, extra: 0 }; DISTANCES];
    let (mut symbol, mut first) = (0, 0);
    while symbol < 30 {
        let extra = if symbol < 4 { 0 } else { symbol as u8 / 2 - 1 };
        ranges[symbol] = Range {
            first: first as u16,
            extra,
        };
        first += 1u32 << extra;
        symbol += 1;
    }
    ranges
};

/// The symbol of each length less three, counted from the first.
static LENGTH_SYMBOLS: [u8; 256] = {
    let mut symbols = [0; 256];
    let (mut length, mut symbol) = (0, 0);
    while length < 256 {
        if symbol < 28 && LENGTH_RANGES[symbol + 1].first == length as u16 + 3 {
            symbol += 1;
        }
        symbols[length] = symbol as u8;
        length += 1;
    }
    symbols
};

/// The symbol of each distance less one, if that is below 256; behind those, of each 128 of them.
static DISTANCE_SYMBOLS: [u8; 512] = {
    let mut symbols = [0; 512];
    let mut symbol = 0;
    let mut i = 0;
    while i < 512 {
        let distance = if i < 256 { i } else { (i - 256) << 7 };
        if i == 256 {
            symbol = 0;
        }
        while symbol < 29 && DISTANCE_RANGES[symbol + 1].first as usize <= distance {
            symbol += 1;
        }
        symbols[i] = symbol as u8;
        i += 1;
    }
    symbols
};

/// The codes of a block: each symbol's, and its bits above bit 16.
struct Codes {
    symbols: [u32; SYMBOLS],
    distances: [u32; DISTANCES],
}

/// Bits of each symbol's code.
struct Lengths {
    symbols: [u8; SYMBOLS],
    distances: [u8; DISTANCES],
}

/// The lengths of fixed codes (RFC 1951, 3.2.6).
static FIXED_LENGTHS: Lengths = {
    let mut symbols = [8; SYMBOLS];
    let mut symbol = 144;
    while symbol < 280 {
        symbols[symbol] = if symbol < 256 { 9 } else { 7 };
        symbol += 1;
    }
    Lengths {
        symbols,
        distances: [5; DISTANCES],
    }
};

/// The fixed codes.
static FIXED: Codes = Codes {
    symbols: entries(&FIXED_LENGTHS.symbols),
    distances: entries(&FIXED_LENGTHS.distances),
};

/// How often each symbol occurs.
struct Counts {
    symbols: [u32; SYMBOLS],
    distances: [u32; DISTANCES],
    /// Bits that follow symbols.
    extra_bits: u64,
}

/// The lengths of a block's own codes as they are written: symbols below 16 are lengths, those from there on repeat.
struct Table {
    /// Symbols and what follows them.
    run: [(u8, u8); SYMBOLS + DISTANCES],
    len: usize,
    symbols: usize,
    distances: usize,
    lengths: [u8; META_SYMBOLS],
    /// Of [`META_ORDER`], how many are written.
    ordered: usize,
    bits: u64,
}

/// Memory for a block that its slot is too short to be written in directly.
pub(super) struct Blocks {
    aside: Vec<u8>,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self { aside: Vec::new() }
    }

    /// Writes the block of `plain`, in which `repeats` were found.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`].
    pub(super) fn write(
        &mut self,
        plain: &[u8],
        repeats: &[Repeat],
        is_last: bool,
        out: &mut Bits<'_>,
    ) -> Result<(), JobError> {
        if plain.len() <= SHORT_BYTES {
            return self.write_short(plain, repeats, is_last, out);
        }
        let counts = Counts::of(plain, repeats);
        let fixed_bits = 3 + counts.bits(&FIXED_LENGTHS);
        let stored_bits = 8 * (plain.len() + 5 * plain.len().div_ceil(STORED_BYTES_MAX)) as u64;
        let lengths = counts.lengths();
        let table = Table::of(&lengths);
        let own_bits = 3 + table.bits + counts.bits(&lengths);
        let own = (own_bits < fixed_bits).then_some((lengths, table, own_bits));
        let bits = own.as_ref().map_or(fixed_bits, |(_, _, bits)| *bits);
        if stored_bits <= bits && !plain.is_empty() {
            return stored(plain, is_last, out);
        }
        let body = |out: &mut Bits<'_>| match &own {
            Some((lengths, table, _)) => {
                out.put(2 << 1 | u32::from(is_last), 3);
                out.in_registers(|out| table.write(out));
                coded(plain, repeats, &Codes::of(lengths), out);
            }
            None => {
                out.put(1 << 1 | u32::from(is_last), 3);
                coded(plain, repeats, &FIXED, out);
            }
        };
        let bytes = (u64::from(out.waiting()) + bits).div_ceil(8) as usize;
        if bytes > out.room() {
            return Err(JobError::DstTooShort);
        }
        if bytes + Bits::MARGIN <= out.room() {
            body(out);
            return Ok(());
        }
        self.aside.resize(bytes + Bits::MARGIN, 0);
        let mut detour = out.detour(&mut self.aside);
        body(&mut detour);
        out.rejoin(&detour)
    }

    /// The same for so few bytes that codes of their own are never shorter, and that counting takes longer than coding.
    fn write_short(
        &mut self,
        plain: &[u8],
        repeats: &[Repeat],
        is_last: bool,
        out: &mut Bits<'_>,
    ) -> Result<(), JobError> {
        // No literal has more bits than nine, and no repeat more than its bytes would have.
        self.aside
            .resize(SHORT_BYTES * 9 / 8 + 3 + 2 * Bits::MARGIN, 0);
        let mut detour = out.detour(&mut self.aside);
        detour.put(1 << 1 | u32::from(is_last), 3);
        coded(plain, repeats, &FIXED, &mut detour);
        if detour.len() > 5 + plain.len() {
            return stored(plain, is_last, out);
        }
        out.rejoin(&detour)
    }
}

/// Writes `plain` as it is.
fn stored(plain: &[u8], is_last: bool, out: &mut Bits<'_>) -> Result<(), JobError> {
    let mut chunks = plain.chunks(STORED_BYTES_MAX).peekable();
    while let Some(chunk) = chunks.next() {
        out.put(u32::from(is_last && chunks.peek().is_none()), 3);
        out.align()?;
        let len = chunk.len() as u16;
        out.push(&len.to_le_bytes())?;
        out.push(&(!len).to_le_bytes())?;
        out.push(chunk)?;
    }
    Ok(())
}

/// Writes `plain`, in which there are `repeats`.
fn coded(plain: &[u8], repeats: &[Repeat], codes: &Codes, out: &mut Bits<'_>) {
    out.in_registers(|out| coded_in_registers(plain, repeats, codes, out));
}

#[inline(always)]
fn coded_in_registers(plain: &[u8], repeats: &[Repeat], codes: &Codes, out: &mut Bits<'_>) {
    let mut rest = plain;
    for repeat in repeats {
        let run = repeat.literals as usize;
        literals(rest, run, codes, out);
        let (symbol, range) = length_symbol(repeat.length);
        put(codes.symbols[FIRST_LENGTH + symbol], out);
        out.put(u32::from(repeat.length - range.first), range.extra.into());
        let (symbol, range) = distance_symbol(repeat.distance);
        put(codes.distances[symbol], out);
        out.put(
            u32::from(repeat.distance - 1 - range.first),
            range.extra.into(),
        );
        out.flush();
        rest = &rest[run + usize::from(repeat.length)..];
    }
    literals(rest, rest.len(), codes, out);
    put(codes.symbols[END], out);
    out.flush();
}

/// Writes the first `len` bytes of `rest`. Those of a last, short group are put as if it were whole, but without bits: how many there are
/// cannot be foreseen, and a wrong guess takes longer.
#[inline(always)]
fn literals(rest: &[u8], len: usize, codes: &Codes, out: &mut Bits<'_>) {
    let (mut rest, mut left) = (rest, len);
    while let (true, Some((group, behind))) =
        (left > LITERALS, rest.split_first_chunk::<LITERALS>())
    {
        for &literal in group {
            put(codes.symbols[usize::from(literal)], out);
        }
        out.flush();
        (rest, left) = (behind, left - LITERALS);
    }
    match rest.first_chunk::<LITERALS>() {
        Some(group) => {
            for (&literal, kept) in group.iter().zip(KEPT[left]) {
                put(codes.symbols[usize::from(literal)] & kept, out);
            }
        }
        None => {
            for &literal in &rest[..left] {
                put(codes.symbols[usize::from(literal)], out);
            }
        }
    }
    out.flush();
}

#[inline(always)]
fn put(entry: u32, out: &mut Bits<'_>) {
    out.put(entry & 0xffff, entry >> 16);
}

#[inline(always)]
fn length_symbol(length: u16) -> (usize, Range) {
    let symbol = usize::from(LENGTH_SYMBOLS[usize::from(length - 3) & 255]);
    (symbol, LENGTH_RANGES[symbol])
}

#[inline(always)]
fn distance_symbol(distance: u16) -> (usize, Range) {
    let less_one = usize::from(distance - 1);
    let index = if less_one < 256 {
        less_one
    } else {
        256 + (less_one >> 7)
    };
    let symbol = usize::from(DISTANCE_SYMBOLS[index & 511]);
    (symbol, DISTANCE_RANGES[symbol])
}

/// Counts the first `len` bytes of `rest`, the last group of them as [`literals`] writes it.
#[inline(always)]
fn count_literals(rest: &[u8], len: usize, tables: &mut [[u32; 256]; LITERALS]) {
    let (mut rest, mut left) = (rest, len);
    while let (true, Some((group, behind))) =
        (left > LITERALS, rest.split_first_chunk::<LITERALS>())
    {
        for (table, &literal) in tables.iter_mut().zip(group) {
            table[usize::from(literal)] += 1;
        }
        (rest, left) = (behind, left - LITERALS);
    }
    match rest.first_chunk::<LITERALS>() {
        Some(group) => {
            for ((table, &literal), kept) in tables.iter_mut().zip(group).zip(KEPT[left]) {
                table[usize::from(literal)] += kept & 1;
            }
        }
        None => {
            for (table, &literal) in tables.iter_mut().zip(&rest[..left]) {
                table[usize::from(literal)] += 1;
            }
        }
    }
}

/// Each symbol's code, and its bits above bit 16.
const fn entries<const N: usize>(lengths: &[u8; N]) -> [u32; N] {
    let codes = prefix_code::codes(lengths);
    let mut entries = [0; N];
    let mut symbol = 0;
    while symbol < N {
        entries[symbol] = codes[symbol] as u32 | (lengths[symbol] as u32) << 16;
        symbol += 1;
    }
    entries
}

impl Codes {
    fn of(lengths: &Lengths) -> Self {
        Self {
            symbols: entries(&lengths.symbols),
            distances: entries(&lengths.distances),
        }
    }
}

impl Counts {
    fn of(plain: &[u8], repeats: &[Repeat]) -> Self {
        let mut counts = Self {
            symbols: [0; SYMBOLS],
            distances: [0; DISTANCES],
            extra_bits: 0,
        };
        // As many tables as a group has literals, so that a byte that follows itself does not wait for its own count.
        let mut tables = [[0u32; 256]; LITERALS];
        let mut rest = plain;
        for repeat in repeats {
            let run = repeat.literals as usize;
            count_literals(rest, run, &mut tables);
            let (symbol, length) = length_symbol(repeat.length);
            counts.symbols[FIRST_LENGTH + symbol] += 1;
            let (symbol, distance) = distance_symbol(repeat.distance);
            counts.distances[symbol] += 1;
            counts.extra_bits += u64::from(length.extra + distance.extra);
            rest = &rest[run + usize::from(repeat.length)..];
        }
        count_literals(rest, rest.len(), &mut tables);
        for (literal, count) in counts.symbols[..END].iter_mut().enumerate() {
            *count = tables.iter().map(|table| table[literal]).sum();
        }
        counts.symbols[END] = 1;
        counts
    }

    /// Bits of the block in codes of these lengths.
    fn bits(&self, lengths: &Lengths) -> u64 {
        let of = |counts: &[u32], lengths: &[u8]| -> u32 {
            let pairs = counts.iter().zip(lengths);
            pairs
                .map(|(&count, &length)| count * u32::from(length))
                .sum()
        };
        let symbols = of(&self.symbols, &lengths.symbols);
        let distances = of(&self.distances, &lengths.distances);
        u64::from(symbols) + u64::from(distances) + self.extra_bits
    }

    /// The lengths with the fewest bits. A block has a literal or a length, and an end.
    fn lengths(&self) -> Lengths {
        Lengths {
            symbols: prefix_code::lengths(&self.symbols, SYMBOL_BITS_MAX),
            distances: prefix_code::lengths(&two(self.distances), DISTANCE_BITS_MAX),
        }
    }
}

/// With at least two symbols: a code of fewer is not complete, and not all decoders take that.
fn two<const N: usize>(mut counts: [u32; N]) -> [u32; N] {
    let used = counts.iter().filter(|&&count| count > 0).count();
    let unused = counts.iter_mut().filter(|count| **count == 0);
    unused
        .take(2usize.saturating_sub(used))
        .for_each(|count| *count = 1);
    counts
}

impl Table {
    fn of(lengths: &Lengths) -> Self {
        let used = |lengths: &[u8]| {
            lengths
                .iter()
                .rposition(|&length| length > 0)
                .map_or(0, |last| last + 1)
        };
        let mut table = Self {
            run: [(0, 0); _],
            len: 0,
            symbols: used(&lengths.symbols),
            distances: used(&lengths.distances),
            lengths: [0; _],
            ordered: 0,
            bits: 0,
        };
        // A repeat may go on from the symbols' lengths to those of distances.
        let mut all = [0; SYMBOLS + DISTANCES];
        let count = table.symbols + table.distances;
        all[..table.symbols].copy_from_slice(&lengths.symbols[..table.symbols]);
        all[table.symbols..count].copy_from_slice(&lengths.distances[..table.distances]);
        let mut rest = &all[..count];
        let mut counts = [0; META_SYMBOLS];
        while let [length, ..] = *rest {
            let same = rest.iter().take_while(|&&other| other == length).count();
            let (symbol, extra, len) = match (length, same) {
                (0, 11..) => (18, same.min(138) - 11, same.min(138)),
                (0, 3..) => (17, same - 3, same),
                // The first is written, those after it repeat it.
                (1.., 4..) => {
                    table.push(length, 0, &mut counts);
                    let more = (same - 1).min(6);
                    rest = &rest[1..];
                    (16, more - 3, more)
                }
                _ => (length, 0, 1),
            };
            table.push(symbol, extra as u8, &mut counts);
            rest = &rest[len..];
        }
        table.lengths = prefix_code::lengths(&two(counts), META_BITS_MAX);
        let ordered = META_ORDER
            .iter()
            .rposition(|&symbol| table.lengths[symbol] > 0);
        table.ordered = ordered.map_or(4, |last| (last + 1).max(4));
        let bits = |symbol: usize| u32::from(table.lengths[symbol] + META_EXTRA[symbol]);
        let coded: u32 = (0..META_SYMBOLS)
            .map(|symbol| counts[symbol] * bits(symbol))
            .sum();
        table.bits = 5 + 5 + 4 + 3 * table.ordered as u64 + u64::from(coded);
        table
    }

    fn push(&mut self, symbol: u8, extra: u8, counts: &mut [u32; META_SYMBOLS]) {
        self.run[self.len] = (symbol, extra);
        self.len += 1;
        counts[usize::from(symbol)] += 1;
    }

    /// As RFC 1951, 3.2.7 says, after the block's type.
    fn write(&self, out: &mut Bits<'_>) {
        out.put(self.symbols as u32 - 257, 5);
        out.put(self.distances as u32 - 1, 5);
        out.put(self.ordered as u32 - 4, 4);
        out.flush();
        for symbols in META_ORDER[..self.ordered].chunks(Bits::WORD as usize / 3) {
            for &symbol in symbols {
                out.put(self.lengths[symbol].into(), 3);
            }
            out.flush();
        }
        let codes = entries(&self.lengths);
        for symbols in self.run[..self.len].chunks(META_GROUP) {
            for &(symbol, extra) in symbols {
                let symbol = usize::from(symbol);
                put(codes[symbol], out);
                out.put(extra.into(), META_EXTRA[symbol].into());
            }
            out.flush();
        }
    }
}
