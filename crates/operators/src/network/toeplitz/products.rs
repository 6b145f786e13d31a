//! Carry-less products: eight bytes of the tuple times 95 bits of the key, several tuples at once.
//!
//! Bit *b* of the hash, from its highest on, is the sum over the bits *i* of a tuple of tuple bit *i* times key bit *i + b*. That
//! is a coefficient of a product of polynomials, if one of the two is taken in the opposite order: here it is the key. A product
//! has 64 bits of each, so the key bits of eight bytes come in two parts, placed so that the hash's bits are the lowest of the
//! upper half of one product and of the lower half of the other:
//!
//! - key bits 0 to 62, one place up: bit *b* is coefficient 64 + *b*;
//! - key bits 63 to 94: bit *b* is coefficient *b*. The last four bytes of a tuple do not reach them.
//!
//! The products of all eights of a tuple are added, then the halves, and the order of the 32 bits is reversed.

use dpb_core::HashTuple;

use super::Key;

/// Vectors of one tuple in each 128 bits, of an instruction set. The value is the proof that its instructions are there; every
/// method is inlined into the function that may use them.
pub(super) trait Products: Copy {
    type Vector: Copy;

    /// Tuples in a vector.
    const TUPLES: usize;

    /// Runs [`Windows::hash_on`] in a function that may use the instructions.
    fn enter(self, windows: &Windows, tuples: &[u8], hashes: &mut [[u8; 4]]);

    fn zero(self) -> Self::Vector;

    /// The sixteen bytes at `at` in `bytes`, and as many at each `step` behind.
    fn load(self, bytes: &[u8], at: usize, step: usize) -> Self::Vector;

    /// The same in all lanes.
    fn all(self, lane: &[u8; 16]) -> Self::Vector;

    /// The byte at each place that `order` names, zero where it names none.
    fn picked(self, bytes: Self::Vector, order: Self::Vector) -> Self::Vector;

    /// The products of the low halves of lanes; of the high halves.
    fn low_product(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn high_product(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Bit by bit.
    fn plus(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// In each lane, the low halves of `a` and `b`; the high halves.
    fn low_halves(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn high_halves(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// In each lane, words 0 and 2 of `a`, then those of `b`.
    fn even_words(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The bits of each word in the opposite order.
    fn turned(self, words: Self::Vector) -> Self::Vector;

    /// Writes it to the start of `to`.
    fn store(self, words: Self::Vector, to: &mut [[u8; 4]]);
}

/// Sixteen bytes of a tuple at a time: at most three times.
const PIECES: usize = 3;
/// The longest tuple.
const BYTES_MAX: usize = 36;
/// The longest tuple that is shorter than a piece.
const SHORT_MAX: usize = 12;
/// The most tuples at a time.
const GROUP_MAX: usize = 8;

/// What is known of the key and of the kind of tuples.
pub(super) struct Windows {
    bytes: usize,
    /// The key bits that, for each piece, go with the low eight bytes and with the high ones: those from 0 to 62, those from 63 on.
    near: [[u8; 16]; PIECES],
    far: [[u8; 16]; PIECES],
    /// The order of each piece's bytes, if it is read from a tuple's start on, and if it is read up to a tuple's end.
    from_start: [[u8; 16]; PIECES],
    to_end: [[u8; 16]; PIECES],
}

impl Windows {
    pub(super) fn new(key: &Key, tuple: HashTuple) -> Box<Self> {
        let bytes = tuple.bytes();
        let mut windows = Box::new(Self {
            bytes,
            near: [[0; 16]; PIECES],
            far: [[0; 16]; PIECES],
            from_start: [[128; 16]; PIECES],
            to_end: [[128; 16]; PIECES],
        });
        for eight in 0..bytes.div_ceil(8) {
            let (piece, half) = (eight / 2, 8 * (eight % 2));
            let window = key.window(8 * eight).reverse_bits();
            windows.near[piece][half..half + 8].copy_from_slice(&(window << 1).to_le_bytes());
            if 8 * eight + 4 < bytes {
                let behind = key.window(8 * eight + 8).reverse_bits();
                let window = behind << 1 | window >> 63;
                windows.far[piece][half..half + 8].copy_from_slice(&window.to_le_bytes());
            }
            for byte in 8 * eight..bytes.min(8 * eight + 8) {
                // The first byte of eight is the highest.
                let place = half + 7 - byte % 8;
                windows.from_start[piece][place] = (byte - piece_at(bytes, piece)) as u8;
                let at = (piece_at(bytes, piece) + bytes.min(16)) as u8;
                windows.to_end[piece][place] = byte as u8 + 16 - at;
            }
        }
        windows
    }

    /// The hashes of tuples, where the instructions may be used.
    #[inline(always)]
    pub(super) fn hash_on<P: Products>(&self, products: P, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        match self.bytes {
            8 => self.hash_each::<P, 8>(products, tuples, hashes),
            12 => self.hash_each::<P, 12>(products, tuples, hashes),
            32 => self.hash_each::<P, 32>(products, tuples, hashes),
            _ => self.hash_each::<P, BYTES_MAX>(products, tuples, hashes),
        }
    }

    #[inline(always)]
    fn hash_each<P: Products, const BYTES: usize>(
        &self,
        products: P,
        tuples: &[u8],
        hashes: &mut [[u8; 4]],
    ) {
        let group = const { 4 * P::TUPLES };
        // The last tuple of a group is read with bytes behind it, unless it is longer than a piece.
        let behind = const { 16usize.saturating_sub(BYTES) };
        let loaded = self.loaded(products, &self.from_start);
        let (mut tuples_left, mut hashes_left) = (tuples, &mut *hashes);
        while tuples_left.len() >= group * BYTES + behind {
            let (places, rest) = hashes_left.split_at_mut(group);
            hash_group::<P, BYTES>(
                products,
                &loaded,
                &tuples_left[..group * BYTES + behind],
                places,
            );
            (tuples_left, hashes_left) = (&tuples_left[group * BYTES..], rest);
        }
        if hashes_left.is_empty() {
            return;
        }
        // The last ones once more, read up to their ends: there is a tuple before them.
        if let Some(start) = tuples.len().checked_sub(group * BYTES + behind) {
            let loaded = self.loaded(products, &self.to_end);
            let first = hashes.len() - group;
            hash_group::<P, BYTES>(products, &loaded, &tuples[start..], &mut hashes[first..]);
            return;
        }
        // One group, and no bytes behind it: it is hashed where there are.
        if behind > 0 && hashes_left.len() == group {
            let mut padded = [0; GROUP_MAX * SHORT_MAX + 16];
            padded[..group * BYTES].copy_from_slice(tuples_left);
            let padded = &padded[..group * BYTES + behind];
            hash_group::<P, BYTES>(products, &loaded, padded, hashes_left);
            return;
        }
        for (tuple, hash) in tuples_left.as_chunks::<BYTES>().0.iter().zip(hashes_left) {
            *hash = hash_one(products, &loaded, tuple);
        }
    }

    #[inline(always)]
    fn loaded<P: Products>(
        &self,
        products: P,
        orders: &[[u8; 16]; PIECES],
    ) -> [[P::Vector; 3]; PIECES] {
        let mut loaded = [[products.zero(); 3]; PIECES];
        for (piece, loaded) in loaded.iter_mut().enumerate() {
            *loaded = [
                products.all(&orders[piece]),
                products.all(&self.near[piece]),
                products.all(&self.far[piece]),
            ];
        }
        loaded
    }
}

/// The place in a tuple at which a piece is read: the last one up to its end.
const fn piece_at(bytes: usize, piece: usize) -> usize {
    let last = bytes.saturating_sub(16);
    if 16 * piece < last { 16 * piece } else { last }
}

/// The hashes of four vectors of tuples.
#[inline(always)]
fn hash_group<P: Products, const BYTES: usize>(
    products: P,
    pieces: &[[P::Vector; 3]; PIECES],
    group: &[u8],
    hashes: &mut [[u8; 4]],
) {
    assert!(group.len() == 4 * P::TUPLES * BYTES + 16usize.saturating_sub(BYTES));
    let mut sums = [[products.zero(); 2]; 4];
    for (vector, sums) in sums.iter_mut().enumerate() {
        // Lane *l* has tuple 4 *l* + `vector`, so that four vectors' words lie in order.
        *sums = sums_of::<P, BYTES>(products, pieces, group, vector * BYTES, 4 * BYTES);
    }
    let [a, b, c, d] = sums;
    let ab = products.plus(
        products.high_halves(a[0], b[0]),
        products.low_halves(a[1], b[1]),
    );
    let cd = products.plus(
        products.high_halves(c[0], d[0]),
        products.low_halves(c[1], d[1]),
    );
    products.store(products.turned(products.even_words(ab, cd)), hashes);
}

/// The hash of one tuple.
#[inline(always)]
fn hash_one<P: Products, const BYTES: usize>(
    products: P,
    pieces: &[[P::Vector; 3]; PIECES],
    tuple: &[u8; BYTES],
) -> [u8; 4] {
    let [near, far] = if BYTES < 16 {
        let mut padded = [0; 16];
        padded[..BYTES].copy_from_slice(tuple);
        sums_of::<P, BYTES>(products, pieces, &padded, 0, 0)
    } else {
        sums_of::<P, BYTES>(products, pieces, tuple, 0, 0)
    };
    let sum = products.plus(
        products.high_halves(near, near),
        products.low_halves(far, far),
    );
    let mut hashes = [[0; 4]; GROUP_MAX];
    products.store(products.turned(products.even_words(sum, sum)), &mut hashes);
    hashes[0]
}

/// The sums of a vector's products: of the near key bits, and of the far ones. The first tuple is at `at`, the next one `step` behind.
#[inline(always)]
fn sums_of<P: Products, const BYTES: usize>(
    products: P,
    pieces: &[[P::Vector; 3]; PIECES],
    tuples: &[u8],
    at: usize,
    step: usize,
) -> [P::Vector; 2] {
    let [mut near, mut far] = [products.zero(); 2];
    let pieces = &pieces[..BYTES.div_ceil(16)];
    for (piece, &[order, near_window, far_window]) in pieces.iter().enumerate() {
        let bytes = products.load(tuples, at + piece_at(BYTES, piece), step);
        let bytes = products.picked(bytes, order);
        let words = (BYTES - 16 * piece) / 4;
        near = products.plus(near, products.low_product(bytes, near_window));
        if words > 1 {
            far = products.plus(far, products.low_product(bytes, far_window));
        }
        if words > 2 {
            near = products.plus(near, products.high_product(bytes, near_window));
        }
        if words > 3 {
            far = products.plus(far, products.high_product(bytes, far_window));
        }
    }
    [near, far]
}
