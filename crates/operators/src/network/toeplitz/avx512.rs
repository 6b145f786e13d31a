//! x86-64 with AVX-512 and GFNI: sixteen tuples at a time, one instruction for sixteen times four bytes by a matrix each.
//!
//! What a byte of a tuple adds to a byte of the hash is a matrix of 8 × 8 bits times that byte, and `vgf2p8affineqb`
//! multiplies eight bytes by one matrix. So bytes that stand at the same place of different tuples are brought side by side:
//!
//! 1. A column is the same word (32 bits) of sixteen tuples. It is merged from as many loads as the tuples span vectors,
//!    each at an offset at which the words land in lanes of their own; in which, depends on the tuple's length.
//! 2. A permutation of its bytes makes four parts of sixteen: all first bytes, all second bytes, …, in order of tuples.
//! 3. For each byte of the hash, one multiplication by the four matrices of these places. The columns' products are added.
//! 4. The four parts of each sum are added, in three steps for all four bytes of the hash together, and the bytes go back to
//!    their tuples.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::HashTuple;

use super::Key;
use crate::isa::Gfni;

/// Tuples at a time.
const GROUP: usize = 16;

/// A vector.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// The permutation of the column of each word of a tuple, and for each byte of the hash the matrices of its four bytes.
pub(super) struct Matrices {
    proof: Gfni,
    columns: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Column {
    order: Line,
    matrices: [Line; 4],
}

impl Matrices {
    pub(super) fn new(proof: Gfni, key: &Key, tuple: HashTuple) -> Self {
        let words = tuple.bytes() / 4;
        let column = |word: usize| Column {
            order: order(words, word),
            matrices: std::array::from_fn(|byte| matrices(key, word, byte)),
        };
        Self {
            proof,
            columns: (0..words).map(column).collect(),
        }
    }

    pub(super) fn hash_all(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        let Gfni { .. } = self.proof;
        // SAFETY: `Gfni`, which `proof` is, exists only where these instructions do.
        unsafe {
            match self.columns.len() {
                2 => hash_all::<2>(&self.columns, tuples, hashes),
                3 => hash_all::<3>(&self.columns, tuples, hashes),
                8 => hash_all::<8>(&self.columns, tuples, hashes),
                _ => hash_all::<9>(&self.columns, tuples, hashes),
            }
        }
    }
}

/// The lane of a column that a tuple's word lands in.
const fn lane(words: usize, word: usize, tuple: usize) -> usize {
    if words % 2 == 1 {
        // Vectors follow one another; multiples of an odd number fall into lanes of their own.
        (tuple * words + word) % 16
    } else {
        // The loads are shifted by a lane from vector to vector.
        let in_vector = 16 / words;
        tuple / in_vector + tuple % in_vector * words
    }
}

/// By how many words the load of a vector starts off the vector.
const fn offset(words: usize, word: usize, vector: usize) -> isize {
    if words % 2 == 1 {
        0
    } else {
        word as isize - vector as isize
    }
}

/// The lanes that a column takes from a vector.
const fn lanes_of(words: usize, word: usize, vector: usize) -> u16 {
    let mut lanes = 0;
    let mut tuple = 0;
    while tuple < GROUP {
        let at =
            (tuple * words + word) as isize - offset(words, word, vector) - 16 * vector as isize;
        if at == lane(words, word, tuple) as isize {
            lanes |= 1 << at;
        }
        tuple += 1;
    }
    lanes
}

/// [`offset`] and [`lanes_of`] of each word and vector, which are too much to find out while hashing.
struct Loads<const WORDS: usize>;

impl<const WORDS: usize> Loads<WORDS> {
    const ALL: [[(isize, u16); WORDS]; WORDS] = {
        let mut all = [[(0, 0); WORDS]; WORDS];
        let mut word = 0;
        while word < WORDS {
            let mut vector = 0;
            while vector < WORDS {
                let at = 16 * vector as isize + offset(WORDS, word, vector);
                all[word][vector] = (at, lanes_of(WORDS, word, vector));
                vector += 1;
            }
            word += 1;
        }
        all
    };
}

/// Byte *b* of tuple *t* of a column goes to 16 *b* + *t*.
fn order(words: usize, word: usize) -> Line {
    Line(std::array::from_fn(|to| {
        (4 * lane(words, word, to % 16) + to / 16) as u8
    }))
}

/// The matrices by which the four bytes of a word add to a byte of the hash: each matrix twice, for sixteen tuples.
fn matrices(key: &Key, word: usize, hash_byte: usize) -> Line {
    let mut line = [0; 64];
    for (byte, twice) in line.chunks_exact_mut(16).enumerate() {
        for matrix in twice.chunks_exact_mut(8) {
            matrix.copy_from_slice(&matrix_of(key, 4 * word + byte, hash_byte));
        }
    }
    Line(line)
}

/// The matrix of a tuple's byte for a byte of the hash, 0 the lowest. As the instruction reads it: byte 7 − *i* is the row of
/// the result's bit *i*.
fn matrix_of(key: &Key, byte: usize, hash_byte: usize) -> [u8; 8] {
    let window = key.window(byte);
    std::array::from_fn(|row| {
        let hash_bit = 8 * hash_byte + 7 - row;
        // Bit 7 of the tuple's byte adds the window's first 32 bits, bit 0 those that start seven later.
        (0..8).fold(0, |bits, bit| {
            let added = (window >> (32 - (7 - bit))) as u32;
            bits | ((added >> hash_bit & 1) as u8) << bit
        })
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn hash_all<const WORDS: usize>(columns: &[Column], tuples: &[u8], hashes: &mut [[u8; 4]]) {
    let columns: &[Column; WORDS] = columns.try_into().expect("a column for each word");
    let (words, _) = tuples.as_chunks::<4>();
    let (tuples, _) = words.as_chunks::<WORDS>();
    let (groups, rest) = tuples.as_chunks::<GROUP>();
    let (places, rest_places) = hashes.as_chunks_mut::<GROUP>();
    for (group, places) in groups.iter().zip(places) {
        hash_group(columns, group, places);
    }
    if !rest.is_empty() {
        let mut group = [[[0; 4]; WORDS]; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        let mut places = [[0; 4]; GROUP];
        hash_group(columns, &group, &mut places);
        rest_places.copy_from_slice(&places[..rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn hash_group<const WORDS: usize>(
    columns: &[Column; WORDS],
    group: &[[[u8; 4]; WORDS]; GROUP],
    hashes: &mut [[u8; 4]; GROUP],
) {
    let mut sums = [_mm512_setzero_si512(); 4];
    for (word, column) in columns.iter().enumerate() {
        let bytes = _mm512_permutexvar_epi8(load(&column.order), gather(group, word));
        for (sum, matrices) in sums.iter_mut().zip(&column.matrices) {
            let added = _mm512_gf2p8affine_epi64_epi8::<0>(bytes, load(matrices));
            *sum = _mm512_xor_si512(*sum, added);
        }
    }
    let [a, b, c, d] = sums;
    // Quarters of `ab`: two halves of `a`, two of `b`; and so on.
    let ab = halves_added(a, b);
    let cd = halves_added(c, d);
    let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd);
    let odd = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd);
    let planes = _mm512_xor_si512(even, odd);
    let order = Line(
        const {
            let mut order = [0; 64];
            let mut to = 0;
            while to < 64 {
                order[to] = (16 * (to % 4) + to / 4) as u8;
                to += 1;
            }
            order
        },
    );
    let words = _mm512_permutexvar_epi8(load(&order), planes);
    // SAFETY: sixteen places of four bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), words) }
}

/// The halves of `a` added, then those of `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_added(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(
        _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
    )
}

/// One word of each tuple, in the lanes that [`lane`] says.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather<const WORDS: usize>(group: &[[[u8; 4]; WORDS]; GROUP], word: usize) -> __m512i {
    let mut column = _mm512_setzero_si512();
    for &(at, lanes) in &const { &Loads::<WORDS>::ALL }[word] {
        // SAFETY: a load starts at most a vector off, and never before the group or ends behind it: that is checked for each
        // word and vector by a test. It needs no alignment.
        let line = unsafe { _mm512_loadu_si512(group.as_ptr().cast::<i32>().offset(at).cast()) };
        column = _mm512_mask_mov_epi32(column, lanes, line);
    }
    column
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &Line) -> __m512i {
    // SAFETY: 64 bytes, aligned to as many.
    unsafe { _mm512_load_si512((&raw const line.0).cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_stay_inside_and_find_every_word_once() {
        found::<2>();
        found::<3>();
        found::<8>();
        found::<9>();
    }

    fn found<const WORDS: usize>() {
        for loads in Loads::<WORDS>::ALL {
            let mut all = 0;
            for (at, lanes) in loads {
                let range = 0..=(GROUP * WORDS - 16) as isize;
                assert!(range.contains(&at), "{WORDS} {at}");
                assert_eq!(all & lanes, 0);
                all |= lanes;
            }
            assert_eq!(all, u16::MAX, "{WORDS}");
        }
    }
}
