//! The first 24 bits of an address looked up at once: where they alone decide, in a table with a byte for each value, *fine*;
//! and before that, where the first 20 decide, in a table of a sixteenth of the size, *coarse*, which a CPU's own caches hold.
//!
//! Where longer prefixes decide, the fine table gives the number of a child, as blocks do: so lookups enter the trie there. What a
//! byte does not hold, the trie looks up from its root. Codes are small where hops are frequent, so few lookups meet those.
use dpb_core::huge::Huge;

use super::block::Leaf;
use super::values::Values;

/// In place of a code: the trie knows. Codes are below; above, counted down from 255, are the children of the node for the first
/// 16 bits, by number.
pub(super) const ASK: u8 = 0xc0;

/// Bits that the trie's root looks up at once.
pub(super) const ROOT_BITS: u8 = 16;
/// Values of the root's bits.
pub(super) const SLOTS: usize = 1 << ROOT_BITS;
/// Bits that the coarse table looks up.
pub(super) const COARSE_BITS: u8 = 20;
/// Bits that the fine table looks up.
pub(super) const FINE_BITS: u8 = 24;
/// The start of the coarse table, behind the fine one.
pub(super) const COARSE_AT: usize = 1 << FINE_BITS;
/// Bytes of both, and enough more that four can be read where the last one is.
pub(super) const BYTES: usize = COARSE_AT + (1 << COARSE_BITS) + 64;

/// Values of the fine table's index that share the first 16 bits, and of the coarse one's.
const ROW: usize = 256;
const COARSE_ROW: usize = 16;
/// Both tables. Fresh ones take no memory until they are written.
#[derive(Debug)]
pub(super) struct Direct(Huge);

impl Direct {
    /// All codes zero.
    pub(super) fn new() -> Self {
        Self(Huge::zeroed(BYTES))
    }

    /// The fine table, the coarse one from [`COARSE_AT`], and what may be read behind it.
    #[inline]
    pub(super) fn tables(&self) -> &[u8; BYTES] {
        (&*self.0).try_into().expect("so long")
    }

    /// Sends the addresses whose first 16 bits are `slot`, and the next 8 their index here, to these leaves.
    pub(super) fn set(&mut self, slot: usize, leaves: &[Leaf; ROW]) {
        let bytes = leaves.map(byte_of);
        let (fine, coarse) = self.row(slot);
        fine.copy_from_slice(&bytes);
        for (coarse, fine) in coarse.iter_mut().zip(bytes.chunks(ROW / COARSE_ROW)) {
            *coarse = coarse_of(fine);
        }
    }

    /// Sends those addresses whose next 8 bits are among `values` to one leaf, the others where they went.
    pub(super) fn repaint(&mut self, slot: usize, values: Values, leaf: Leaf) {
        let byte = byte_of(leaf);
        let (fine, coarse) = self.row(slot);
        for (first, last) in values.runs() {
            let (first, last) = (usize::from(first), usize::from(last));
            fine[first..=last].fill(byte);
            let per = ROW / COARSE_ROW;
            for (cell, coarse) in (first / per..).zip(&mut coarse[first / per..=last / per]) {
                *coarse = coarse_of(&fine[cell * per..][..per]);
            }
        }
    }

    /// The same for all of `slot`.
    pub(super) fn fill(&mut self, slot: usize, code: Leaf) {
        let code = byte_of(code);
        let (fine, coarse) = self.row(slot);
        // Reading the small table first leaves the pages of a fresh large one unmade.
        if code == ASK || *coarse != [code; COARSE_ROW] {
            fine.fill(code);
            coarse.fill(code);
        }
    }

    /// The rows of both tables for the first 16 bits.
    fn row(&mut self, slot: usize) -> (&mut [u8; ROW], &mut [u8; COARSE_ROW]) {
        let (fine, coarse) = self.0.split_at_mut(COARSE_AT);
        let (fine, coarse) = (fine.as_chunks_mut().0, coarse.as_chunks_mut().0);
        (&mut fine[slot], &mut coarse[slot])
    }
}

impl Clone for Direct {
    fn clone(&self) -> Self {
        let mut twin = Self::new();
        let (fine, coarse) = self.tables().split_at(COARSE_AT);
        let rows = fine.as_chunks().0.iter().zip(coarse.as_chunks().0);
        for (slot, (fine, coarse)) in rows.enumerate() {
            if *coarse != [0; COARSE_ROW] {
                let (twin_fine, twin_coarse) = twin.row(slot);
                *twin_coarse = *coarse;
                *twin_fine = *fine;
            }
        }
        twin
    }
}

/// What the fine table has for an address in the high bits: a code, the number of a child counted down from 255, or [`ASK`].
#[inline(always)]
pub(super) fn code(tables: &[u8; BYTES], address: u128) -> u8 {
    tables[(address >> (128 - u32::from(FINE_BITS))) as usize]
}

/// The byte of the coarse table where the fine one has these bytes.
fn coarse_of(fine: &[u8]) -> u8 {
    let is_same = fine.iter().all(|byte| *byte == fine[0]);
    if is_same { fine[0].min(ASK) } else { ASK }
}

/// The byte for a leaf: its code, or the number of its child, or [`ASK`].
pub(super) fn byte_of(leaf: Leaf) -> u8 {
    let is_code = leaf < u32::from(ASK);
    let is_child = leaf > !u32::from(!ASK);
    if is_code || is_child { leaf as u8 } else { ASK }
}
