//! RSAES-OAEP (RFC 8017, 7.1): encryption of what is as short as a key, for the holder of a private key.
//!
#![doc = include_str!("../../../docs/rsa-oaep.md")]

use std::fmt;

use dpb_core::{
    Batch, BatchOut, JobError, Kernel, Material, OpSpec, OutputShape, Right, SetupError, Workload,
    spec::{self},
};

use super::{BITS, LIBRARIES, portable};
use crate::entry::{Case, Entry, PORTABLE, own};
use crate::implementation::Implementation;
use crate::security::asymmetric::{Decrypter, Encrypter, PATHS};
use crate::security::keys::Kind;
use crate::security::signature::{Jury, KEY_PAIR, PRIVATE_KEY, entry};

/// The registry's lines.
pub(crate) const ENCRYPT: Entry = Entry {
    name: "rsa-encrypt",
    summary: "RSAES-OAEP encryption of each item, with SHA-256",
    unit: "encryption",
    output: "variable, as long as the modulus; refuses what is longer than fits",
    source: "RFC 8017, 7.1",
    parameters: &[BITS, KEY_PAIR],
    libraries: LIBRARIES,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../../docs/rsa-oaep.md"),
    ..entry::<spec::RsaEncrypt>(
        |given| {
            let bits = given.get("bits");
            let pair = Kind::Rsa(bits).given(given)?;
            let key = pair.public.clone();
            Ok(pair.case(spec::RsaEncrypt { bits, key }))
        },
        |spec, path| {
            let spec::RsaEncrypt { bits, key } = own(spec);
            Ok(Box::new(Encrypt::new(path, *bits, key.bytes())?))
        },
        encrypting,
    )
};
pub(crate) const DECRYPT: Entry = Entry {
    name: "rsa-decrypt",
    summary: "RSAES-OAEP decryption of each item, with SHA-256",
    unit: "decryption",
    output: "variable; refuses what was not encrypted so",
    source: "RFC 8017, 7.1",
    parameters: &[BITS, PRIVATE_KEY],
    libraries: LIBRARIES,
    allocates: PATHS,
    documentation: include_str!("../../../docs/rsa-oaep.md"),
    ..entry::<spec::RsaDecrypt>(
        |given| {
            let bits = given.get("bits");
            let key = Kind::Rsa(bits).private_given(given)?;
            Ok(OpSpec::from(spec::RsaDecrypt { bits, key }).into())
        },
        |spec, path| {
            let spec::RsaDecrypt { bits, key } = own(spec);
            Ok(Box::new(Decrypt::new(path, *bits, key.bytes())?))
        },
        decrypting,
    )
};

/// Encrypts each item.
pub struct Encrypt {
    bits: u16,
    encrypter: Box<dyn Encrypter>,
}

/// Decrypts each item.
pub struct Decrypt {
    bits: u16,
    decrypter: Box<dyn Decrypter>,
}

/// The length of the modulus in bytes, which is the length of every ciphertext.
pub const fn encrypted_bytes(bits: u16) -> usize {
    (bits as usize).div_ceil(8)
}

/// The length of the longest message in bytes: shorter than the modulus by two digests and two bytes.
pub const fn message_bytes_max(bits: u16) -> usize {
    encrypted_bytes(bits) - 2 * 32 - 2
}

impl Encrypt {
    /// Makes the operator on the code path `path`, with the public key `spki` (DER), whose modulus has `bits` bits.
    ///
    /// # Errors
    /// If there is no such path here, or this is no such key.
    pub fn new(path: Implementation, bits: u16, spki: &[u8]) -> Result<Self, SetupError> {
        let encrypter: Box<dyn Encrypter> = match path {
            Implementation::Portable => Box::new(portable::public(bits, spki)?),
            #[cfg(feature = "aws-lc")]
            Implementation::AwsLc => super::aws_lc::encrypter(bits, spki)?,
            _ => return Err(path.missing("rsa-encrypt", PATHS)),
        };
        Ok(Self { bits, encrypter })
    }

    /// `message` for the holder of the private key; each time different.
    ///
    /// # Errors
    /// [`JobError::TooLong`] beyond [`message_bytes_max`], [`JobError::Device`] if the library cannot.
    pub fn encrypted(&self, message: &[u8]) -> Result<Vec<u8>, JobError> {
        let mut item = vec![0; encrypted_bytes(self.bits)];
        self.encrypt(message, &mut item)?;
        Ok(item)
    }

    fn encrypt(&self, message: &[u8], slot: &mut [u8]) -> Result<u32, JobError> {
        if message.len() > message_bytes_max(self.bits) {
            return Err(JobError::TooLong);
        }
        let len = encrypted_bytes(self.bits);
        let slot = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
        self.encrypter.encrypt(message, slot)?;
        Ok(len as u32)
    }
}

impl Decrypt {
    /// Makes the operator on the code path `path`, with the private key `pkcs8` (DER), whose modulus has `bits` bits.
    ///
    /// # Errors
    /// If there is no such path here, or this is no such key.
    pub fn new(path: Implementation, bits: u16, pkcs8: &[u8]) -> Result<Self, SetupError> {
        let decrypter: Box<dyn Decrypter> = match path {
            Implementation::Portable => Box::new(portable::private(bits, pkcs8)?),
            #[cfg(feature = "aws-lc")]
            Implementation::AwsLc => super::aws_lc::decrypter(bits, pkcs8)?,
            _ => return Err(path.missing("rsa-decrypt", PATHS)),
        };
        Ok(Self { bits, decrypter })
    }

    /// The message of a ciphertext.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if nothing was, so; why is not said.
    pub fn decrypted(&self, item: &[u8]) -> Result<Vec<u8>, JobError> {
        let is_long_enough = item.len() == encrypted_bytes(self.bits);
        let message = is_long_enough.then(|| self.decrypter.decrypt(item));
        message.flatten().ok_or(JobError::Malformed)
    }

    fn decrypt(&self, item: &[u8], slot: &mut [u8]) -> Result<u32, JobError> {
        let message = self.decrypted(item)?;
        let slot = slot.get_mut(..message.len());
        slot.ok_or(JobError::DstTooShort)?.copy_from_slice(&message);
        Ok(message.len() as u32)
    }
}

impl Kernel for Encrypt {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        encrypted_bytes(self.bits)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| self.encrypt(item, slot));
        Ok(())
    }
}

impl Kernel for Decrypt {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        message_bytes_max(self.bits)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| self.decrypt(item, slot));
        Ok(())
    }
}

/// The items of an encrypting spec: as much of any bytes as fits. The private key tells what is right.
struct Encrypting {
    spec: OpSpec,
    bits: u16,
    /// The judges, if the private key is known.
    judges: Option<Jury<Decrypt>>,
}

/// The items of a decrypting spec: encryptions of as much of any bytes as fits.
struct Decrypting {
    spec: OpSpec,
    bits: u16,
    encrypter: Encrypt,
    oracle: Decrypt,
}

fn encrypting(case: &Case) -> Result<Box<dyn Workload>, SetupError> {
    let spec::RsaEncrypt { bits, .. } = own(&case.spec);
    let judges = |private: &Material| Jury::new(|path| Decrypt::new(path, *bits, private.bytes()));
    Ok(Box::new(Encrypting {
        spec: case.spec.clone(),
        bits: *bits,
        judges: case.private().map(judges).transpose()?,
    }))
}

fn decrypting(case: &Case) -> Result<Box<dyn Workload>, SetupError> {
    let spec::RsaDecrypt { bits, key } = own(&case.spec);
    let pair = Kind::Rsa(*bits).read(key.bytes());
    let public = pair.map_err(SetupError::Parameter)?.public;
    Ok(Box::new(Decrypting {
        spec: case.spec.clone(),
        bits: *bits,
        encrypter: Encrypt::new(Implementation::best(PATHS), *bits, public.bytes())?,
        oracle: Decrypt::new(Implementation::Portable, *bits, key.bytes())?,
    }))
}

/// The part of `plain` that fits.
fn cut(plain: &[u8], bits: u16) -> &[u8] {
    &plain[..plain.len().min(message_bytes_max(bits))]
}

fn described(plain: &str, bits: u16) -> String {
    format!("{plain}, {} bytes at most", message_bytes_max(bits))
}

impl Workload for Encrypting {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        self.judges.as_ref().map_or(PORTABLE, |judges| &judges.name)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        Ok(cut(plain, self.bits).to_vec())
    }

    fn describe(&self, plain: &str) -> String {
        described(plain, self.bits)
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        match item.len() > message_bytes_max(self.bits) {
            true => Right::Refused(JobError::TooLong),
            false => Right::AnyValid,
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let judges = self.judges.as_ref().ok_or(
            "only the public key is known, by which nothing can be checked; give the private one",
        )?;
        judges.ask(|judge| match judge.decrypted(output) {
            Ok(again) if again == item => Ok(()),
            Ok(_) => Err("it decrypts to something else".to_owned()),
            Err(error) => Err(format!("it does not decrypt: {error}")),
        })
    }

    /// Longer than fits, now and then: nothing else is wrong for an encrypter.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        match seed % 2 {
            0 => item.resize(message_bytes_max(self.bits) + 1, 0),
            _ => dpb_core::workload::spoil(item, seed),
        }
    }
}

impl Workload for Decrypting {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let item = self.encrypter.encrypted(cut(plain, self.bits));
        item.map_err(|error| error.to_string())
    }

    fn describe(&self, plain: &str) -> String {
        format!("RSAES-OAEP of {}", described(plain, self.bits))
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        self.oracle.decrypted(item).into()
    }
}

impl fmt::Debug for Encrypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypt")
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Decrypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypt")
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}
