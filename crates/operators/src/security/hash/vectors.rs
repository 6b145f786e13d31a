//! Vectors of words, one word of each of several messages: what the kernels of all hash functions are written over, once for
//! every instruction set.
//!
//! The trait's methods and the kernels are always inlined, so all of a kernel is compiled inside the one function of
//! [`Enter`] that has the instruction set's features.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::Function;
use super::lanes::Compress;

/// A proof that an instruction set is there, which runs work compiled for it.
pub(crate) trait Enter: Copy {
    /// True if an instruction rotates a word of its registers into another register, and one makes `!a & b`; else both overwrite an operand,
    /// which is copied before.
    const KEEPS_OPERANDS: bool;
    /// Runs `work` in a function that has the instruction set's features.
    fn enter(self, work: impl Work<Self>);
}

/// Work for an instruction set.
pub(crate) trait Work<P> {
    /// Does it. Always inlined.
    fn run(self, proof: P);
}

/// An instruction set's vectors of `N` words.
pub(crate) trait Vectors<W, const N: usize>: Enter {
    /// A vector.
    type V: Copy;
    /// True if [`Self::choose`] is one instruction and [`Self::majority`] one or two.
    const CHOOSES: bool;

    /// From memory, in the machine's order of bytes.
    fn load(self, words: &[W; N]) -> Self::V;
    /// To memory.
    fn store(self, words: &mut [W; N], vector: Self::V);
    /// One word in each place.
    fn splat(self, word: W) -> Self::V;
    /// Sums.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a ^ b`.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a & b`.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// `!a & b`.
    fn not_and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Rotated to the left. `LEFT` and `RIGHT` are a word's width together.
    fn rotate<const LEFT: i32, const RIGHT: i32>(self, a: Self::V) -> Self::V;
    /// `a >> BITS`.
    fn shift_right<const BITS: i32>(self, a: Self::V) -> Self::V;
    /// The exclusive or of three rotations, each as [`Self::rotate`] has it; where `L3` is 0, of two and of `a >> R3`.
    #[inline(always)]
    fn xor_rotated<
        const L1: i32,
        const R1: i32,
        const L2: i32,
        const R2: i32,
        const L3: i32,
        const R3: i32,
    >(
        self,
        a: Self::V,
    ) -> Self::V {
        let third = if L3 == 0 {
            self.shift_right::<R3>(a)
        } else {
            self.rotate::<L3, R3>(a)
        };
        self.xor_3(self.rotate::<L1, R1>(a), self.rotate::<L2, R2>(a), third)
    }
    /// The bytes of each word turned around.
    fn swap(self, a: Self::V) -> Self::V;
    /// The first sixteen bytes of all rows in vector 0, the next ones in vector 1, and so on. Of four rows, those of which a vector has room.
    fn columns(self, rows: [&[u8; 64]; 4]) -> [Self::V; 4];
    /// Square blocks of words, in each sixteen bytes of the vectors, mirrored: four vectors of 32-bit words, the first two of 64-bit ones.
    fn mirror(self, vectors: [Self::V; 4]) -> [Self::V; 4];

    /// The bits of `a` where `mask` has ones, else those of `b`.
    #[inline(always)]
    fn choose(self, mask: Self::V, a: Self::V, b: Self::V) -> Self::V {
        self.xor(self.and(self.xor(a, b), mask), b)
    }

    /// Each bit as most of the three have it.
    #[inline(always)]
    fn majority(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.xor(self.and(self.xor(a, b), self.xor(b, c)), b)
    }

    /// `a ^ b ^ c`, of which `c` may come last.
    #[inline(always)]
    fn xor_3(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.xor(self.xor(a, b), c)
    }

    /// `a ^ (b | !c)`.
    fn xor_or_not(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// Word `i` of the blocks in vector `i`. Of each message, the block that `at` says.
    #[inline(always)]
    fn words<const BLOCK: usize>(self, blocks: &[&[[u8; BLOCK]]; N], at: usize) -> [Self::V; 16] {
        // The words of sixteen bytes, and the rows that are mirrored with each other.
        let side = 16 / size_of::<W>();
        let zero = self.zero();
        let mut words = [zero; 16];
        for part in 0..BLOCK / 64 {
            let mut rows = [[zero; 4]; 4];
            for (first, row) in rows.iter_mut().enumerate().take(side) {
                let mut of = [&[0; 64]; 4];
                for (i, of) in of.iter_mut().enumerate() {
                    *of = &blocks[(first + i * side) % N][at].as_chunks().0[part];
                }
                *row = self.columns(of);
            }
            for column in 0..4 {
                let [a, b, c, d] = &rows;
                let square = self.mirror([a[column], b[column], c[column], d[column]]);
                for (i, word) in square.into_iter().enumerate().take(side) {
                    words[(4 * part + column) * side + i] = word;
                }
            }
        }
        words
    }

    /// No bit set.
    fn zero(self) -> Self::V;
}

/// A hash function's steps over vectors. Its state is `WORDS` words.
pub(crate) trait Steps<const BLOCK: usize, const WORDS: usize>:
    Function<BLOCK, State = [Self::Word; WORDS]>
{
    /// What it computes with.
    type Word: Copy + 'static;
    /// True if the words of a block begin with their highest byte.
    const BIG_ENDIAN: bool;
    /// The word that begins with the bit behind a message's end.
    const MARK: Self::Word;
    /// The last two words of HMAC's outer block: how many bits the key's block and the inner digest have.
    const OUTER_BITS: [Self::Word; 2];

    /// All steps of a block, for `SETS` times `N` messages, without the sum with the state before. Always inlined.
    fn steps<V: Vectors<Self::Word, N>, const N: usize, const SETS: usize>(
        v: V,
        now: &mut [[V::V; SETS]; WORDS],
        words: &mut [[V::V; 16]; SETS],
    );
}

/// Messages side by side: `SETS` vectors of `N`, whose steps fill each other's waits. A state has `WORDS` words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets<P, const WORDS: usize, const N: usize, const SETS: usize>(pub(crate) P);

/// The states of `SETS` times `N` messages: the first words of `N`, the second words, and so on.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct States<W, const WORDS: usize, const N: usize, const SETS: usize>(
    [[[W; N]; WORDS]; SETS],
);

impl<
    F,
    P,
    const BLOCK: usize,
    const WORDS: usize,
    const N: usize,
    const SETS: usize,
    const ALL: usize,
> Compress<F, BLOCK, ALL> for Sets<P, WORDS, N, SETS>
where
    F: Steps<BLOCK, WORDS>,
    P: Vectors<F::Word, N>,
{
    type States = States<F::Word, WORDS, N, SETS>;

    #[inline(always)]
    fn fill(self, state: &[F::Word; WORDS]) -> Self::States {
        States([state.map(|word| [word; N]); SETS])
    }

    #[inline(always)]
    fn set(self, States(states): &mut Self::States, lane: usize, state: &[F::Word; WORDS]) {
        for (words, word) in states[lane / N].iter_mut().zip(state) {
            words[lane % N] = *word;
        }
    }

    #[inline(always)]
    fn state(self, States(states): &Self::States, lane: usize) -> [F::Word; WORDS] {
        std::array::from_fn(|i| states[lane / N][i][lane % N])
    }

    #[inline(always)]
    fn forward(
        self,
        States(states): &mut Self::States,
        lists: &[[&[[u8; BLOCK]]; ALL]],
        outer: Option<&Self::States>,
    ) {
        const { assert!(ALL == N * SETS, "the lanes of all sets") };
        for blocks in lists.iter().filter(|blocks| !blocks[0].is_empty()) {
            let blocks = blocks.as_chunks().0.try_into().expect("so many sets");
            let by = By::Blocks(blocks);
            self.0
                .enter(Forward::<F, BLOCK, WORDS, N, SETS> { states, by });
        }
        if let Some(States(outer)) = outer {
            let by = By::Digest(outer);
            self.0
                .enter(Forward::<F, BLOCK, WORDS, N, SETS> { states, by });
        }
    }
}

/// States to be taken forward.
struct Forward<'a, F, const BLOCK: usize, const WORDS: usize, const N: usize, const SETS: usize>
where
    F: Steps<BLOCK, WORDS>,
{
    states: &'a mut [[[F::Word; N]; WORDS]; SETS],
    by: By<'a, F::Word, BLOCK, WORDS, N, SETS>,
}

/// What takes states forward.
enum By<'a, W, const BLOCK: usize, const WORDS: usize, const N: usize, const SETS: usize> {
    /// Blocks of each message.
    Blocks(&'a [[&'a [[u8; BLOCK]]; N]; SETS]),
    /// HMAC's outer block, which holds the inner digest: the states are inner ones, and these before it.
    Digest(&'a [[[W; N]; WORDS]; SETS]),
}

impl<F, P, const BLOCK: usize, const WORDS: usize, const N: usize, const SETS: usize> Work<P>
    for Forward<'_, F, BLOCK, WORDS, N, SETS>
where
    F: Steps<BLOCK, WORDS>,
    P: Vectors<F::Word, N>,
{
    /// Both kinds of blocks take the same code: twice as much would not fit where a CPU keeps decoded instructions.
    #[inline(always)]
    fn run(self, v: P) {
        let mut now = load::<_, P, WORDS, N, SETS>(v, self.states);
        // Made once: cleared for each block, they are a call of `memset`.
        let mut words = [[v.zero(); 16]; SETS];
        let blocks = match self.by {
            By::Blocks(blocks) => blocks[0][0].len(),
            By::Digest(_) => 1,
        };
        for at in 0..blocks {
            match self.by {
                By::Blocks(blocks) => {
                    for (words, blocks) in words.iter_mut().zip(blocks) {
                        *words = v.words(blocks, at);
                        if F::BIG_ENDIAN {
                            for word in words {
                                *word = v.swap(*word);
                            }
                        }
                    }
                }
                By::Digest(outer) => {
                    // The block's words are the inner state's, as they are. Those between the mark and the length are zero still: this is the only block.
                    for (set, words) in words.iter_mut().enumerate() {
                        for (word, inner) in words.iter_mut().zip(&now) {
                            *word = inner[set];
                        }
                        words[WORDS] = v.splat(F::MARK);
                        words[14] = v.splat(F::OUTER_BITS[0]);
                        words[15] = v.splat(F::OUTER_BITS[1]);
                    }
                    now = load::<_, P, WORDS, N, SETS>(v, outer);
                }
            }
            let before = now;
            F::steps(v, &mut now, &mut words);
            for (now, before) in now.iter_mut().zip(&before) {
                for (now, before) in now.iter_mut().zip(before) {
                    *now = v.add(*now, *before);
                }
            }
        }
        for (set, states) in self.states.iter_mut().enumerate() {
            for (vectors, words) in now.iter().zip(states) {
                v.store(words, vectors[set]);
            }
        }
    }
}

/// States, from memory.
#[inline(always)]
fn load<W, P, const WORDS: usize, const N: usize, const SETS: usize>(
    v: P,
    states: &[[[W; N]; WORDS]; SETS],
) -> [[P::V; SETS]; WORDS]
where
    P: Vectors<W, N>,
{
    let mut now = [[v.zero(); SETS]; WORDS];
    for (set, states) in states.iter().enumerate() {
        for (vectors, words) in now.iter_mut().zip(states) {
            vectors[set] = v.load(words);
        }
    }
    now
}
