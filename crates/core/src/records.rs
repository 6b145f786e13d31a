//! Items that are records one behind another, each of which makes four bytes.

use crate::{Batch, BatchOut, JobError};

/// Room for items that lie apart and are computed together: 64 lookups of IPv6, 85 tuples of IPv4.
const GATHERED_BYTES: usize = 1024;

/// Runs `compute`, which makes 4 bytes of each record of `record_bytes`, on the items. Neighbours of one length whose outputs
/// fill their slots are computed by one call, for both lie without gaps. Items that end inside a record are refused, and items
/// whose slot is too short.
///
/// For a [`Kernel`](crate::Kernel) of variable shape; the items are checked to lie inside their input.
///
/// # Panics
/// If `record_bytes` is 0.
pub fn records(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    record_bytes: usize,
    mut compute: impl FnMut(&[u8], &mut [[u8; 4]]),
) {
    let made = |item_len: usize| item_len / record_bytes * 4;
    let fills = |item: &[u8], slot: usize| {
        item.len().is_multiple_of(record_bytes) && made(item.len()) == slot
    };
    if let Some((items, len)) = batch.contiguous()
        && len.is_multiple_of(record_bytes)
        && out.slot == made(len)
    {
        compute(items, out.dst.as_chunks_mut().0);
        let outcome = Ok(out.slot as u32);
        out.outcomes.extend((0..batch.len()).map(|_| outcome));
        return;
    }
    let mut next = 0;
    while next < batch.len() {
        let i = next;
        next += 1;
        let item = batch.item(i);
        if let Some((src, offsets)) = batch.offsets() {
            // Neighbours of one length whose outputs fill their slots lie without gaps, and so do their outputs.
            let fills = fills(item, out.slot);
            let is_alike = |i: &usize| fills && batch.item(*i).len() == item.len();
            let run = (i..batch.len()).take_while(is_alike).count();
            if run > 1 {
                next = i + run;
                let items = &src[offsets[i] as usize..offsets[next] as usize];
                let slots = &mut out.dst[i * out.slot..next * out.slot];
                compute(items, slots.as_chunks_mut().0);
                let outcome = Ok(out.slot as u32);
                out.outcomes.extend((0..run).map(|_| outcome));
                continue;
            }
        }
        if batch.offsets().is_none() && !item.is_empty() && fills(item, out.slot) {
            // Items that lie apart: a lookup alone is several times as slow as one among many, so short ones are gathered.
            let mut gathered = [0; GATHERED_BYTES];
            let (len, room) = (item.len(), GATHERED_BYTES / item.len());
            let is_alike = |i: &usize| batch.item(*i).len() == len;
            let run = (i..batch.len()).take(room).take_while(is_alike).count();
            if run > 1 {
                next = i + run;
                for (i, place) in (i..next).zip(gathered.chunks_exact_mut(len)) {
                    place.copy_from_slice(batch.item(i));
                }
                let slots = &mut out.dst[i * out.slot..next * out.slot];
                compute(&gathered[..run * len], slots.as_chunks_mut().0);
                let outcome = Ok(out.slot as u32);
                out.outcomes.extend((0..run).map(|_| outcome));
                continue;
            }
        }
        let slot = &mut out.dst[i * out.slot..][..out.slot];
        let outcome = match slot.get_mut(..made(item.len())) {
            _ if !item.len().is_multiple_of(record_bytes) => Err(JobError::Malformed),
            None => Err(JobError::DstTooShort),
            Some(slot) => {
                compute(item, slot.as_chunks_mut().0);
                Ok(slot.len() as u32)
            }
        };
        out.outcomes.push(outcome);
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
        let out = BatchOut {
            dst: &mut dst,
            slot: 4,
            outcomes: &mut outcomes,
        };
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
        let out = BatchOut {
            dst: &mut dst,
            slot: 4,
            outcomes: &mut outcomes,
        };
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
