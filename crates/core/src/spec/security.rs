//! Specs of operators that protect and inspect data.

use super::{
    Direction, HmacHash, Material, OpSpec, ParameterValue, SignatureScheme, Spec, UnsupportedRules,
};
use crate::spec;

spec! {
    /// MD5 (RFC 1321). Output: sixteen bytes per item.
    pub struct Md5 = "md5";
}

spec! {
    /// SHA-1 (FIPS 180-4). Output: twenty bytes per item.
    pub struct Sha1 = "sha1";
}

spec! {
    /// SHA-256 (FIPS 180-4). Output: thirty-two bytes per item.
    pub struct Sha256 = "sha256";
}

spec! {
    /// SHA-512 (FIPS 180-4). Output: sixty-four bytes per item.
    pub struct Sha512 = "sha512";
}

/// HMAC (RFC 2104). Output: as many bytes per item as the hash function gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hmac {
    /// The hash function that it is built on.
    pub hash: HmacHash,
    /// The key, of any length.
    pub key: Material,
}

/// AES (FIPS 197) in Galois/counter mode (SP 800-38D). Item: nonce of 12 bytes, additional data, then plain text, or
/// ciphertext and tag of 16 bytes. Output: variable, ciphertext and tag, or plain text; a wrong tag is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AesGcm {
    /// Whether the operator encrypts or decrypts.
    pub direction: Direction,
    /// Bytes of additional data, which are authenticated and not encrypted.
    pub aad_bytes: u16,
    /// 16 or 32 bytes.
    pub key: Material,
}

/// AES in counter mode (SP 800-38A), both ways the same. Item: first counter block, then text. Output: variable, the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AesCtr {
    /// 16 or 32 bytes.
    pub key: Material,
}

/// AES in cipher block chaining mode (SP 800-38A), without padding. Item: initialisation vector of 16 bytes, then whole
/// blocks. Output: variable, those blocks; an item that ends inside a block is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AesCbc {
    /// Whether the operator encrypts or decrypts.
    pub direction: Direction,
    /// 16 or 32 bytes.
    pub key: Material,
}

/// AES in XTS mode (IEEE 1619, SP 800-38E). Item: tweak of 16 bytes, then a data unit of one to 2^20 blocks, the last
/// of which may be short. Output: variable, the data unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AesXts {
    /// Whether the operator encrypts or decrypts.
    pub direction: Direction,
    /// Two different keys of 16 or 32 bytes each, the data's first.
    pub key: Material,
}

/// A keyed operator ([`AesGcm`], [`AesCtr`], [`AesCbc`], [`AesXts`], [`Hmac`]) with a key for each session. Item: the number of its
/// session, four bytes, little endian, then what the operator takes. Output: variable, what the operator gives. An item of a session
/// that there is not is refused. Sessions come, change and go by the operator's [`Control`](crate::Control).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sessions {
    /// The operator that is given each key. Its own key is no session's.
    pub of: OpSpec,
    /// The keys of sessions 0, 1 and so on.
    pub keys: Vec<Material>,
}

/// A signature of each item. Output: fixed, [`SignatureScheme::bytes`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sign {
    /// The signature scheme.
    pub scheme: SignatureScheme,
    /// The private key: PKCS#8 (RFC 5208), DER.
    pub key: Material,
}

/// Whether each item, which is a signature and behind it what was signed, is genuine. Output: one byte, 1 or 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verify {
    /// The signature scheme.
    pub scheme: SignatureScheme,
    /// The public key: SubjectPublicKeyInfo (RFC 5280), DER.
    pub key: Material,
}

/// RSAES-OAEP encryption (RFC 8017) with SHA-256 and no label. Output: variable, as long as the modulus; refuses what is
/// longer than fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RsaEncrypt {
    /// The length of the modulus in bits.
    pub bits: u16,
    /// The public key: SubjectPublicKeyInfo (RFC 5280), DER.
    pub key: Material,
}

/// RSAES-OAEP decryption. Output: variable; refuses what is not as long as the modulus, or was not encrypted so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RsaDecrypt {
    /// The length of the modulus in bits.
    pub bits: u16,
    /// The private key: PKCS#8 (RFC 5208), DER.
    pub key: Material,
}

spec! {
    /// The regular expressions of a rule set that match, and where first. Output: variable, for each expression that matches, in order of
    /// their ids, its id and the smallest offset at which a match of it ends, four bytes each, little endian.
    pub struct RxpMatch = "rxpmatch" {
        /// Whether a rule that no automaton can match, because it is not regular or too large, is refused or left out.
        unsupported: UnsupportedRules = "refuse",
        file {
            /// A rule file, `id:/expression/flags` on each line; without one, the rules of `set`.
            rules,
        }
    }
}

impl Spec for Hmac {
    fn name(&self) -> &str {
        match self.hash {
            HmacHash::Md5 => "hmac-md5",
            HmacHash::Sha1 => "hmac-sha1",
            HmacHash::Sha256 => "hmac-sha256",
            HmacHash::Sha512 => "hmac-sha512",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        vec![("key", self.key.clone().into()), NO_SESSIONS]
    }
}

impl Spec for AesGcm {
    fn name(&self) -> &str {
        match self.direction {
            Direction::Encrypt => "aes-gcm",
            Direction::Decrypt => "aes-gcm-decrypt",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        vec![
            ("bits", key_bits(&self.key, 1)),
            ("aad", i64::from(self.aad_bytes).into()),
            ("key", self.key.clone().into()),
            NO_SESSIONS,
        ]
    }
}

impl Spec for AesCtr {
    fn name(&self) -> &str {
        "aes-ctr"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        keyed(&self.key, 1)
    }
}

impl Spec for AesCbc {
    fn name(&self) -> &str {
        match self.direction {
            Direction::Encrypt => "aes-cbc",
            Direction::Decrypt => "aes-cbc-decrypt",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        keyed(&self.key, 1)
    }
}

impl Spec for AesXts {
    fn name(&self) -> &str {
        match self.direction {
            Direction::Encrypt => "aes-xts",
            Direction::Decrypt => "aes-xts-decrypt",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        keyed(&self.key, 2)
    }
}

impl Spec for Sessions {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        let sessions = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut parameters = self.of.parameters();
        parameters.retain(|parameter| *parameter != NO_SESSIONS);
        parameters.push((SESSIONS, sessions.into()));
        parameters
    }

    /// The key is those of all sessions, one behind another, as the operators take them.
    fn parts(&self) -> Vec<(&str, ParameterValue)> {
        let mut parts = self.parameters();
        let bytes = self.keys.iter().map(|key| key.bytes().len()).sum();
        // Whole at once: no copy of a part is left behind where a list has grown.
        let mut keys = Vec::with_capacity(bytes);
        self.keys.iter().for_each(|key| keys.extend(key.bytes()));
        let of_key =
            |(_, value): &&mut (&str, ParameterValue)| matches!(value, ParameterValue::Material(_));
        if let Some((_, key)) = parts.iter_mut().find(of_key) {
            *key = Material::secret(keys).into();
        }
        parts
    }

    fn cost_bytes(&self) -> usize {
        self.of.cost_bytes()
    }
}

impl Spec for Sign {
    fn name(&self) -> &str {
        match self.scheme {
            SignatureScheme::Rsa { .. } => "rsa-sign",
            SignatureScheme::Dsa => "dsa-sign",
            SignatureScheme::Ecdsa { .. } => "ecdsa-sign",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        self.scheme.parameters_with(&self.key)
    }

    fn cost_bytes(&self) -> usize {
        self.scheme.sign_ns()
    }
}

impl Spec for Verify {
    fn name(&self) -> &str {
        match self.scheme {
            SignatureScheme::Rsa { .. } => "rsa-verify",
            SignatureScheme::Dsa => "dsa-verify",
            SignatureScheme::Ecdsa { .. } => "ecdsa-verify",
        }
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        self.scheme.parameters_with(&self.key)
    }

    fn cost_bytes(&self) -> usize {
        self.scheme.verify_ns()
    }
}

impl Spec for RsaEncrypt {
    fn name(&self) -> &str {
        "rsa-encrypt"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        modulus(self.bits, &self.key)
    }

    fn cost_bytes(&self) -> usize {
        rsa_private_ns(self.bits)
    }
}

impl Spec for RsaDecrypt {
    fn name(&self) -> &str {
        "rsa-decrypt"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        modulus(self.bits, &self.key)
    }

    fn cost_bytes(&self) -> usize {
        rsa_private_ns(self.bits)
    }
}

impl SignatureScheme {
    /// The cost of an item that is signed, and checked.
    const fn sign_ns(self) -> usize {
        match self {
            Self::Rsa { bits, .. } => rsa_private_ns(bits),
            Self::Dsa => 14_000_000,
            Self::Ecdsa { .. } => self.verify_ns() * 2,
        }
    }

    /// The cost of an item that is signed on a fast path, and verified.
    const fn verify_ns(self) -> usize {
        match self {
            Self::Rsa { bits, .. } => rsa_private_ns(bits) / 4,
            Self::Dsa => 9_000_000,
            Self::Ecdsa { curve } => match curve {
                super::Curve::P256 => 250_000,
                super::Curve::P384 => 700_000,
            },
        }
    }

    fn parameters_with(self, key: &Material) -> Vec<(&'static str, ParameterValue)> {
        let mut parameters = match self {
            Self::Rsa { bits, padding } => vec![
                ("bits", i64::from(bits).into()),
                ("padding", padding.name().into()),
            ],
            Self::Dsa => Vec::new(),
            Self::Ecdsa { curve } => vec![("curve", curve.name().into())],
        };
        parameters.push(("key", key.clone().into()));
        parameters
    }
}

/// The parameter that says how many sessions there are.
const SESSIONS: &str = "sessions";
/// The parameter's value where one key serves all items.
const NO_SESSIONS: (&str, ParameterValue) = (SESSIONS, ParameterValue::Number(0));

/// A key that is `keys` keys, one behind another.
fn keyed(key: &Material, keys: usize) -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("bits", key_bits(key, keys)),
        ("key", key.clone().into()),
        NO_SESSIONS,
    ]
}

/// The length of each of the `keys` that lie one behind another in `key`.
fn key_bits(key: &Material, keys: usize) -> ParameterValue {
    let bits = key.bytes().len() / keys * 8;
    i64::try_from(bits).unwrap_or(i64::MAX).into()
}

fn modulus(bits: u16, key: &Material) -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("bits", i64::from(bits).into()),
        ("key", key.clone().into()),
    ]
}

/// An operation with a private key: 2 ms at 2048 bits, and the cube of the modulus' length.
const fn rsa_private_ns(bits: u16) -> usize {
    (bits as usize / 16).pow(3)
}
