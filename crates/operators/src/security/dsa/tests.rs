//! The group is the one that its seed leads to.

use crypto_bigint::{BoxedUint, NonZero, Odd, Resize};
use sha2::{Digest, Sha256};

use super::group::{G, P, Q};

const SEED: &[u8] = b"dpb: domain parameters for DSA 2048/256, ";

/// FIPS 186-4, A.1.1.2, steps 6 and 7: *q* of a seed.
fn q_of(seed: &[u8]) -> BoxedUint {
    let mut q = Sha256::digest(seed);
    q[0] |= 0x80;
    q[31] |= 1;
    number(&q, 256)
}

/// Steps 11.1 to 11.5: the *p* that is tried at `counter`.
fn p_of(seed: &[u8], q: &BoxedUint, counter: u64) -> BoxedUint {
    let seed = number(seed, 256);
    let mut x = [0; 256];
    for (j, word) in x.rchunks_exact_mut(32).enumerate() {
        let offset = 1 + 8 * counter + j as u64;
        let seed = seed.wrapping_add(BoxedUint::from(offset).resize(256));
        word.copy_from_slice(&Sha256::digest(seed.to_be_bytes()));
    }
    x[0] |= 0x80;
    let x = number(&x, 2048);
    let double = q.resize(2048).shl_vartime(1).expect("fits");
    let remainder = x.rem_vartime(&NonZero::new(double).expect("not zero"));
    x.wrapping_sub(&remainder)
        .wrapping_add(BoxedUint::one_with_precision(2048))
}

fn number(bytes: &[u8], bits: u32) -> BoxedUint {
    BoxedUint::from_be_slice(bytes, bits).expect("so many bits")
}

fn of_hex(digits: &str, bits: u32) -> BoxedUint {
    let number = BoxedUint::from_be_hex(digits, bits);
    number.into_option().expect("so many digits")
}

fn is_prime(candidate: &BoxedUint) -> bool {
    crypto_primes::is_prime(crypto_primes::Flavor::Any, candidate)
}

#[test]
fn the_first_seed_that_leads_to_primes() {
    let seed_of = |number: u32| Sha256::digest([SEED, number.to_string().as_bytes()].concat());
    let mut seeds = (0..).map(seed_of);
    let at = seeds.position(|seed| is_prime(&q_of(&seed)));
    assert_eq!(at, Some(291));
    let seed = seed_of(291);
    let q = q_of(&seed);
    assert_eq!(q, of_hex(Q, 256));
    let is_found = |p: &BoxedUint| p.bits() == 2048 && is_prime(p);
    let mut primes = (0..).map(|counter| p_of(&seed, &q, counter));
    assert_eq!(primes.position(|p| is_found(&p)), Some(62));
    assert_eq!(p_of(&seed, &q, 62), of_hex(P, 2048));
}

/// A.2.3, with the index 1.
#[test]
fn the_generator_of_the_seed() {
    let (p, q) = (of_hex(P, 2048), of_hex(Q, 256).resize(2048));
    let one = BoxedUint::one_with_precision(2048);
    let (cofactor, rest) = p
        .wrapping_sub(&one)
        .div_rem_vartime(&NonZero::new(q.clone()).expect("not zero"));
    assert_eq!(rest, BoxedUint::zero_with_precision(2048));
    let seed = Sha256::digest([SEED, b"291"].concat());
    let w = Sha256::digest([&seed[..], b"ggen", &[1], &[0, 1]].concat());
    let modulus = Odd::new(p).expect("odd");
    let g = number(&w, 256).resize(2048).pow_mod(&cofactor, &modulus);
    assert_eq!(g, of_hex(G, 2048));
    assert_eq!(g.pow_mod(&q, &modulus), one);
    assert_ne!(g, one);
}
