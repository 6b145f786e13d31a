//! What a core does by itself: arithmetic and strings.

pub mod arithmetic;
pub mod strings;
pub mod strxfrm;
