//! AES by a CPU's instructions for its rounds, written once for all instruction sets that have them (see [`blocks`]).
//!
//! A round starts in each cycle and takes three or more, so several registers are on their way at once. Of short items it is the
//! CPU that overlaps one with the next.
#![allow(
    clippy::needless_range_loop,
    reason = "several arrays are walked by the number of a register"
)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod blocks;
mod cbc;
mod counter;
mod ctr;
mod gcm;
mod hash;
mod keys;
mod lanes;
mod rounds;
#[cfg(target_arch = "x86_64")]
mod x86_64;
mod xts;

use std::any::Any;

use dpb_core::Direction;

use self::blocks::Blocks;
use self::keys::{Each, Expansion, Keys, Same, Source};
use super::form::{Form, Mode, Places, Work};
use super::{Code, Coder};
use crate::security::sessions::TOGETHER;

/// A mode with its keys, of `N` rounds and one, on the instruction set of `T`.
struct Keyed<T, const N: usize> {
    proof: T,
    form: Form,
    keys: Keys<N>,
}

/// In the mode that `form` says; `key` has a length that there is.
#[allow(private_bounds)]
pub(super) fn new<T: Blocks>(proof: T, form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Keyed::<T, 11>::new(proof, form, key),
        _ => Keyed::<T, 15>::new(proof, form, key),
    }
}

impl<T: Blocks, const N: usize> Keyed<T, N> {
    fn new(proof: T, form: Form, key: &[u8]) -> Box<Self> {
        let mut made = Box::new(Self {
            proof,
            form,
            keys: Keys::none(),
        });
        let into = &mut made.keys;
        proof.enter(Expansion { form, key, into });
        made
    }

    /// In every mode but encryption in CBC.
    #[inline(always)]
    fn with<'a, 'k>(&self, source: impl Source<'k, N>, work: Work<'a, impl Places<'a>>) {
        let (t, form) = (self.proof, self.form);
        match (form.mode, form.direction) {
            (Mode::Gcm, Direction::Encrypt) => {
                t.enter(gcm::Crypt::<_, _, N, true> { source, form, work });
            }
            (Mode::Gcm, Direction::Decrypt) => {
                t.enter(gcm::Crypt::<_, _, N, false> { source, form, work });
            }
            (Mode::Ctr, _) => t.enter(ctr::Crypt::<_, _, N> { source, form, work }),
            (Mode::Cbc, _) => t.enter(cbc::Decrypt::<_, _, N> { source, form, work }),
            (Mode::Xts, Direction::Encrypt) => {
                t.enter(xts::Crypt::<_, _, N, true> { source, form, work });
            }
            (Mode::Xts, Direction::Decrypt) => {
                t.enter(xts::Crypt::<_, _, N, false> { source, form, work });
            }
        }
    }

    fn is_chained(&self) -> bool {
        (self.form.mode, self.form.direction) == (Mode::Cbc, Direction::Encrypt)
    }
}

impl<T: Blocks, const N: usize> Coder for Keyed<T, N> {
    #[inline(always)]
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        let (form, keys) = (self.form, &self.keys);
        match self.is_chained() {
            true => self.proof.enter(cbc::Encrypt { keys, form, work }),
            false => self.with(Same(keys), work),
        }
    }

    fn keys(&self) -> Option<&dyn Any> {
        Some(&self.keys)
    }

    fn on_each<'a>(&self, keys: &[&dyn Any], work: Work<'a, impl Places<'a>>) {
        let mut each = [&self.keys; TOGETHER];
        for (each, keys) in each.iter_mut().zip(keys) {
            *each = keys.downcast_ref().expect("keys of this length");
        }
        let (form, keys) = (self.form, &each[..keys.len()]);
        match self.is_chained() {
            true => self.proof.enter(cbc::EncryptEach { keys, form, work }),
            false => self.with(Each(keys), work),
        }
    }
}
