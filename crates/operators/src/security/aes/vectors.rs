//! AES by a CPU's instructions for its rounds, written once for all instruction sets that have them (see [`blocks`]).
//!
//! A round starts in each cycle and takes three or more, so several registers are on their way at once. Of short items it is the
//! CPU that overlaps one with the next.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod blocks;
mod cbc;
mod counter;
mod ctr;
mod gcm;
mod hash;
mod lanes;
mod rounds;
#[cfg(target_arch = "x86_64")]
mod x86_64;
mod xts;

use dpb_core::Direction;
use zeroize::Zeroizing;

use self::blocks::Blocks;
use self::rounds::{Expansion, Keys};
use super::form::{Form, Mode, Places, Work};
use super::{Code, Coder};
use crate::security::sessions::TOGETHER;

/// A mode with its keys, of `N` rounds and one, on the instruction set of `T`.
struct Keyed<T, const N: usize> {
    proof: T,
    form: Form,
    keys: Keys<N>,
    /// GCM's hash key.
    hash: Zeroizing<hash::Powers>,
}

/// In the mode that `form` says; `key` has a length that there is.
#[allow(private_bounds)]
pub(super) fn new<T: Blocks>(proof: T, form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Box::new(Keyed::<T, 11>::new(proof, form, key)),
        _ => Box::new(Keyed::<T, 15>::new(proof, form, key)),
    }
}

impl<T: Blocks, const N: usize> Keyed<T, N> {
    fn new(proof: T, form: Form, key: &[u8]) -> Self {
        let keys = proof.enter(Expansion { form, key });
        let hash = match form.mode {
            Mode::Gcm => proof.enter(hash::Power(&keys.data)),
            Mode::Ctr | Mode::Cbc | Mode::Xts => Zeroizing::new(hash::NONE),
        };
        Self {
            proof,
            form,
            keys,
            hash,
        }
    }

    fn gcm<'a, const ENCRYPT: bool>(&self, work: Work<'a, impl Places<'a>>) {
        self.proof.enter(gcm::Crypt::<_, N, ENCRYPT> {
            keys: &self.keys.data,
            powers: &self.hash,
            form: self.form,
            work,
        });
    }

    fn xts<'a, const ENCRYPT: bool>(&self, work: Work<'a, impl Places<'a>>) {
        self.proof.enter(xts::Crypt::<_, N, ENCRYPT> {
            keys: &self.keys,
            form: self.form,
            work,
        });
    }
}

impl<T: Blocks, const N: usize> Coder for Keyed<T, N> {
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        let (form, keys) = (self.form, &self.keys.data);
        match (form.mode, form.direction) {
            (Mode::Gcm, Direction::Encrypt) => self.gcm::<true>(work),
            (Mode::Gcm, Direction::Decrypt) => self.gcm::<false>(work),
            (Mode::Ctr, _) => self.proof.enter(ctr::Crypt { keys, form, work }),
            (Mode::Cbc, Direction::Encrypt) => self.proof.enter(cbc::Encrypt { keys, form, work }),
            (Mode::Cbc, Direction::Decrypt) => self.proof.enter(cbc::Decrypt { keys, form, work }),
            (Mode::Xts, Direction::Encrypt) => self.xts::<true>(work),
            (Mode::Xts, Direction::Decrypt) => self.xts::<false>(work),
        }
    }

    fn chained(&self) -> Option<&[[u8; 16]]> {
        let is_chained = (self.form.mode, self.form.direction) == (Mode::Cbc, Direction::Encrypt);
        is_chained.then_some(&self.keys.data[..])
    }

    fn on_each<'a>(&self, keys: &[&[[u8; 16]]], work: Work<'a, impl Places<'a>>) {
        let mut each = [&*self.keys.data; TOGETHER];
        for (each, keys) in each.iter_mut().zip(keys) {
            *each = (*keys).try_into().expect("keys of this length");
        }
        self.proof.enter(cbc::EncryptEach {
            keys: &each[..keys.len()],
            form: self.form,
            work,
        });
    }
}
