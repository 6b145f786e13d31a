//! The datagrams that wait: found by key, kept in the order of their age.

use std::ops::Range;

use super::Dropped;
use super::key::{Key, Piece};
use super::units::Units;
use crate::network::checksum::{fold, words};
use crate::network::packet::{HEADERS_BYTES_MAX, IPV6_BYTES, PACKET_BYTES_MAX, Version, put_u16};

/// No datagram.
const NONE: u32 = u32::MAX;
/// In front of a datagram's payload: room for its headers, which end where the payload begins.
const ROOM: usize = HEADERS_BYTES_MAX;
/// The size of one datagram's buffer, in whole units.
const BUFFER_BYTES: usize = ROOM + PACKET_BYTES_MAX.next_multiple_of(64);

/// Memory in which a datagram is put together: its payload begins at `base`, its headers end there.
pub(super) struct Place<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) base: usize,
}

/// The waiting datagrams.
#[derive(Debug)]
pub(super) struct Table {
    datagrams: Vec<Datagram>,
    /// A buffer for each datagram, and one for those that are whole from the start.
    buffers: Vec<u8>,
    /// The first datagram of each hash.
    buckets: Vec<u32>,
    free: u32,
    oldest: u32,
    newest: u32,
    /// The one that had the last fragment: mostly it has the next one too.
    last: u32,
    len: usize,
    evicted: u64,
    /// Seeds of the hash, secret so that nobody can choose keys that collide.
    seeds: [u64; 2],
}

#[derive(Clone, Debug)]
struct Datagram {
    key: Key,
    bucket: u32,
    /// The next of the same bucket, or the next free one.
    next: u32,
    older: u32,
    newer: u32,
    since_ns: u64,
    is_given_up: bool,
    fragments: u32,
    /// Bytes that have come.
    received: usize,
    /// The end of what has come, and of the datagram once its last fragment has.
    end: usize,
    total: Option<usize>,
    headers_bytes: usize,
    /// Bit *n*: a fragment with congestion bits *n* has come.
    ecn: u8,
    come: Units,
    /// The first unit of each fragment.
    starts: Units,
}

impl Table {
    pub(super) fn new(datagrams_max: u32, seeds: [u64; 2]) -> Self {
        let count = datagrams_max as usize;
        let mut datagrams = vec![Datagram::NEW; count];
        for (i, datagram) in datagrams.iter_mut().enumerate() {
            datagram.next = if i + 1 < count { i as u32 + 1 } else { NONE };
        }
        Self {
            datagrams,
            buffers: vec![0; (count + 1) * BUFFER_BYTES],
            buckets: vec![NONE; (2 * count).next_power_of_two()],
            free: 0,
            oldest: NONE,
            newest: NONE,
            last: NONE,
            len: 0,
            evicted: 0,
            seeds,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The oldest, and since when it has waited.
    pub(super) fn oldest(&self) -> Option<(u32, u64)> {
        let datagram = self.datagrams.get(self.oldest as usize)?;
        Some((self.oldest, datagram.since_ns))
    }

    /// The datagram that `piece` belongs to; a new one if there is none, for which the oldest makes room.
    pub(super) fn find_or_make(&mut self, piece: &Piece<'_>, now_ns: u64) -> u32 {
        if let Some(datagram) = self.datagrams.get(self.last as usize)
            && datagram.key == piece.key
        {
            return self.last;
        }
        let bucket = self.bucket(&piece.key);
        let mut at = self.buckets[bucket as usize];
        while at != NONE && self.datagrams[at as usize].key != piece.key {
            at = self.datagrams[at as usize].next;
        }
        if at == NONE {
            at = self.make(piece.key, bucket, now_ns);
        }
        self.last = at;
        at
    }

    fn make(&mut self, key: Key, bucket: u32, now_ns: u64) -> u32 {
        if self.free == NONE {
            self.release(self.oldest);
            self.evicted += 1;
        }
        let at = self.free;
        let older = self.newest;
        let datagram = &mut self.datagrams[at as usize];
        self.free = datagram.next;
        datagram.key = key;
        datagram.bucket = bucket;
        datagram.next = std::mem::replace(&mut self.buckets[bucket as usize], at);
        datagram.older = older;
        datagram.newer = NONE;
        datagram.since_ns = now_ns;
        self.newest = at;
        match self.datagrams.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
        self.len += 1;
        at
    }

    /// Forgets a datagram. Its bytes stay until the next one takes its place.
    pub(super) fn release(&mut self, at: u32) {
        let datagram = &mut self.datagrams[at as usize];
        let Datagram {
            bucket,
            next,
            older,
            newer,
            ..
        } = *datagram;
        datagram.reset();
        datagram.next = std::mem::replace(&mut self.free, at);
        match self.datagrams.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.datagrams.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        let mut before = self.buckets[bucket as usize];
        if before == at {
            self.buckets[bucket as usize] = next;
        } else {
            while self.datagrams[before as usize].next != at {
                before = self.datagrams[before as usize].next;
            }
            self.datagrams[before as usize].next = next;
        }
        self.last = NONE;
        self.len -= 1;
    }

    /// Puts `piece` in its place in the datagram's buffer. Where the datagram lies, once that is whole.
    pub(super) fn add(
        &mut self,
        at: u32,
        piece: &Piece<'_>,
        fragments_max: u32,
    ) -> Result<Option<Range<usize>>, Dropped> {
        let from = at as usize * BUFFER_BYTES;
        let place = Place {
            bytes: &mut self.buffers[from..][..BUFFER_BYTES],
            base: ROOM,
        };
        let whole = self.datagrams[at as usize].take(place, piece, fragments_max)?;
        Ok(whole.map(|range| from + range.start..from + range.end))
    }

    /// The same for a datagram that is put together elsewhere. Where in `place` it lies, once it is whole.
    pub(super) fn add_in(
        &mut self,
        at: u32,
        place: Place<'_>,
        piece: &Piece<'_>,
        fragments_max: u32,
    ) -> Result<Option<Range<usize>>, Dropped> {
        self.datagrams[at as usize].take(place, piece, fragments_max)
    }

    /// Takes what has come of a datagram that was put together elsewhere into its own buffer, where the rest will go.
    pub(super) fn take_home(&mut self, at: u32, place: &Place<'_>) {
        let datagram = &self.datagrams[at as usize];
        let from = at as usize * BUFFER_BYTES;
        let len = datagram.headers_bytes + datagram.end;
        self.buffers[from + ROOM - datagram.headers_bytes..][..len]
            .copy_from_slice(&place.bytes[place.base - datagram.headers_bytes..][..len]);
    }

    /// Whether nothing of a datagram has come yet.
    pub(super) fn is_new(&self, at: u32) -> bool {
        self.datagrams[at as usize].fragments == 0
    }

    /// Whether the datagram at `at` is the one of this key.
    pub(super) fn holds(&self, at: u32, key: &Key) -> bool {
        self.datagrams[at as usize].key == *key
    }

    /// The datagram that a fragment is all of.
    pub(super) fn alone(&mut self, piece: &Piece<'_>) -> Range<usize> {
        let from = self.datagrams.len() * BUFFER_BYTES;
        let buffer = &mut self.buffers[from..];
        let range = put_headers(buffer, ROOM, piece);
        buffer[ROOM..][..piece.payload.len()].copy_from_slice(piece.payload);
        let whole = range.start..ROOM + piece.payload.len();
        finish(piece.version, &mut buffer[whole.clone()], range.len());
        from + whole.start..from + whole.end
    }

    /// The bytes that `add` or `alone` spoke of.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffers[range]
    }

    fn bucket(&self, key: &Key) -> u32 {
        let [a, b, c, d] = key.addresses;
        let rest = u64::from(key.identification) << 32 | u64::from(key.kind);
        let hash = mix(
            mix(a ^ self.seeds[0], b ^ self.seeds[1]) ^ c,
            d ^ self.seeds[1],
        );
        mix(hash ^ rest, self.seeds[0]) as u32 & (self.buckets.len() as u32 - 1)
    }
}

/// Both halves of the product.
fn mix(a: u64, b: u64) -> u64 {
    // Odd, so that a zero on one side does not take the other with it.
    let product = u128::from(a | 1) * u128::from(b | 1);
    (product >> 64) as u64 ^ product as u64 ^ a ^ b.rotate_left(32)
}

impl Datagram {
    const NEW: Self = Self {
        key: Key::NONE,
        bucket: 0,
        next: NONE,
        older: NONE,
        newer: NONE,
        since_ns: 0,
        is_given_up: false,
        fragments: 0,
        received: 0,
        end: 0,
        total: None,
        headers_bytes: 0,
        ecn: 0,
        come: Units::none(),
        starts: Units::none(),
    };

    fn reset(&mut self) {
        let units = self.end.div_ceil(8);
        self.come.clear(units);
        self.starts.clear(units);
        self.key = Key::NONE;
        self.is_given_up = false;
        self.fragments = 0;
        self.received = 0;
        self.end = 0;
        self.total = None;
        self.headers_bytes = 0;
        self.ecn = 0;
    }

    /// One more fragment. Whatever is wrong with it, but that it came before, ends the datagram.
    fn take(
        &mut self,
        place: Place<'_>,
        piece: &Piece<'_>,
        fragments_max: u32,
    ) -> Result<Option<Range<usize>>, Dropped> {
        if self.is_given_up {
            return Err(Dropped::GivenUp);
        }
        let outcome = self.add(place, piece, fragments_max);
        self.is_given_up = !matches!(outcome, Ok(_) | Err(Dropped::Duplicate));
        outcome
    }

    fn add(
        &mut self,
        place: Place<'_>,
        piece: &Piece<'_>,
        fragments_max: u32,
    ) -> Result<Option<Range<usize>>, Dropped> {
        let Place { bytes, base } = place;
        let (start, end) = (piece.start, piece.end());
        if end > 0xffff {
            return Err(Dropped::TooLong);
        }
        // Beyond the end that is known, or an end before what has come.
        let is_beyond = match self.total {
            Some(total) => end > total || end == total && piece.more || end < total && !piece.more,
            None => !piece.more && end < self.end,
        };
        if is_beyond {
            return Err(Dropped::Overlap);
        }
        let units = start / 8..end.div_ceil(8);
        if self.come.has_any(units.clone()) {
            let payload = &bytes[base + start..base + end];
            let is_same = self.is_fragment(units) && payload == piece.payload;
            let is_same = is_same && (piece.more || self.total == Some(end));
            return Err(if is_same {
                Dropped::Duplicate
            } else {
                Dropped::Overlap
            });
        }
        if self.fragments >= fragments_max {
            return Err(Dropped::TooMany);
        }
        self.fragments += 1;
        self.received += piece.payload.len();
        self.end = self.end.max(end);
        self.starts.set(units.start..units.start + 1);
        self.come.set(units);
        self.ecn |= 1 << piece.ecn;
        if !piece.more {
            self.total = Some(end);
        }
        if start == 0 {
            self.headers_bytes = put_headers(bytes, base, piece).len();
        }
        bytes[base + start..base + end].copy_from_slice(piece.payload);
        if self.total != Some(self.received) {
            return Ok(None);
        }
        let whole = base - self.headers_bytes..base + self.received;
        self.finish(piece.version, &mut bytes[whole.clone()])?;
        Ok(Some(whole))
    }

    /// Whether one fragment brought exactly these units.
    fn is_fragment(&self, units: Range<usize>) -> bool {
        let ends = self.starts.has(units.end) || !self.come.has(units.end);
        ends && self.come.has_all(units.clone())
            && self.starts.has(units.start)
            && !self.starts.has_any(units.start + 1..units.end)
    }

    /// The datagram, all of whose bytes have come.
    fn finish(&self, version: Version, datagram: &mut [u8]) -> Result<(), Dropped> {
        const UNMARKABLE: u8 = 1;
        const MARKED: u8 = 1 << 3;
        let fixed_bytes = match version {
            Version::V4 => 0,
            Version::V6 => IPV6_BYTES,
        };
        if datagram.len() - fixed_bytes > 0xffff {
            return Err(Dropped::TooLong);
        }
        if self.ecn & MARKED != 0 {
            if self.ecn & UNMARKABLE != 0 {
                return Err(Dropped::Congestion);
            }
            match version {
                Version::V4 => datagram[1] |= 3,
                Version::V6 => datagram[1] |= 3 << 4,
            }
        }
        finish(version, datagram, self.headers_bytes);
        Ok(())
    }
}

/// Puts the headers before the payload's place, `base`. Where they lie.
fn put_headers(buffer: &mut [u8], base: usize, piece: &Piece<'_>) -> Range<usize> {
    let range = base - piece.headers.len()..base;
    let headers = &mut buffer[range.clone()];
    headers.copy_from_slice(piece.headers);
    let (at, next_header) = piece.next_header;
    headers[at] = next_header;
    range
}

/// Lengths and checksum of a datagram that is no fragment any more.
fn finish(version: Version, datagram: &mut [u8], headers_bytes: usize) {
    let len = datagram.len();
    match version {
        Version::V4 => {
            let header = &mut datagram[..headers_bytes];
            put_u16(header, 2, len as u16);
            // Neither more fragments nor an offset.
            header[6] &= 0xc0;
            header[7] = 0;
            header[10..12].fill(0);
            let checksum = !fold(words(header).into());
            header[10..12].copy_from_slice(&checksum.to_le_bytes());
        }
        Version::V6 => put_u16(datagram, 4, (len - IPV6_BYTES) as u16),
    }
}
