//! What is computed, as data.

mod container;
mod erasure;
mod material;
mod parameters;

use std::collections::BTreeMap;
use std::fmt;

pub use container::DeflateTrailer;
pub use erasure::{BlockLoss, ErasureCode};
pub use material::Material;
#[cfg(feature = "measure")]
pub(crate) use material::{FNV_START, fnv1a64};
use parameters::rsa_private_ns;
pub use parameters::{
    ArithmeticForm, ArithmeticOperation, ArithmeticType, ChecksumForm, ChecksumLayers,
    CollationLocale, CopyMode, CrcName, Curve, DeflateFormat, Direction, HashTuple, HmacHash,
    IpFamily, LookupKeys, RsaPadding, RuleSet, SegmentationMode, SignatureScheme, UnsupportedRules,
};

/// An operator and its parameters, as data: comparable, printable.
///
/// The variants are the operators that dpb brings along. Yours is [`OpSpec::Custom`], and needs no change here:
///
/// ```
/// use std::num::NonZeroU32;
/// use std::sync::Arc;
///
/// use dpb_core::{Batch, BatchOut, Inline, JobError, Kernel, Limits, OpSpec, Operator, OutputShape};
///
/// /// The sum of an item's bytes, modulo `modulus`.
/// struct Sum(u8);
///
/// impl Kernel for Sum {
///     type Scratch = ();
///     fn scratch(&self) {}
///     fn shape(&self) -> OutputShape {
///         OutputShape::Fixed(1)
///     }
///     fn dst_len(&self, _item_len: usize) -> usize {
///         1
///     }
///     fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
///         for (i, slot) in out.slots.into_iter().enumerate() {
///             let sum = batch.item(i).iter().map(|&byte| u64::from(byte)).sum::<u64>();
///             slot[0] = (sum % u64::from(self.0)) as u8;
///         }
///         Ok(())
///     }
/// }
///
/// let spec = OpSpec::custom("sum", [("modulus", 251.into())]);
/// assert_eq!(spec.name(), "sum");
/// let mut limits = Limits::new(NonZeroU32::MIN);
/// limits.synchronous = true;
/// let operator: Arc<dyn Operator> = Arc::new(Inline::new(Sum(251), spec, limits));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpSpec {
    /// CRC-32C (Castagnoli, RFC 3720 appendix B.4). Output: four bytes, little endian, per item.
    Crc32c,
    /// CRC-32 (IEEE 802.3, as gzip and zlib have it). Output: four bytes, little endian, per item.
    Crc32,
    /// CRC-16/T10-DIF (T10 SBC-3). Output: two bytes, big endian, per item.
    Crc16T10Dif,
    /// The CRC of two joined parts, from the CRC of each part and the length of the second. Item: records of sixteen bytes, each
    /// two CRCs of four bytes and a length of eight, little endian. Output: variable, four bytes a record; an item that ends
    /// inside a record is refused.
    CrcCombine {
        /// Which CRC is combined.
        crc: CrcName,
    },
    /// The item's bytes. Output: variable, as long as the item.
    Copy {
        /// Whether the copy is written through the caches or past them.
        mode: CopyMode,
    },
    /// Arithmetic in registers. An item's first 32 bytes are the operands; a shorter item is filled up with zeros. Output: fixed,
    /// the last value of each chain, little endian.
    Arithmetic {
        /// The type of the operands.
        operand: ArithmeticType,
        /// The arithmetic operation.
        operation: ArithmeticOperation,
        /// Whether operations form one chain or several.
        form: ArithmeticForm,
        /// How many rounds of eight operations run.
        rounds: u32,
    },
    /// Compares two strings, each in half of the item, an odd last byte left out: up to a zero byte, or the half's end. Output: one
    /// byte, 0 if they are equal, 1 if the first is greater, 255 if it is less.
    Strcmp,
    /// Joins two strings, laid out as for [`OpSpec::Strcmp`]. Output: variable, both strings and a zero byte.
    Strcat,
    /// The sort key of UTF-8 text (Unicode Collation Algorithm, as CLDR has it; what is not UTF-8 counts as U+FFFD). Output:
    /// variable; keys compare as bytes.
    Strxfrm {
        /// The language whose order the keys follow.
        locale: CollationLocale,
    },
    /// MD5 (RFC 1321). Output: sixteen bytes per item.
    Md5,
    /// SHA-1 (FIPS 180-4). Output: twenty bytes per item.
    Sha1,
    /// SHA-256 (FIPS 180-4). Output: thirty-two bytes per item.
    Sha256,
    /// SHA-512 (FIPS 180-4). Output: sixty-four bytes per item.
    Sha512,
    /// HMAC (RFC 2104). Output: as many bytes per item as the hash function gives.
    Hmac {
        /// The hash function that it is built on.
        hash: HmacHash,
        /// The key, of any length.
        key: Material,
    },
    /// AES (FIPS 197) in Galois/counter mode (SP 800-38D). Item: nonce of 12 bytes, additional data, then plain text, or
    /// ciphertext and tag of 16 bytes. Output: variable, ciphertext and tag, or plain text; a wrong tag is refused.
    AesGcm {
        /// Whether the operator encrypts or decrypts.
        direction: Direction,
        /// Bytes of additional data, which are authenticated and not encrypted.
        aad_bytes: u16,
        /// 16 or 32 bytes.
        key: Material,
    },
    /// AES in counter mode (SP 800-38A), both ways the same. Item: first counter block, then text. Output: variable, the text.
    AesCtr {
        /// 16 or 32 bytes.
        key: Material,
    },
    /// AES in cipher block chaining mode (SP 800-38A), without padding. Item: initialisation vector of 16 bytes, then whole
    /// blocks. Output: variable, those blocks; an item that ends inside a block is refused.
    AesCbc {
        /// Whether the operator encrypts or decrypts.
        direction: Direction,
        /// 16 or 32 bytes.
        key: Material,
    },
    /// AES in XTS mode (IEEE 1619, SP 800-38E). Item: tweak of 16 bytes, then a data unit of one to 2^20 blocks, the last
    /// of which may be short. Output: variable, the data unit.
    AesXts {
        /// Whether the operator encrypts or decrypts.
        direction: Direction,
        /// Two different keys of 16 or 32 bytes each, the data's first.
        key: Material,
    },
    /// A signature of each item. Output: fixed, [`SignatureScheme::bytes`].
    Sign {
        /// The signature scheme.
        scheme: SignatureScheme,
        /// The private key: PKCS#8 (RFC 5208), DER.
        key: Material,
    },
    /// Whether each item, which is a signature and behind it what was signed, is genuine. Output: one byte, 1 or 0.
    Verify {
        /// The signature scheme.
        scheme: SignatureScheme,
        /// The public key: SubjectPublicKeyInfo (RFC 5280), DER.
        key: Material,
        /// The private key, as for signing. The workload makes items with it; the operator itself does not need it.
        private: Option<Material>,
    },
    /// RSAES-OAEP encryption (RFC 8017) with SHA-256 and no label. Output: variable, as long as the modulus; refuses what is
    /// longer than fits.
    RsaEncrypt {
        /// The length of the modulus in bits.
        bits: u16,
        /// The public key: SubjectPublicKeyInfo (RFC 5280), DER.
        key: Material,
        /// The private key. The workload judges outputs with it; the operator itself does not need it.
        private: Option<Material>,
    },
    /// RSAES-OAEP decryption. Output: variable; refuses what is not as long as the modulus, or was not encrypted so.
    RsaDecrypt {
        /// The length of the modulus in bits.
        bits: u16,
        /// The private key: PKCS#8 (RFC 5208), DER.
        key: Material,
    },
    /// DEFLATE compression (RFC 1951; wrapped as RFC 1950 or RFC 1952). Output: variable.
    Deflate {
        /// 1 (fast) to 9 (small).
        level: u8,
        /// What wraps the stream.
        format: DeflateFormat,
    },
    /// DEFLATE decompression. Output: variable; refuses what is malformed or longer than its slot.
    Inflate {
        /// What wraps the stream.
        format: DeflateFormat,
    },
    /// Longest prefix match of addresses, 4 or 16 bytes each in network order. Output: variable, the next hop of each, four
    /// bytes little endian, all ones if there is no route; an item that ends inside an address is refused.
    Lpm {
        /// Whether addresses are IPv4 or IPv6.
        family: IpFamily,
        /// The route list, as text: on each line a prefix and a hop.
        routes: Material,
        /// How the workload draws the addresses.
        keys: LookupKeys,
    },
    /// Changes to a table of routes. Each item is a script of route changes; the table is restored afterwards. Output: variable,
    /// for each change the hop that its prefix had before, four bytes little endian, all ones if it had none; malformed scripts
    /// are refused.
    LpmUpdate {
        /// Whether addresses are IPv4 or IPv6.
        family: IpFamily,
        /// The route list that each item starts from, as text.
        routes: Material,
    },
    /// Toeplitz hash of tuples that lie one behind another. Output: variable, the hash or queue of each, four bytes little
    /// endian; an item that ends inside a tuple is refused.
    Toeplitz {
        /// What is hashed.
        form: HashTuple,
        /// How many queues a redirection table, filled in turn, spreads hashes over; the output is a queue. With 0 it is the hash.
        queues: u16,
        /// 40 or 52 bytes.
        key: Material,
    },
    /// Which regular expressions of a rule set match, and where first. Output: variable, for each that does, in order of
    /// their ids, its id and the smallest offset at which a match of it ends, four bytes each, little endian.
    RxpMatch {
        /// The rule file: on each line `id:/expression/flags`.
        rules: Material,
        /// What the rules are for: what payloads look like.
        set: RuleSet,
        /// What to do with a rule that no automaton can match.
        unsupported: UnsupportedRules,
    },
    /// LZ77 as a block of LZ4 (`lz4_Block_format.md`). Output: variable.
    Lz4,
    /// Decodes a block of LZ4. Output: variable; refuses what is malformed or longer than its slot.
    Unlz4,
    /// Compression in Snappy's raw format (`format_description.txt`). Output: variable.
    Snappy,
    /// Decodes Snappy's raw format. Output: variable; refuses what is malformed or longer than its slot.
    Unsnappy,
    /// Encodes with canonical Huffman codes of at most eleven bits, their table in front. Output: variable, in dpb's own format.
    Huffman,
    /// Decodes what [`OpSpec::Huffman`] writes. Output: variable; refuses what is malformed or longer than its slot.
    Unhuffman,
    /// The parity blocks of an erasure code. Item: its data blocks, one behind another, each of whole units. Output: variable, its
    /// parity blocks; an item that is not such blocks is refused.
    ErasureEncode {
        /// The numbers of data and parity blocks.
        code: ErasureCode,
    },
    /// The blocks of an erasure code that are lost. Item: the first blocks that remain, as many as there are data blocks. Output:
    /// variable, the missing blocks; an item that is not such blocks is refused.
    ErasureRecover {
        /// The code, and which of its blocks are lost.
        loss: BlockLoss,
    },
    /// The Internet checksum (RFC 1071). Output: two bytes, big endian; of packets variable, refusing what is none.
    Checksum {
        /// Which bytes of an item the checksum covers.
        form: ChecksumForm,
    },
    /// Whether the checksums of an IP packet are right: IPv4's, and that of TCP or UDP. Bytes behind the packet, which pad it, count for
    /// nothing. Output: one byte, in which 1 says that the IPv4 header's is right and 2 that it is wrong, 4 and 8 say the same of the
    /// transport's, and 16 says that the item is no packet. A checksum that the packet does not have sets no bit.
    ChecksumVerify {
        /// Which checksums are looked at.
        layers: ChecksumLayers,
    },
    /// Fills in the checksums of an IP packet: IPv4's, and that of TCP or UDP. Output: variable, the packet without bytes that pad it;
    /// refuses what is no packet.
    ChecksumFill {
        /// Which checksums are filled in.
        layers: ChecksumLayers,
    },
    /// TCP segmentation of one large send. Output: variable.
    Segmentation {
        /// Bytes of payload of a segment.
        mss: u16,
        /// Whether segments are written whole or as descriptors.
        mode: SegmentationMode,
    },
    /// IP fragmentation (RFC 791, RFC 8200). Output: variable; refuses what must not be fragmented.
    Fragmentation {
        /// The longest fragment, in bytes.
        mtu: u16,
    },
    /// IP reassembly of a burst of fragments (RFC 791, RFC 8200, RFC 5722). Output: variable.
    Reassembly,
    /// Operators one behind another: the output of each is the item of the next. Output: that of the last; variable if one of them is,
    /// and an item that one refuses is refused. See [`Chain`](crate::Chain).
    Chain(Vec<OpSpec>),
    /// An operator that this crate does not know.
    Custom {
        /// A name that no other variant has.
        name: String,
        /// All parameters, also those with their usual value: equal specs compute the same.
        parameters: BTreeMap<String, ParameterValue>,
    },
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParameterValue {
    /// A level, a length, a count.
    Number(i64),
    /// A format, a name.
    Text(String),
    /// A key, a route list.
    Material(Material),
}

impl OpSpec {
    /// An [`OpSpec::Custom`] with this name and these parameters.
    pub fn custom<const N: usize>(name: &str, parameters: [(&str, ParameterValue); N]) -> Self {
        let own = |(name, value): (&str, ParameterValue)| (name.to_owned(), value);
        Self::Custom {
            name: name.to_owned(),
            parameters: parameters.into_iter().map(own).collect(),
        }
    }

    /// The name as written on a command line and in records: `crc32c`, `sha256`, `deflate`, a custom one's own.
    pub fn name(&self) -> &str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Crc16T10Dif => "crc16-t10dif",
            Self::CrcCombine { .. } => "crc-combine",
            Self::Copy { .. } => "copy",
            Self::Arithmetic { .. } => "arithmetic",
            Self::Strcmp => "strcmp",
            Self::Strcat => "strcat",
            Self::Strxfrm { .. } => "strxfrm",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Hmac { hash, .. } => match hash {
                HmacHash::Md5 => "hmac-md5",
                HmacHash::Sha1 => "hmac-sha1",
                HmacHash::Sha256 => "hmac-sha256",
                HmacHash::Sha512 => "hmac-sha512",
            },
            Self::AesGcm { direction, .. } => match direction {
                Direction::Encrypt => "aes-gcm",
                Direction::Decrypt => "aes-gcm-decrypt",
            },
            Self::AesCtr { .. } => "aes-ctr",
            Self::AesCbc { direction, .. } => match direction {
                Direction::Encrypt => "aes-cbc",
                Direction::Decrypt => "aes-cbc-decrypt",
            },
            Self::AesXts { direction, .. } => match direction {
                Direction::Encrypt => "aes-xts",
                Direction::Decrypt => "aes-xts-decrypt",
            },
            Self::Sign { scheme, .. } => match scheme {
                SignatureScheme::Rsa { .. } => "rsa-sign",
                SignatureScheme::Dsa => "dsa-sign",
                SignatureScheme::Ecdsa { .. } => "ecdsa-sign",
            },
            Self::Verify { scheme, .. } => match scheme {
                SignatureScheme::Rsa { .. } => "rsa-verify",
                SignatureScheme::Dsa => "dsa-verify",
                SignatureScheme::Ecdsa { .. } => "ecdsa-verify",
            },
            Self::RsaEncrypt { .. } => "rsa-encrypt",
            Self::RsaDecrypt { .. } => "rsa-decrypt",
            Self::Deflate { .. } => "deflate",
            Self::Inflate { .. } => "inflate",
            Self::Lpm { family, .. } => match family {
                IpFamily::V4 => "lpm4",
                IpFamily::V6 => "lpm6",
            },
            Self::LpmUpdate { family, .. } => match family {
                IpFamily::V4 => "lpm4-update",
                IpFamily::V6 => "lpm6-update",
            },
            Self::Toeplitz { .. } => "toeplitz",
            Self::RxpMatch { .. } => "rxpmatch",
            Self::Lz4 => "lz4",
            Self::Unlz4 => "unlz4",
            Self::Snappy => "snappy",
            Self::Unsnappy => "unsnappy",
            Self::Huffman => "huffman",
            Self::Unhuffman => "unhuffman",
            Self::ErasureEncode { .. } => "erasure-encode",
            Self::ErasureRecover { .. } => "erasure-recover",
            Self::Checksum { .. } => "checksum",
            Self::ChecksumVerify { .. } => "checksum-verify",
            Self::ChecksumFill { .. } => "checksum-fill",
            Self::Segmentation { .. } => "segmentation",
            Self::Fragmentation { .. } => "fragmentation",
            Self::Reassembly => "reassembly",
            Self::Chain(_) => "chain",
            Self::Custom { name, .. } => name,
        }
    }

    /// What an item costs besides its bytes, whatever its length, expressed in bytes. One such byte stands for about a nanosecond
    /// on a slow path, for making an item, running it and checking it. Most operators cost 0 here, a signature millions. Only the
    /// order of magnitude matters. Code that bounds time by bytes adds this cost.
    pub fn cost_bytes(&self) -> usize {
        match self {
            Self::Sign { scheme, .. } => scheme.sign_ns(),
            Self::Verify { scheme, .. } => scheme.verify_ns(),
            Self::RsaEncrypt { bits, .. } | Self::RsaDecrypt { bits, .. } => rsa_private_ns(*bits),
            Self::Arithmetic { rounds, .. } => *rounds as usize * 8,
            Self::Chain(stages) => stages.iter().map(Self::cost_bytes).sum(),
            _ => 0,
        }
    }

    /// Every parameter by its name, those with their usual value too: with the name they say exactly what is computed.
    pub fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        match self {
            Self::Crc32c
            | Self::Crc32
            | Self::Crc16T10Dif
            | Self::Strcmp
            | Self::Strcat
            | Self::Md5
            | Self::Sha1
            | Self::Sha256
            | Self::Sha512
            | Self::Reassembly
            | Self::Lz4
            | Self::Unlz4
            | Self::Snappy
            | Self::Unsnappy
            | Self::Huffman
            | Self::Unhuffman => Vec::new(),
            Self::Deflate { level, format } => vec![
                ("level", i64::from(*level).into()),
                ("format", format.name().into()),
            ],
            Self::Inflate { format } => vec![("format", format.name().into())],
            Self::Copy { mode } => vec![("mode", mode.name().into())],
            Self::Arithmetic {
                operand,
                operation,
                form,
                rounds,
            } => vec![
                ("type", operand.name().into()),
                ("operation", operation.name().into()),
                ("form", form.name().into()),
                ("rounds", i64::from(*rounds).into()),
            ],
            Self::Strxfrm { locale } => vec![("locale", locale.name().into())],
            Self::CrcCombine { crc } => vec![("crc", crc.name().into())],
            Self::Hmac { key, .. } => vec![("key", key.clone().into())],
            Self::AesGcm { aad_bytes, key, .. } => vec![
                ("bits", bits(key, 1)),
                ("aad", i64::from(*aad_bytes).into()),
                ("key", key.clone().into()),
            ],
            Self::AesCtr { key } | Self::AesCbc { key, .. } => {
                vec![("bits", bits(key, 1)), ("key", key.clone().into())]
            }
            Self::AesXts { key, .. } => {
                vec![("bits", bits(key, 2)), ("key", key.clone().into())]
            }
            // Who makes a verifier's items changes nothing of what it computes.
            Self::Sign { scheme, key } | Self::Verify { scheme, key, .. } => {
                let mut parameters = scheme.parameters();
                parameters.push(("key", key.clone().into()));
                parameters
            }
            Self::RsaEncrypt { bits, key, .. } | Self::RsaDecrypt { bits, key } => vec![
                ("bits", i64::from(*bits).into()),
                ("key", key.clone().into()),
            ],
            Self::ErasureEncode { code } => erasure(*code),
            Self::ErasureRecover { loss } => {
                let mut parameters = erasure(loss.code());
                parameters.push(("missing", loss.to_string().as_str().into()));
                parameters
            }
            Self::Checksum { form } => vec![("form", form.name().into())],
            Self::ChecksumVerify { layers } | Self::ChecksumFill { layers } => {
                vec![("layers", layers.name().into())]
            }
            Self::Segmentation { mss, mode } => vec![
                ("mss", i64::from(*mss).into()),
                ("mode", mode.name().into()),
            ],
            Self::Fragmentation { mtu } => vec![("mtu", i64::from(*mtu).into())],
            Self::Lpm { routes, keys, .. } => vec![
                ("routes", routes.clone().into()),
                ("keys", keys.name().into()),
            ],
            Self::LpmUpdate { routes, .. } => vec![("routes", routes.clone().into())],
            Self::Toeplitz { form, queues, key } => vec![
                ("form", form.name().into()),
                ("queues", i64::from(*queues).into()),
                ("key", key.clone().into()),
            ],
            Self::RxpMatch {
                rules,
                set,
                unsupported,
            } => vec![
                ("rules", rules.clone().into()),
                ("set", set.name().into()),
                ("unsupported", unsupported.name().into()),
            ],
            Self::Chain(stages) => {
                let stages: Vec<String> = stages.iter().map(Self::with_parameters).collect();
                vec![("stages", stages.join(" ").as_str().into())]
            }
            Self::Custom { parameters, .. } => parameters
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect(),
        }
    }
}

impl OpSpec {
    /// The name, and in brackets the parameters: `deflate(level=6,format=raw)`.
    fn with_parameters(&self) -> String {
        let parameters = self.parameters();
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        match pairs.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => self.name().to_owned(),
            pairs => format!("{}({pairs})", self.name()),
        }
    }
}

/// The length of each of the `keys` that lie one behind another in `key`.
fn bits(key: &Material, keys: usize) -> ParameterValue {
    let bits = key.bytes().len() / keys * 8;
    i64::try_from(bits).unwrap_or(i64::MAX).into()
}

/// How many blocks of each kind.
fn erasure(code: ErasureCode) -> Vec<(&'static str, ParameterValue)> {
    let number = |blocks: usize| ParameterValue::Number(blocks as i64);
    vec![
        ("data", number(code.data_blocks())),
        ("parity", number(code.parity_blocks())),
    ]
}

impl From<i64> for ParameterValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for ParameterValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Material> for ParameterValue {
    fn from(material: Material) -> Self {
        Self::Material(material)
    }
}

impl fmt::Display for OpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Material(material) => material.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_all_there_and_typed() {
        let deflate = OpSpec::Deflate {
            level: 6,
            format: DeflateFormat::Zlib,
        };
        let expected = [
            ("level", ParameterValue::Number(6)),
            ("format", ParameterValue::Text("zlib".into())),
        ];
        assert_eq!(deflate.parameters(), expected);
        assert_eq!(OpSpec::Sha256.parameters(), []);
    }

    #[test]
    fn a_custom_spec_is_its_name_and_its_parameters_in_whatever_order() {
        let a = OpSpec::custom("sum", [("modulus", 7.into()), ("sign", "plus".into())]);
        let b = OpSpec::custom("sum", [("sign", "plus".into()), ("modulus", 7.into())]);
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "sum");
        assert_eq!(
            b.parameters(),
            [("modulus", 7.into()), ("sign", "plus".into())]
        );
        assert_ne!(a, OpSpec::custom("sum", [("modulus", 7.into())]));
        assert_ne!(OpSpec::custom("crc32c", []), OpSpec::Crc32c);
    }
}
