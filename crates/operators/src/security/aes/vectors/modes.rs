//! Which code a mode has.

use dpb_core::Direction;

use super::blocks::Blocks;
use super::hash::Powers;
use super::keys::{Extra, Source, TweakKeys};
use super::{cbc, ctr, gcm, xts};
use crate::security::aes::form::{Form, Mode, Places, Work};

/// Modes by what they need of a key besides its round keys.
pub(super) trait Modes: Extra {
    /// Encrypts or decrypts items in the mode that `form` says.
    fn crypt<'a, 'k, T, S, const N: usize>(
        t: T,
        form: Form,
        source: S,
        work: Work<'a, impl Places<'a>>,
    ) where
        T: Blocks,
        S: Source<'k, Self, N>;
}

/// CTR and CBC.
impl Modes for () {
    #[inline(always)]
    fn crypt<'a, 'k, T, S, const N: usize>(
        t: T,
        form: Form,
        source: S,
        work: Work<'a, impl Places<'a>>,
    ) where
        T: Blocks,
        S: Source<'k, Self, N>,
    {
        match (form.mode, form.direction) {
            (Mode::Cbc, Direction::Encrypt) => {
                t.enter(cbc::Encrypt::<_, _, N> { source, form, work });
            }
            (Mode::Cbc, Direction::Decrypt) => {
                t.enter(cbc::Decrypt::<_, _, N> { source, form, work });
            }
            _ => t.enter(ctr::Crypt::<_, _, N> { source, form, work }),
        }
    }
}

impl Modes for Powers {
    #[inline(always)]
    fn crypt<'a, 'k, T, S, const N: usize>(
        t: T,
        form: Form,
        source: S,
        work: Work<'a, impl Places<'a>>,
    ) where
        T: Blocks,
        S: Source<'k, Self, N>,
    {
        match form.direction {
            Direction::Encrypt => t.enter(gcm::Crypt::<_, _, N, true> { source, form, work }),
            Direction::Decrypt => t.enter(gcm::Crypt::<_, _, N, false> { source, form, work }),
        }
    }
}

impl Modes for TweakKeys {
    #[inline(always)]
    fn crypt<'a, 'k, T, S, const N: usize>(
        t: T,
        form: Form,
        source: S,
        work: Work<'a, impl Places<'a>>,
    ) where
        T: Blocks,
        S: Source<'k, Self, N>,
    {
        match form.direction {
            Direction::Encrypt => t.enter(xts::Crypt::<_, _, N, true> { source, form, work }),
            Direction::Decrypt => t.enter(xts::Crypt::<_, _, N, false> { source, form, work }),
        }
    }
}
