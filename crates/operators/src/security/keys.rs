//! Key pairs: read from a file, or made for the run.

use std::sync::{Mutex, PoisonError};

use ::rsa::pkcs8::{
    DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, SecretDocument,
};
use ::rsa::rand_core::UnwrapErr;
use ::rsa::traits::PublicKeyParts;
use dpb_core::{Curve, Material, OpSpec, SetupError, spec::Arguments};
use getrandom::SysRng;
use p256::elliptic_curve::Generate;

use super::dsa;
use crate::entry::Case;

/// The scheme that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RSA, with a modulus of this number of bits.
    Rsa(u16),
    /// DSA, with primes of 2048 and 256 bits.
    Dsa,
    /// ECDSA, on a curve.
    Ecdsa(Curve),
}

/// A public key, and the private one if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// SubjectPublicKeyInfo (RFC 5280), DER.
    pub public: Material,
    /// PKCS#8 (RFC 5208), DER.
    pub private: Option<Material>,
}

/// The pairs that were made: one of a kind, because big ones take seconds.
static MADE: Mutex<Vec<(Kind, Pair)>> = Mutex::new(Vec::new());

impl Pair {
    /// The case of `spec`, which has the public half. Its workload has the private one.
    pub(crate) fn case(self, spec: impl Into<OpSpec>) -> Case {
        let case = Case::from(spec.into());
        match self.private {
            Some(private) => case.with_private(private),
            None => case,
        }
    }
}

impl Kind {
    /// The pair that this process made of this kind, which is as old as the process and goes with it.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    pub fn made(self) -> Pair {
        // A key is there whole or not at all.
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pair)) = made.iter().find(|(kind, _)| *kind == self) {
            return pair.clone();
        }
        let pair = self.generate();
        made.push((self, pair.clone()));
        pair
    }

    /// Reads a private or a public key: PKCS#8 or SubjectPublicKeyInfo, PEM or DER. Both are written again in the one way
    /// that all paths take.
    ///
    /// # Errors
    /// If it is none, or not of this kind. Nothing of the key is in the message.
    pub fn read(self, file: &[u8]) -> Result<Pair, String> {
        let document = match std::str::from_utf8(file) {
            Ok(text) if text.trim_start().starts_with("-----BEGIN") => {
                let document = SecretDocument::from_pem(text.trim_start());
                document.map_err(|error| format!("not PEM: {error}"))?.1
            }
            _ => SecretDocument::try_from(file).map_err(|error| format!("not DER: {error}"))?,
        };
        let der = document.as_bytes();
        match self {
            Self::Rsa(bits) => {
                let is_of_size = |key: &::rsa::RsaPublicKey| key.n().bits() == u32::from(bits);
                let of = |key: &::rsa::RsaPrivateKey| key.to_public_key();
                self.parse(der, of, is_of_size)
            }
            Self::Dsa => {
                let is_of_size = |key: &::dsa::VerifyingKey| {
                    let primes = key.components();
                    (primes.p().bits(), primes.q().bits()) == (2048, 256)
                };
                let of = |key: &::dsa::SigningKey| key.verifying_key().clone();
                self.parse(der, of, is_of_size)
            }
            Self::Ecdsa(Curve::P256) => {
                self.parse(der, p256::SecretKey::public_key, |_: &p256::PublicKey| true)
            }
            Self::Ecdsa(Curve::P384) => {
                self.parse(der, p384::SecretKey::public_key, |_: &p384::PublicKey| true)
            }
        }
    }

    /// The pair that the parameter `key` names, or the one that is made.
    pub(crate) fn given(self, given: &Arguments<'_>) -> Result<Pair, SetupError> {
        match given.file("key")? {
            None => Ok(self.made()),
            Some(file) => {
                // Overwritten when it goes.
                let file = Material::secret(file);
                let pair = self.read(file.bytes());
                pair.map_err(|what| {
                    SetupError::Parameter(format!("key={}: {what}", given.word("key")))
                })
            }
        }
    }

    /// The private half of the pair that the parameter `key` names, or of the one that is made.
    pub(crate) fn private_given(self, given: &Arguments<'_>) -> Result<Material, SetupError> {
        self.given(given)?.private.ok_or_else(|| {
            let file = given.word("key");
            SetupError::Parameter(format!(
                "key={file}: a public key; this needs the private one"
            ))
        })
    }

    fn parse<S, P>(
        self,
        der: &[u8],
        public_of: impl Fn(&S) -> P,
        is_of_size: impl Fn(&P) -> bool,
    ) -> Result<Pair, String>
    where
        S: DecodePrivateKey + EncodePrivateKey,
        P: DecodePublicKey + EncodePublicKey,
    {
        let (public, private) = match S::from_pkcs8_der(der) {
            Ok(private) => (public_of(&private), Some(private)),
            Err(private) => {
                let public = P::from_public_key_der(der);
                let public = public.map_err(|public| {
                    format!(
                        "no key of {self}: as a private one: {private}; as a public one: {public}"
                    )
                })?;
                (public, None)
            }
        };
        if !is_of_size(&public) {
            return Err(format!("a key, but of another size than {self}"));
        }
        pair(&public, private.as_ref()).ok_or_else(|| "a key that cannot be written".to_owned())
    }

    fn generate(self) -> Pair {
        let mut random = UnwrapErr(SysRng);
        let pair = match self {
            #[cfg(feature = "aws-lc")]
            Self::Rsa(bits) => {
                let private = super::rsa::aws_lc::generate(bits);
                self.read(private.bytes()).ok()
            }
            #[cfg(not(feature = "aws-lc"))]
            Self::Rsa(bits) => {
                let private = ::rsa::RsaPrivateKey::new(&mut random, bits.into()).expect("a size");
                pair(private.as_public_key(), Some(&private))
            }
            Self::Dsa => {
                let Ok(private) = ::dsa::SigningKey::try_generate_from_rng_with_components(
                    &mut random,
                    dsa::group(),
                );
                pair(private.verifying_key(), Some(&private))
            }
            Self::Ecdsa(Curve::P256) => {
                let private = p256::SecretKey::generate_from_rng(&mut random);
                pair(&private.public_key(), Some(&private))
            }
            Self::Ecdsa(Curve::P384) => {
                let private = p384::SecretKey::generate_from_rng(&mut random);
                pair(&private.public_key(), Some(&private))
            }
        };
        pair.expect("a key that was made can be written")
    }
}

fn pair<S: EncodePrivateKey, P: EncodePublicKey>(public: &P, private: Option<&S>) -> Option<Pair> {
    let secret = |private: &S| {
        let document = private.to_pkcs8_der().ok()?;
        Some(Material::secret(document.as_bytes()))
    };
    Some(Pair {
        public: Material::public(public.to_public_key_der().ok()?.into_vec()),
        private: match private {
            Some(private) => Some(secret(private)?),
            None => None,
        },
    })
}

/// `RSA with 2048 bits`, `DSA with 2048 and 256 bits`, `ECDSA on p256`.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "RSA with {bits} bits"),
            Self::Dsa => f.write_str("DSA with 2048 and 256 bits"),
            Self::Ecdsa(curve) => write!(f, "ECDSA on {}", curve.name()),
        }
    }
}
