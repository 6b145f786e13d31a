//! What a prototype adds to dpb: the operator `adler32`, and the family `card` of backends that run it.
#![forbid(unsafe_code)]

mod adler32;
mod card;

pub use adler32::{ADLER32, Adler32};
pub use card::Cards;
