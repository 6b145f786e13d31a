//! Verification by one key with tables of its powers.
//!
//! A library that sees a key for the first time at each signature squares its way through 256 bits of exponent. A prepared operator keeps
//! the key, so it keeps *b^(d·16^i)* of both bases too, *g* and *y*, and multiplies one power for each four bits (Brickell, Gordon,
//! McCurley and Wilson, "Fast Exponentiation with Precomputation", Eurocrypt '92): 128 products and no square.

use aws_lc_rs::digest::{SHA256, digest};

use super::numbers::{Montgomery, Number, Room};
use super::{HALF, Key};
use crate::security::asymmetric::{Verifier, refused};
use dpb_core::SetupError;

/// Digits of an exponent: four bits each.
const DIGITS: usize = 2 * HALF;
/// The digits that are not zero.
const VALUES: usize = 15;

/// The error without memory, with about as much as is needed.
const NO_MEMORY: SetupError = SetupError::OutOfMemory {
    len: 2 * DIGITS * VALUES * P_BYTES,
};
/// Bytes of *p*, as the group of keys that are made has it.
const P_BYTES: usize = 256;

/// A public key with its powers: about 500 KiB.
pub(in crate::security) struct Prepared {
    p: Montgomery,
    q: Number,
    bases: [Powers; 2],
}

impl Prepared {
    /// Of SubjectPublicKeyInfo.
    pub(in crate::security) fn new(spki: &[u8]) -> Result<Self, SetupError> {
        let numbers = Key::public(spki)?.public_numbers();
        let numbers = numbers.ok_or(NO_MEMORY)?;
        // AWS-LC's reader has looked at the group: p is odd, and g is between 0 and p. Its own verifier looks at y, each time.
        let [p, .., y] = &numbers;
        if y.is_zero() || !y.is_below(p) {
            return Err(refused("its y is not between 0 and p"));
        }
        Self::of(numbers).ok_or(NO_MEMORY)
    }

    /// `None` without memory.
    fn of([p, q, g, y]: [Number; 4]) -> Option<Self> {
        let room = &mut Room::new()?;
        let p = Montgomery::new(&p, room)?;
        let bases = [
            Powers::of(&p.enter(&g, room)?, &p, room)?,
            Powers::of(&p.enter(&y, room)?, &p, room)?,
        ];
        Some(Self { p, q, bases })
    }

    /// FIPS 186-4, 4.7. `None` if the answer is not known, for want of memory.
    fn is_genuine(&self, message: &[u8], r: &[u8], s: &[u8]) -> Option<bool> {
        let room = &mut Room::new()?;
        let (q, r, s) = (&self.q, Number::of(r)?, Number::of(s)?);
        let is_in_range = |number: &Number| !number.is_zero() && number.is_below(q);
        if !is_in_range(&r) || !is_in_range(&s) {
            return Some(false);
        }
        let inverse = s.inverse(q, room)?;
        // The digest is as long as q, so none of its bits is left out.
        let digest = Number::of(digest(&SHA256, message).as_ref())?;
        let exponents = [
            digest.times(&inverse, q, room)?,
            r.times(&inverse, q, room)?,
        ];
        let mut product: Option<Number> = None;
        let mut next = Number::new()?;
        for (powers, exponent) in self.bases.iter().zip(&exponents) {
            for power in powers.of_digits(exponent.bytes()?) {
                match &mut product {
                    None => product = Some(power.twin()?),
                    Some(product) => {
                        self.p.multiply(&mut next, product, power, room)?;
                        std::mem::swap(product, &mut next);
                    }
                }
            }
        }
        // The second exponent is not zero, as r is not.
        let v = self.p.leave(&product?, room)?.modulo(q, room)?;
        Some(!v.is_below(&r) && !r.is_below(&v))
    }
}

impl Verifier for Prepared {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let (r, s) = signature.split_at(HALF);
        self.is_genuine(message, r, s) == Some(true)
    }
}

/// Powers of a base in Montgomery's form: of each digit of an exponent, from the least significant, those of the values 1 to 15.
struct Powers(Vec<Number>);

impl Powers {
    fn of(base: &Number, p: &Montgomery, room: &mut Room) -> Option<Self> {
        let mut powers: Vec<Number> = Vec::with_capacity(DIGITS * VALUES);
        for digit in 0..DIGITS {
            let mut unit = Number::new()?;
            match digit {
                0 => unit = base.twin()?,
                // The digit's unit is that of the one before times 16: its fifteenth power, and one more.
                _ => {
                    let before = &powers[(digit - 1) * VALUES..];
                    p.multiply(&mut unit, &before[VALUES - 1], &before[0], room)?;
                }
            }
            powers.push(unit);
            for value in 1..VALUES {
                let mut power = Number::new()?;
                let of_digit = &powers[digit * VALUES..];
                p.multiply(&mut power, &of_digit[value - 1], &of_digit[0], room)?;
                powers.push(power);
            }
        }
        Some(Self(powers))
    }

    /// The powers whose product is that of an exponent, given by its bytes, the most significant first.
    fn of_digits(&self, exponent: [u8; HALF]) -> impl Iterator<Item = &Number> {
        let digits = (exponent.into_iter().rev()).flat_map(|byte| [byte & 15, byte >> 4]);
        let of_digits = self.0.chunks_exact(VALUES).zip(digits);
        of_digits.filter_map(|(powers, digit)| powers.get(usize::from(digit).checked_sub(1)?))
    }
}
