//! What a core does by itself: arithmetic and strings.

#[cfg(feature = "primitive")]
pub mod arithmetic;
#[cfg(feature = "primitive")]
pub mod strings;
#[cfg(feature = "primitive")]
pub mod strxfrm;
