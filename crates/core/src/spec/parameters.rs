//! What operators' parameters can be: forms, modes, sizes, each with its name on the command line.

use super::ParameterValue;

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// How the addresses to look up are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKeys {
    /// Every address is equally likely; for IPv6 every address of 2000::/3, the global ones.
    Random,
    /// First a route, then an address in it. Of a random order of the routes, the *n*-th is about *n* times rarer than the first.
    Zipf,
    /// First a route, each equally likely, then an address in it.
    RouteWeighted,
}

/// What a rule set is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleSet {
    /// Intrusion prevention: attacks in HTTP requests, mail and shell sessions.
    Ips,
    /// A filter of URLs.
    Url,
    /// Comments on orders that tell of special requests: TPC-H's query 13.
    Q13,
}

/// What to do with a rule whose expression is not regular, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnsupportedRules {
    /// The rule set is refused; the error names the line.
    Refuse,
    /// The rule is left out.
    Skip,
}

/// What of a packet is hashed for receive-side scaling; everything in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashTuple {
    /// Source and destination address: 8 bytes.
    Ipv4,
    /// IPv4 addresses and ports, source first: 12 bytes.
    Ipv4Ports,
    /// Source and destination address: 32 bytes.
    Ipv6,
    /// IPv6 addresses and ports, source first: 36 bytes.
    Ipv6Ports,
}

/// Whether a cipher encrypts or decrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From plain text to ciphertext.
    Encrypt,
    /// From ciphertext to plain text.
    Decrypt,
}

/// What wraps a DEFLATE stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeflateFormat {
    /// RFC 1951, no header.
    Raw,
    /// RFC 1950.
    Zlib,
    /// RFC 1952.
    Gzip,
}

/// A CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrcName {
    /// See [`OpSpec::Crc32`](crate::OpSpec::Crc32).
    Crc32,
    /// See [`OpSpec::Crc32c`](crate::OpSpec::Crc32c).
    Crc32c,
    /// See [`OpSpec::Crc16T10Dif`](crate::OpSpec::Crc16T10Dif).
    Crc16T10Dif,
}

/// Whether a copy goes through the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMode {
    /// Through the caches.
    Cached,
    /// Past the caches.
    Streaming,
}

/// The type of the numbers in an arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticType {
    /// Eight bits, signed, wrapping; so are the other integers.
    Int8,
    /// Sixteen bits.
    Int16,
    /// Thirty-two bits.
    Int32,
    /// Sixty-four bits.
    Int64,
    /// A hundred and twenty-eight bits.
    Int128,
    /// IEEE 754, binary32.
    F32,
    /// IEEE 754, binary64.
    F64,
}

/// An arithmetic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperation {
    /// A sum.
    Add,
    /// A difference.
    Subtract,
    /// A product.
    Multiply,
    /// A quotient.
    Divide,
}

/// Whether an operation waits for the result of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticForm {
    /// Each operation needs the previous result, so latency counts.
    Dependent,
    /// Several chains run beside each other, so throughput counts.
    Independent,
}

/// The language whose order text is sorted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollationLocale {
    /// No language in particular: CLDR's root.
    Root,
    /// German, as in telephone books: umlauts as two letters.
    GermanPhonebook,
    /// Swedish: å, ä and ö behind z.
    Swedish,
}

/// A hash function under HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HmacHash {
    /// RFC 1321.
    Md5,
    /// FIPS 180-4, 6.1.
    Sha1,
    /// FIPS 180-4, 6.2.
    Sha256,
    /// FIPS 180-4, 6.4.
    Sha512,
}

/// A signature scheme with its hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureScheme {
    /// RFC 8017, with SHA-256.
    Rsa {
        /// The length of the modulus in bits.
        bits: u16,
        /// How the digest is padded to the length of the modulus.
        padding: RsaPadding,
    },
    /// FIPS 186-4, 4: primes of 2048 and 256 bits, with SHA-256.
    Dsa,
    /// FIPS 186-5, 6, with the hash function that fits the curve.
    Ecdsa {
        /// The elliptic curve.
        curve: Curve,
    },
}

/// How a digest is padded for RSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RsaPadding {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1,
    /// RSASSA-PSS, its mask by SHA-256 too, its salt as long as a digest.
    Pss,
}

/// An elliptic curve of NIST's (SP 800-186).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// With SHA-256.
    P256,
    /// With SHA-384.
    P384,
}

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumForm {
    /// The item's bytes.
    Plain,
    /// The IPv4 header at the start of the item.
    Ipv4,
    /// TCP in the IP packet that the item is, behind its pseudo header.
    Tcp,
    /// UDP in the IP packet that the item is, behind its pseudo header.
    Udp,
}

/// Which checksums of a packet are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumLayers {
    /// The IPv4 header's and the transport's.
    All,
    /// The IPv4 header's.
    Ip,
    /// That of TCP or UDP.
    Transport,
}

/// Whether segmentation writes whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentationMode {
    /// Whole segments, one after another.
    Copy,
    /// Each segment's headers, and where its payload lies: a list for an engine that gathers.
    Descriptor,
}

impl DeflateFormat {
    /// `raw`, `zlib`, `gzip`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zlib => "zlib",
            Self::Gzip => "gzip",
        }
    }
}

impl SignatureScheme {
    /// The length of a signature: RSA's is as long as the modulus; DSA's and ECDSA's are *r* and *s*, each as long as the
    /// group's order, most significant byte first (IEEE P1363).
    pub const fn bytes(self) -> usize {
        match self {
            Self::Rsa { bits, .. } => (bits as usize).div_ceil(8),
            Self::Dsa => 2 * 32,
            Self::Ecdsa { curve } => 2 * curve.bytes(),
        }
    }

    /// Sign, and verify what was signed.
    pub(super) const fn sign_ns(self) -> usize {
        match self {
            Self::Rsa { bits, .. } => rsa_private_ns(bits),
            Self::Dsa => 14_000_000,
            Self::Ecdsa { .. } => self.verify_ns() * 2,
        }
    }

    /// Sign quickly, and verify.
    pub(super) const fn verify_ns(self) -> usize {
        match self {
            Self::Rsa { bits, .. } => rsa_private_ns(bits) / 4,
            Self::Dsa => 9_000_000,
            Self::Ecdsa { curve } => match curve {
                Curve::P256 => 250_000,
                Curve::P384 => 700_000,
            },
        }
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, ParameterValue)> {
        match self {
            Self::Rsa { bits, padding } => vec![
                ("bits", i64::from(bits).into()),
                ("padding", padding.name().into()),
            ],
            Self::Dsa => Vec::new(),
            Self::Ecdsa { curve } => vec![("curve", curve.name().into())],
        }
    }
}

impl RsaPadding {
    /// `pkcs1`, `pss`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pkcs1 => "pkcs1",
            Self::Pss => "pss",
        }
    }
}

impl Curve {
    /// `p256`, `p384`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P256 => "p256",
            Self::P384 => "p384",
        }
    }

    /// The length of a number below the group's order.
    pub const fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }
}

impl CrcName {
    /// `crc32`, `crc32c`, `crc16-t10dif`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc16T10Dif => "crc16-t10dif",
        }
    }
}

impl CopyMode {
    /// `cached`, `streaming`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Streaming => "streaming",
        }
    }
}

impl ArithmeticType {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Int128,
        Self::F32,
        Self::F64,
    ];

    /// Its length.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::F32 => 4,
            Self::Int64 | Self::F64 => 8,
            Self::Int128 => 16,
        }
    }

    /// `int8` to `int128`, `f32`, `f64`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Int128 => "int128",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl ArithmeticOperation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide];

    /// `add`, `subtract`, `multiply`, `divide`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
        }
    }
}

impl ArithmeticForm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Dependent, Self::Independent];

    /// `dependent`, `independent`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dependent => "dependent",
            Self::Independent => "independent",
        }
    }
}

impl CollationLocale {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Root, Self::GermanPhonebook, Self::Swedish];

    /// As BCP 47 has it: `und`, `de-u-co-phonebk`, `sv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "und",
            Self::GermanPhonebook => "de-u-co-phonebk",
            Self::Swedish => "sv",
        }
    }
}

impl ChecksumForm {
    /// `plain`, `ipv4`, `tcp`, `udp`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Ipv4 => "ipv4",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl ChecksumLayers {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::All, Self::Ip, Self::Transport];

    /// `all`, `ip`, `transport`.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Ip => "ip",
            Self::Transport => "transport",
        }
    }
}

impl SegmentationMode {
    /// `copy`, `descriptor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Descriptor => "descriptor",
        }
    }
}

impl LookupKeys {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Random, Self::Zipf, Self::RouteWeighted];

    /// `random`, `zipf`, `route-weighted`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Zipf => "zipf",
            Self::RouteWeighted => "route-weighted",
        }
    }
}

impl RuleSet {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ips, Self::Url, Self::Q13];

    /// `ips`, `url`, `q13`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ips => "ips",
            Self::Url => "url",
            Self::Q13 => "q13",
        }
    }
}

impl UnsupportedRules {
    /// `refuse`, `skip`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
        }
    }
}

impl HashTuple {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ipv4, Self::Ipv4Ports, Self::Ipv6, Self::Ipv6Ports];

    /// Its length.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Ipv4 => 8,
            Self::Ipv4Ports => 12,
            Self::Ipv6 => 32,
            Self::Ipv6Ports => 36,
        }
    }

    /// `ipv4`, `ipv4-ports`, `ipv6`, `ipv6-ports`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv4Ports => "ipv4-ports",
            Self::Ipv6 => "ipv6",
            Self::Ipv6Ports => "ipv6-ports",
        }
    }
}

/// An operation with a private key: 2 ms at 2048 bits, and the cube of the modulus' length.
pub(super) const fn rsa_private_ns(bits: u16) -> usize {
    (bits as usize / 16).pow(3)
}
