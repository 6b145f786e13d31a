//! A bound on how deep a query may nest while it is decoded: a few bytes a level from a stranger would otherwise
//! overflow the stack before any check could see them.

use std::cell::Cell;

use serde::de::{Deserialize, Deserializer, Error};

use super::DEPTH_MAX;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One level entered; left when dropped, also if decoding fails.
struct Level;

impl Level {
    fn enter() -> Option<Self> {
        DEPTH.with(|depth| {
            (depth.get() < DEPTH_MAX).then(|| {
                depth.set(depth.get() + 1);
                Self
            })
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Decodes a nested part, or refuses it for being the one level too deep.
pub(super) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let Some(_level) = Level::enter() else {
        return Err(D::Error::custom(format_args!(
            "nested deeper than {DEPTH_MAX} levels"
        )));
    };
    T::deserialize(deserializer)
}
