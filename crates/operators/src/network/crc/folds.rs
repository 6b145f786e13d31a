//! Vectors that lie one behind another, folded to one.

use super::Algorithm;
use super::vectors::{Vectors, by_vectors, taken};

/// A vector and the blocks behind it in one: full groups are folded side by side, what does not fill one goes before them.
#[inline(always)]
pub(super) fn blocks<A: Algorithm, V: Vectors>(
    v: V,
    vector: V::Vector,
    blocks: &[u8],
) -> V::Vector {
    match blocks.len() / V::BYTES {
        16.. => grouped::<A, V, 8>(v, vector, blocks),
        4.. => grouped::<A, V, 4>(v, vector, blocks),
        _ => grouped::<A, V, 1>(v, vector, blocks),
    }
}

#[inline(always)]
pub(super) fn grouped<A: Algorithm, V: Vectors, const GROUP: usize>(
    v: V,
    mut vector: V::Vector,
    blocks: &[u8],
) -> V::Vector {
    let by_1 = by_vectors::<A, V, 1>(v);
    let count = blocks.len() / V::BYTES;
    let (before, groups) = blocks.split_at(count % GROUP * V::BYTES);
    for block in before.chunks_exact(V::BYTES) {
        vector = v.folded(vector, by_1, taken::<A, V>(v, v.load(block)));
    }
    let mut groups = groups.chunks_exact(GROUP * V::BYTES);
    let Some(first) = groups.next() else {
        return vector;
    };
    let mut vectors = [v.all([0; 2]); GROUP];
    for (vector, block) in vectors.iter_mut().zip(first.chunks_exact(V::BYTES)) {
        *vector = taken::<A, V>(v, v.load(block));
    }
    vectors[0] = v.folded(vector, by_1, vectors[0]);
    let by_group = by_vectors::<A, V, GROUP>(v);
    for group in groups {
        for (vector, block) in vectors.iter_mut().zip(group.chunks_exact(V::BYTES)) {
            *vector = v.folded(*vector, by_group, taken::<A, V>(v, v.load(block)));
        }
    }
    joined::<A, V, GROUP>(v, vectors)
}

/// One, four or eight vectors, one behind another, in one.
#[inline(always)]
pub(super) fn joined<A: Algorithm, V: Vectors, const GROUP: usize>(
    v: V,
    mut vectors: [V::Vector; GROUP],
) -> V::Vector {
    let steps = [
        by_vectors::<A, V, 1>(v),
        by_vectors::<A, V, 2>(v),
        by_vectors::<A, V, 4>(v),
    ];
    let (mut left, mut step) = (GROUP, 0);
    while left > 1 {
        left /= 2;
        for i in 0..left {
            vectors[i] = v.folded(vectors[2 * i], steps[step], vectors[2 * i + 1]);
        }
        step += 1;
    }
    vectors[0]
}
