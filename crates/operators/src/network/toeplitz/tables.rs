//! Without any instruction set: for each byte of a tuple a table of what each of its values adds.

use dpb_core::HashTuple;

use super::{Key, bits};

/// A table for each byte.
pub(super) struct Tables(Vec<[u32; 256]>);

impl Tables {
    pub(super) fn new(key: &Key, tuple: HashTuple) -> Self {
        let mut alone = vec![0; tuple.bytes()];
        let table = |byte: usize| {
            std::array::from_fn(|value| {
                alone.fill(0);
                alone[byte] = value as u8;
                bits::hash(key, &alone)
            })
        };
        Self((0..tuple.bytes()).map(table).collect())
    }

    pub(super) fn hash_all(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        // The compiler unrolls what it knows the length of.
        match self.0.len() {
            8 => self.hash_each::<8>(tuples, hashes),
            12 => self.hash_each::<12>(tuples, hashes),
            32 => self.hash_each::<32>(tuples, hashes),
            _ => self.hash_each::<36>(tuples, hashes),
        }
    }

    fn hash_each<const BYTES: usize>(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        let tables: &[[u32; 256]; BYTES] = self.0.as_slice().try_into().expect("as many tables");
        let (tuples, _) = tuples.as_chunks::<BYTES>();
        for (tuple, hash) in tuples.iter().zip(hashes) {
            let added = tuple
                .iter()
                .zip(tables)
                .map(|(byte, table)| table[usize::from(*byte)]);
            *hash = added.fold(0, |hash, added| hash ^ added).to_le_bytes();
        }
    }
}
