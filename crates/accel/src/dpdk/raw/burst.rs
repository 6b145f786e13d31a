//! Bursts: items of jobs as operations with addresses.
#![allow(unsafe_code)]

use dpb_core::OutputShape;

use super::flight::{Flight, Steps};
use super::operation::{Device, Digest, Iv, Operation, Recipe, Step};
use crate::dpdk::sys::Run;

/// A burst that is being made.
pub(super) struct Burst<'a> {
    pub(super) runs: &'a mut Vec<Run>,
    /// The runs that are one operation with a vector of its own, each with its vector.
    pub(super) ivs: &'a mut Vec<(usize, [u8; 16])>,
    /// Operations that may still join it.
    pub(super) room: usize,
}

impl Burst<'_> {
    /// Makes operations of a job's items; says whether of all of them, or the burst is full.
    pub(super) fn take<D: Device, R: Recipe>(
        &mut self,
        flight: &mut Flight,
        version: &R::Version,
        place: u32,
        recipe: &R,
        device: &D,
    ) -> bool {
        let is_variable = recipe.shape() == OutputShape::Variable;
        while flight.next.0 < flight.items {
            if self.room == 0 {
                return false;
            }
            let (i, piece) = flight.next;
            // SAFETY: the item has no operation yet, or one that is staged in this burst and not submitted.
            let item = unsafe { flight.item(i) };
            let slot_len = flight.slot(i).len;
            // Looked at where it lies: to move what was just written in parts waits for all that came before.
            let step = recipe.step(version, item, slot_len, piece);
            let operation = match &step {
                Step::Run(operation) => operation,
                &Step::Known(outcome) => {
                    flight.settle(i, outcome, is_variable);
                    continue;
                }
            };
            assert!(
                device.admits(operation, item.len(), slot_len),
                "an operation within its item and its slot"
            );
            // Both operations of an item are in one burst: while the device has the first one, which in place writes to the item,
            // no reference to the item may be made.
            assert!(
                piece == 0 || !operation.has_more,
                "at most two operations for an item"
            );
            if operation.has_more && self.room == 1 {
                return false;
            }
            let item = item.as_ptr();
            self.join(flight, operation, item, place, is_variable);
        }
        true
    }

    /// Adds an operation that was admitted for the flight's next item, which begins at `item`, and with it the operations of the items behind
    /// that are alike.
    #[inline(always)]
    fn join(
        &mut self,
        flight: &mut Flight,
        operation: &Operation<'_>,
        item: *const u8,
        place: u32,
        is_variable: bool,
    ) {
        let (i, piece) = flight.next;
        // Of a vector of its own, or of several operations, there is one.
        let is_whole = piece == 0 && !operation.has_more && matches!(operation.iv, Iv::Item(_));
        let (alike, steps) = match operation.is_alike && is_whole {
            true => flight.alike(i, self.room),
            false => (1, Steps::default()),
        };
        let at = At {
            item,
            slot: flight.slot(i).ptr,
            steps,
            user: u64::from(place) << 32 | i as u64,
            n: alike,
        };
        if !operation.head.is_empty() {
            for i in i..i + alike {
                flight.slot(i).write(0, operation.head);
            }
        }
        flight.next = match operation.has_more {
            true => (i, piece + 1),
            false => (i + alike, 0),
        };
        flight.is_split |= operation.has_more;
        if is_variable && piece == 0 {
            let planned = std::iter::repeat_n(Ok(operation.planned), alike);
            flight.job.outcomes.extend(planned);
        }
        flight.running += alike as u32;
        self.room -= alike;
        if let Iv::Here(iv) = operation.iv {
            self.ivs.push((self.runs.len(), iv));
        }
        self.runs.push(run(operation, at));
    }
}

/// Items and their slots, for a run.
struct At {
    /// The first byte of the first item; and of its slot.
    item: *const u8,
    slot: *mut u8,
    steps: Steps,
    /// The job's place, and the first item.
    user: u64,
    /// The number of items.
    n: usize,
}

/// Addresses for an operation that was admitted for the first of these items, which are alike; an initialisation vector of its own is
/// to be filled in.
#[inline(always)]
fn run(operation: &Operation<'_>, at: At) -> Run {
    let Operation { src, dst, .. } = operation;
    let At {
        item, slot, steps, ..
    } = at;
    // SAFETY: all places were admitted, so they lie in the item or in the slot, or at the end of it.
    unsafe {
        let (digest, digest_step) = match operation.digest {
            Digest::Nowhere => (std::ptr::null_mut(), 0),
            Digest::Item(at) => (item.add(at).cast_mut(), steps.item),
            Digest::Slot(at) => (slot.add(at), steps.slot),
        };
        Run {
            src: item.add(src.start),
            dst: slot.add(dst.start),
            iv: match operation.iv {
                Iv::Item(at) => item.add(at),
                Iv::Here(_) => std::ptr::null(),
            },
            aad: item.add(operation.aad),
            digest,
            session: operation
                .session
                .map_or(std::ptr::null_mut(), |session| session.session.as_ptr()),
            user: at.user,
            item_step: steps.item as u64,
            slot_step: steps.slot as u64,
            digest_step: digest_step as u64,
            src_len: src.len() as u32,
            dst_len: dst.len() as u32,
            n: at.n as u32,
            unused: 0,
        }
    }
}

/// Leaves out the first operations of a run that has more.
pub(super) fn skip(run: &mut Run, n: usize) {
    let item = n * run.item_step as usize;
    // Of addresses that are none, and are not looked at, this makes others.
    run.src = run.src.wrapping_add(item);
    run.iv = run.iv.wrapping_add(item);
    run.aad = run.aad.wrapping_add(item);
    run.dst = run.dst.wrapping_add(n * run.slot_step as usize);
    run.digest = run.digest.wrapping_add(n * run.digest_step as usize);
    run.user += n as u64;
    run.n -= n as u32;
}
