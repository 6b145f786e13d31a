//! What an operator is run on, and what is right for it.
//!
//! [`Workload`] alone decides both. The conformance suite, the harness, `dpb op`, benches and tests take their items from it
//! and let it judge the outputs. [`Input`] is one batch of its items.
//!
//! ```
//! use dpb_core::workload::{Exact, Input, Workload};
//! use dpb_core::{JobError, OpSpec};
//!
//! // The sum of an item's bytes, modulo 256.
//! let sum = |item: &[u8], _slot_bytes: usize| {
//!     Ok(vec![item.iter().fold(0, |sum, &byte| byte.wrapping_add(sum))])
//! };
//! let workload = Exact::new(&OpSpec::custom("sum", []), "by hand", sum);
//! assert_eq!(workload.check(b"abc", Ok(&[38]), 1), Ok(()));
//! assert!(workload.check(b"abc", Ok(&[39]), 1).is_err());
//! assert!(workload.check(b"abc", Err(JobError::Malformed), 1).is_err());
//!
//! // A batch for it: four items of sixteen random bytes.
//! let input = Input::of(&workload, 7, 16, 4)?;
//! assert_eq!(input.bytes.len(), 64);
//! # Ok::<(), String>(())
//! ```

use std::fmt;

use crate::random::SplitMix64;
use crate::{Batch, Items, JobError, OpSpec};

/// The items that one spec is run on, and the judge of its outputs.
pub trait Workload: Send + Sync {
    /// The spec that the items are for.
    fn spec(&self) -> &OpSpec;

    /// The recorded name of the oracle, such as `cpu/portable`.
    fn name(&self) -> &str;

    /// User data for `count` items of `len` bytes, all of them in [`Input::bytes`], the same for the same seed: random
    /// bytes unless said otherwise; text, addresses out of a route list, keys that a table has.
    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        Input::random(seed, len, count)
    }

    /// The item that carries `plain`: `plain` itself unless said otherwise; for a decoder what its encoder makes of it,
    /// for a packet operator a packet with this payload, for addresses of four bytes as many whole ones as there are.
    /// So a person's own file feeds any operator. `plain` may have any length, also zero, and always gives a valid item.
    ///
    /// # Errors
    /// Why there is no item for it: a payload longer than a packet can be.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        Ok(plain.to_vec())
    }

    /// A description of items that carry `plain`, in a few words: `deflate of generated text`.
    fn describe(&self, plain: &str) -> String {
        plain.to_owned()
    }

    /// Bytes of a slot for what comes of an item that carries `plain_len` bytes, where the operator cannot know: a
    /// decoder's. `None`: what [`Operator::dst_len`](crate::Operator::dst_len) says.
    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        let _ = plain_len;
        None
    }

    /// The cost of an item besides its bytes: that of [`OpSpec::cost_bytes`], unless known better.
    fn cost_bytes(&self) -> usize {
        self.spec().cost_bytes()
    }

    /// What is right for `item`, which may be anything, in a slot of `slot_bytes`. That is a bound, often far beyond what
    /// is needed, so not something to allocate ahead. An output that is longer may be given whole, or is
    /// [`JobError::DstTooShort`].
    fn right(&self, item: &[u8], slot_bytes: usize) -> Right;

    /// Where [`Right::AnyValid`] are right, checks that `output` is one: an encoder's decodes back, a signature verifies.
    ///
    /// # Errors
    /// What is wrong with it.
    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let _ = (item, output);
        Err("one output is right for each item, none other can be approved".to_owned())
    }

    /// Makes an item worse, in a way that `seed` picks: by [`spoil`] unless said otherwise. Add what the format invites.
    /// What is right for the result is [`Workload::right`]'s to say.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        spoil(item, seed);
    }

    /// Judges what came of `item` in a slot of `slot_bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(
        &self,
        item: &[u8],
        output: Result<&[u8], JobError>,
        slot_bytes: usize,
    ) -> Result<(), String> {
        let right = self.right(item, slot_bytes);
        right.check(output, slot_bytes, |output| self.approve(item, output))
    }
}

/// The right outputs for an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// This output and no other.
    Only(Vec<u8>),
    /// Any output that [`Workload::approve`] accepts; each fits a slot of the operator's own `dst_len`.
    AnyValid,
    /// No output: the item is refused. With which error is the backend's choice.
    Refused(JobError),
}

/// One batch of items; a job reads all of it.
#[derive(Clone, Debug)]
pub struct Input {
    /// A description in a few words.
    pub what: String,
    /// The items' bytes.
    pub bytes: Vec<u8>,
    /// The items that the bytes split into.
    pub items: Items,
    /// Bytes of an output slot; `None` takes what the operator's `dst_len` says.
    pub slot_bytes: Option<usize>,
}

/// A workload whose every item has one right answer, which a function gives, on random bytes.
pub struct Exact<F> {
    spec: OpSpec,
    name: String,
    right: F,
}

/// Random bytes instead of the item, half of the item, one flipped bit: by turns, as `seed` goes up.
pub fn spoil(item: &mut Vec<u8>, seed: u64) {
    let mut random = SplitMix64::new(seed);
    match seed % 3 {
        0 => fill(item, &mut random),
        1 => item.truncate(item.len() / 2),
        _ if item.is_empty() => {}
        _ => {
            let at = random.below(item.len());
            item[at] ^= 1 << random.below(8);
        }
    }
}

/// The items that carry these pieces of user data.
///
/// # Errors
/// Which one the workload has no item for, and why.
pub fn fed<'a>(
    workload: &dyn Workload,
    plain: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Vec<u8>>, String> {
    let feed = |(i, plain): (usize, &[u8])| {
        let len = plain.len();
        let item = workload.encode_item(plain);
        item.map_err(|why| format!("{} of item {i}, {len} bytes: {why}", workload.spec()))
    };
    plain.into_iter().enumerate().map(feed).collect()
}

/// Makes items equally long: if their lengths differ, each becomes a copy of the first.
pub fn equalize_lengths(items: &mut [Vec<u8>]) {
    let Some((first, rest)) = items.split_first_mut() else {
        return;
    };
    if rest.iter().any(|item| item.len() != first.len()) {
        rest.fill(first.clone());
    }
}

impl Input {
    /// `count` items that carry `len` bytes each of what the workload itself makes of `seed`.
    ///
    /// # Errors
    /// If the workload has no item for `len` bytes, or the batch would have 4 GiB or more.
    pub fn of(
        workload: &dyn Workload,
        seed: u64,
        len: usize,
        count: usize,
    ) -> Result<Self, String> {
        workload.plain(seed, len, count).fed(workload)
    }

    /// `count` items of `len` uniformly random bytes.
    ///
    /// # Panics
    /// If `len` or `count` does not fit 32 bits.
    pub fn random(seed: u64, len: usize, count: usize) -> Self {
        let mut bytes = vec![0; len * count];
        fill(&mut bytes, &mut SplitMix64::new(seed));
        Self::fixed("uniformly random bytes", bytes, len, count)
    }

    /// `count` items of `len` bytes each, one after another from the start of `bytes`.
    ///
    /// # Panics
    /// If `len` or `count` does not fit 32 bits.
    pub fn fixed(what: &str, bytes: Vec<u8>, len: usize, count: usize) -> Self {
        let items = Items::fixed(
            u32::try_from(len).expect("items stay below 4 GiB"),
            u32::try_from(count).expect("fewer than 2^32 items"),
        );
        Self {
            what: what.to_owned(),
            bytes,
            items,
            slot_bytes: None,
        }
    }

    /// The items with which `workload` handles this user data, one for each of these.
    ///
    /// # Errors
    /// If the workload has no item for one of them, or the batch would have 4 GiB or more.
    pub fn fed(&self, workload: &dyn Workload) -> Result<Self, String> {
        let plain = self.batch().map_err(|error| error.to_string())?;
        let each = || (0..plain.len()).map(|i| plain.item(i));
        let items = fed(workload, each())?;
        Ok(Self {
            what: workload.describe(&self.what),
            slot_bytes: each()
                .filter_map(|plain| workload.slot_bytes(plain.len()))
                .max(),
            ..Self::laid_out(&items)?
        })
    }

    /// The items, checked.
    ///
    /// # Errors
    /// [`JobError::BadItems`].
    pub fn batch(&self) -> Result<Batch<'_>, JobError> {
        Batch::new(&self.bytes, &self.items)
    }

    /// Items one after another: equally long ones as such, others by their offsets.
    fn laid_out(items: &[Vec<u8>]) -> Result<Self, String> {
        let bytes = items.concat();
        if u32::try_from(bytes.len()).is_err() || u32::try_from(items.len()).is_err() {
            return Err("a batch of 4 GiB or more".to_owned());
        }
        let len = items.first().map_or(0, Vec::len);
        if items.iter().all(|item| item.len() == len) {
            return Ok(Self::fixed("", bytes, len, items.len()));
        }
        let items = Items::one_behind_another(items.iter().map(Vec::len));
        Ok(Self {
            what: String::new(),
            bytes,
            items,
            slot_bytes: None,
        })
    }
}

impl Right {
    /// Judges `output` in a slot of `slot_bytes`; `approve` is asked where several are right.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(
        &self,
        output: Result<&[u8], JobError>,
        slot_bytes: usize,
        approve: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        match (self, output) {
            (Self::Only(right), Ok(output)) if right == output => Ok(()),
            (Self::Only(right), Ok(output)) => Err(difference(right, output)),
            (Self::Only(right), Err(JobError::DstTooShort)) if right.len() > slot_bytes => Ok(()),
            (Self::AnyValid, Ok(output)) => approve(output),
            (Self::Refused(_), Err(_)) => Ok(()),
            (Self::Refused(error), Ok(output)) => Err(format!(
                "expected a refusal ({error}), got {}",
                brief(output)
            )),
            (_, Err(error)) => Err(format!(
                "refused ({error}) in a slot of {slot_bytes} bytes, but it is right"
            )),
        }
    }
}

impl From<Result<Vec<u8>, JobError>> for Right {
    fn from(right: Result<Vec<u8>, JobError>) -> Self {
        right.map_or_else(Self::Refused, Self::Only)
    }
}

impl<F> Exact<F>
where
    F: Fn(&[u8], usize) -> Result<Vec<u8>, JobError> + Send + Sync,
{
    /// Of `spec`; `right` gives the output for an item in a slot of the bytes that it is given (see [`Workload::right`]), on the
    /// authority of `name`.
    pub fn new(spec: &OpSpec, name: &str, right: F) -> Self {
        Self {
            spec: spec.clone(),
            name: name.to_owned(),
            right,
        }
    }
}

impl<F> Workload for Exact<F>
where
    F: Fn(&[u8], usize) -> Result<Vec<u8>, JobError> + Send + Sync,
{
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        (self.right)(item, slot_bytes).into()
    }
}

impl<F> fmt::Debug for Exact<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exact")
            .field("spec", &self.spec)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn fill(bytes: &mut [u8], random: &mut SplitMix64) {
    for word in bytes.chunks_mut(8) {
        let len = word.len();
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..len]);
    }
}

/// Where two outputs part.
fn difference(right: &[u8], output: &[u8]) -> String {
    let at = right.iter().zip(output).take_while(|(a, b)| a == b).count();
    format!(
        "expected {}, got {}: they part at byte {at}",
        brief(right),
        brief(output)
    )
}

/// Bytes, cut to what fits a line.
fn brief(bytes: &[u8]) -> String {
    match bytes {
        bytes if bytes.len() <= 40 => format!("{bytes:02x?}"),
        bytes => format!("{} bytes, {:02x?} …", bytes.len(), &bytes[..40]),
    }
}

#[cfg(test)]
mod tests;
