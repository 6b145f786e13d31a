//! Items that are records one behind another, each of which makes four bytes.

use crate::{Batch, BatchOut, JobError};

/// Room for items that lie apart and are computed together, and for their outputs: 64 lookups of IPv6, 85 tuples of IPv4.
const GATHERED_BYTES: usize = 1024;

/// Runs `compute`, which makes 4 bytes of each record of `record_bytes`, on the items. Neighbours of one length whose outputs
/// fill their slots are computed by one call, for both lie without gaps; short items that lie apart are gathered first. Items
/// that end inside a record are refused, and items whose slot is too short.
///
/// # Panics
/// If `record_bytes` is 0, or an outcome would be longer than a `u32`.
// Within its caller, so that the usual case costs a call no more than its arguments.
#[inline(always)]
pub fn records(
    batch: Batch<'_>,
    mut out: BatchOut<'_>,
    record_bytes: usize,
    mut compute: impl FnMut(&[u8], &mut [[u8; 4]]),
) {
    if let Some((items, len)) = batch.contiguous()
        && let Some((dst, slot)) = out.slots.contiguous()
        && fills(record_bytes, len, slot)
    {
        compute(items, dst.as_chunks_mut().0);
        let outcome = Ok(slot as u32);
        out.outcomes.resize(batch.len(), outcome);
        return;
    }
    in_runs(batch, out, record_bytes, compute);
}

/// True if an item is whole records whose outputs fill the slot.
#[inline(always)]
fn fills(record_bytes: usize, item_len: usize, slot: usize) -> bool {
    item_len.is_multiple_of(record_bytes) && item_len / record_bytes * 4 == slot
}

/// [`records`] for items or slots that lie apart, or are not all alike.
#[inline(never)]
fn in_runs(
    batch: Batch<'_>,
    mut out: BatchOut<'_>,
    record_bytes: usize,
    mut compute: impl FnMut(&[u8], &mut [[u8; 4]]),
) {
    let mut next = 0;
    while next < batch.len() {
        let i = next;
        let item = batch.item(i);
        let len = item.len();
        let run_of = |most: usize| {
            let items = (i..batch.len()).take(most);
            items.take_while(|&i| batch.item(i).len() == len).count()
        };
        if let Some((src, offsets)) = batch.offsets()
            && let Some((dst, slot)) = out.slots.contiguous()
            && fills(record_bytes, len, slot)
        {
            let run = run_of(batch.len());
            if run > 1 {
                next = i + run;
                let items = &src[offsets[i] as usize..offsets[next] as usize];
                compute(items, dst[i * slot..next * slot].as_chunks_mut().0);
                let outcome = Ok(slot as u32);
                out.outcomes.extend((0..run).map(|_| outcome));
                continue;
            }
        }
        let bytes = len / record_bytes * 4;
        let room = GATHERED_BYTES / len.max(bytes).max(1);
        if room > 1 && bytes > 0 && len.is_multiple_of(record_bytes) {
            // A lookup alone is several times as slow as one among many.
            let run = run_of(room);
            let fits = |&i: &usize| out.slots[i].len() >= bytes;
            let run = (i..i + run).take_while(fits).count();
            if run > 1 {
                next = i + run;
                let (mut items, mut outputs) = ([0; GATHERED_BYTES], [0; GATHERED_BYTES]);
                for (i, place) in (i..next).zip(items.chunks_exact_mut(len)) {
                    place.copy_from_slice(batch.item(i));
                }
                let outputs = &mut outputs[..run * bytes];
                compute(&items[..run * len], outputs.as_chunks_mut().0);
                for (i, output) in (i..next).zip(outputs.chunks_exact(bytes)) {
                    out.slots[i][..bytes].copy_from_slice(output);
                }
                let outcome = Ok(bytes as u32);
                out.outcomes.extend((0..run).map(|_| outcome));
                continue;
            }
        }
        let outcome = match out.slots[i].get_mut(..bytes) {
            _ if !len.is_multiple_of(record_bytes) => Err(JobError::Malformed),
            None => Err(JobError::DstTooShort),
            Some(slot) => {
                compute(item, slot.as_chunks_mut().0);
                Ok(u32::try_from(bytes).expect("made bytes fit the outcome"))
            }
        };
        out.outcomes.push(outcome);
        next = i + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;

    #[test]
    fn short_items_that_lie_apart_are_one_call() {
        let src: Vec<u8> = (0..20).collect();
        let items = Items::Strided(crate::Stride {
            start: 1,
            len: 2,
            step: 5,
            count: 4,
        });
        let batch = Batch::new(&src, &items).expect("items lie inside");
        let (mut dst, mut outcomes, mut calls) = ([0xee; 16], Vec::new(), Vec::new());
        let slots = Items::fixed(4, 4);
        let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("slots lie inside");
        records(batch, out, 2, |records, made| {
            calls.push(records.to_vec());
            for (record, made) in records.chunks(2).zip(made) {
                *made = [record[0]; 4];
            }
        });
        assert_eq!(calls, [[1, 2, 6, 7, 11, 12, 16, 17]]);
        assert_eq!(outcomes, [Ok(4); 4]);
        assert_eq!(
            dst,
            [1, 1, 1, 1, 6, 6, 6, 6, 11, 11, 11, 11, 16, 16, 16, 16]
        );
    }

    #[test]
    fn neighbours_whose_outputs_fill_their_slots_are_one_call() {
        let src: Vec<u8> = (0..16).collect();
        // Two records, one, one, half of one, one.
        let offsets: [u32; 6] = [1, 5, 7, 9, 10, 12];
        let items = Items::Offsets(offsets.into());
        let batch = Batch::new(&src, &items).expect("items lie inside");
        let (mut dst, mut outcomes, mut calls) = ([0xee; 20], Vec::new(), Vec::new());
        let slots = Items::fixed(4, 5);
        let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("slots lie inside");
        records(batch, out, 2, |records, made| {
            calls.push(records.len());
            for (record, made) in records.chunks(2).zip(made) {
                *made = [record[0]; 4];
            }
        });
        assert_eq!(calls, [4, 2]);
        let malformed = Err(JobError::Malformed);
        let expected = [Err(JobError::DstTooShort), Ok(4), Ok(4), malformed, Ok(4)];
        assert_eq!(outcomes, expected);
        assert_eq!(
            (&dst[4..12], &dst[16..]),
            (&[5, 5, 5, 5, 7, 7, 7, 7][..], &[10; 4][..])
        );
    }
}
