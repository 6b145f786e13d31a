//! The code paths of the checksum, which `checksum-verify`, `checksum-fill` and `segmentation` have too.

use super::kernel::{OfGroup, Sum};
#[cfg(target_arch = "x86_64")]
use super::lines::Lines;
use super::lines::Task;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::quarters::OfFour;
use super::{GROUP, Group, Piece, fold, portable, words};
use crate::implementation::codes;

codes! {
    pub(crate) enum Code {
        "x86_64": Avx512Vnni,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": Neon,
        Words,
        Portable,
    }
}

impl Code {
    /// True if it sums several items together.
    pub(super) fn has_vectors(self) -> bool {
        !matches!(self, Self::Words | Self::Portable)
    }

    /// Runs `task`, if this is a path with vectors.
    #[inline]
    pub(crate) fn enter<T: Task>(self, task: T) -> Option<T::Output> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(lines) => Some(lines.enter(task)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lines) => Some(lines.enter(task)),
            #[cfg(target_arch = "x86_64")]
            Self::Sse42(quarters) => Some(quarters.enter_fours(task)),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(quarters) => Some(quarters.enter_fours(task)),
            Self::Words | Self::Portable => {
                drop(task);
                None
            }
        }
    }

    /// The checksum of one piece, little endian.
    pub(super) fn checksum(self, piece: Piece<'_>) -> u16 {
        let sum = match self {
            Self::Portable => portable::sum_le(piece.bytes),
            Self::Words => words::sum(piece.bytes),
            _ => self.enter(Sum(piece.bytes)).expect("a path with vectors"),
        };
        !fold(sum + u64::from(piece.plus))
    }

    /// The checksums of the first `count` items of a group, little endian; what stands behind them means nothing.
    pub(super) fn checksums(self, group: &Group<'_>, count: usize) -> [u16; GROUP] {
        self.enter(OfGroup(group)).unwrap_or_else(|| {
            let mut checksums = [0; GROUP];
            let pieces = group.bytes.iter().zip(group.plus);
            for (checksum, (bytes, plus)) in checksums[..count].iter_mut().zip(pieces) {
                *checksum = self.checksum(Piece { bytes, plus });
            }
            checksums
        })
    }
}
