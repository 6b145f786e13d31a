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
mod modes;
mod rounds;
mod sessions;
#[cfg(target_arch = "x86_64")]
mod x86_64;
mod xts;

use dpb_core::{SetupError, spec};

use self::blocks::Blocks;
use self::hash::Powers;
use self::keys::{Expansion, Keys, LONG, SHORT, Same, TweakKeys};
use self::modes::Modes;
use self::sessions::PerSession;
use super::form::{Form, Mode, Places, Work};
use super::{Code, Coder};
use crate::direct::AnyKernel;
use crate::implementation::Implementation;
use crate::isa;

/// Code that is made for an instruction set.
trait Made {
    type Out;
    fn by<T: Blocks>(self, proof: T) -> Self::Out;
}

/// Makes code for the instruction set of `path`, if it is one of these and the CPU has it.
fn made<M: Made>(path: Implementation, code: M) -> Option<M::Out> {
    match path {
        #[cfg(target_arch = "x86_64")]
        Implementation::Vaes => isa::Vaes::detect().map(|proof| code.by(proof)),
        #[cfg(target_arch = "x86_64")]
        Implementation::VaesAvx2 => isa::VaesAvx2::detect().map(|proof| code.by(proof)),
        #[cfg(target_arch = "x86_64")]
        Implementation::AesNi => match isa::AesAvx::detect() {
            Some(proof) => Some(code.by(proof)),
            None => isa::AesNi::detect().map(|proof| code.by(proof)),
        },
        #[cfg(target_arch = "aarch64")]
        Implementation::ArmAes => isa::ArmAes::detect().map(|proof| code.by(proof)),
        _ => None,
    }
}

/// The code of `path` in the mode that `form` says, if it is one of these paths and the CPU has what it needs; `key` has a length that
/// there is.
pub(super) fn new(path: Implementation, form: Form, key: &[u8]) -> Option<Box<dyn Code>> {
    made(path, OneKey { form, key })
}

/// The kernel of `path` for sessions, if it is one of these paths and the CPU has what it needs.
pub(super) fn per_session(
    path: Implementation,
    sessions: &spec::Sessions,
) -> Option<Result<Box<dyn AnyKernel>, SetupError>> {
    made(path, KeyEach(sessions))
}

struct OneKey<'a> {
    form: Form,
    key: &'a [u8],
}

impl Made for OneKey<'_> {
    type Out = Box<dyn Code>;

    fn by<T: Blocks>(self, proof: T) -> Box<dyn Code> {
        let Self { form, key } = self;
        match form.mode {
            Mode::Gcm => keyed::<_, Powers>(proof, form, key),
            Mode::Ctr | Mode::Cbc => keyed::<_, ()>(proof, form, key),
            Mode::Xts => keyed::<_, TweakKeys>(proof, form, key),
        }
    }
}

struct KeyEach<'a>(&'a spec::Sessions);

impl Made for KeyEach<'_> {
    type Out = Result<Box<dyn AnyKernel>, SetupError>;

    fn by<T: Blocks>(self, proof: T) -> Self::Out {
        let (form, _) = Form::of(&self.0.of)?;
        Ok(match form.mode {
            Mode::Gcm => Box::new(PerSession::<_, Powers>::new(proof, self.0, form)?),
            Mode::Ctr | Mode::Cbc => Box::new(PerSession::<_, ()>::new(proof, self.0, form)?),
            Mode::Xts => Box::new(PerSession::<_, TweakKeys>::new(proof, self.0, form)?),
        })
    }
}

fn keyed<T: Blocks, E: Modes>(proof: T, form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Keyed::<T, E, SHORT>::new(proof, form, key),
        _ => Keyed::<T, E, LONG>::new(proof, form, key),
    }
}

/// A mode with its keys, of `N` rounds and one, on the instruction set of `T`.
struct Keyed<T, E, const N: usize> {
    proof: T,
    form: Form,
    keys: Keys<E>,
}

impl<T: Blocks, E: Modes, const N: usize> Keyed<T, E, N> {
    fn new(proof: T, form: Form, key: &[u8]) -> Box<Self> {
        let mut made = Box::new(Self {
            proof,
            form,
            keys: Keys::NONE,
        });
        let into = &mut made.keys;
        proof.enter(Expansion::<_, N> { form, key, into });
        made
    }
}

impl<T: Blocks, E: Modes, const N: usize> Coder for Keyed<T, E, N> {
    #[inline(always)]
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        E::crypt::<_, _, N>(self.proof, self.form, Same(&self.keys), work);
    }
}
