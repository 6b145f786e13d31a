//! Words and other types that parameters of operators have.

use crate::words;

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

words! {
    /// The treatment of a rule whose expression is not regular, or too large.
    pub enum UnsupportedRules {
        /// The rule set is refused; the error names the line.
        Refuse = "refuse",
        /// The rule is left out.
        Skip = "skip",
    }
}

words! {
    /// The parts of a packet that are hashed for receive-side scaling; everything in network order.
    pub enum HashTuple {
        /// Source and destination address: 8 bytes.
        Ipv4 = "ipv4",
        /// IPv4 addresses and ports, source first: 12 bytes.
        Ipv4Ports = "ipv4-ports",
        /// Source and destination address: 32 bytes.
        Ipv6 = "ipv6",
        /// IPv6 addresses and ports, source first: 36 bytes.
        Ipv6Ports = "ipv6-ports",
    }
}

words! {
    /// The time for which fragments wait for the rest of their datagram.
    pub enum FragmentsKept {
        /// To the end of their item.
        Item = "item",
        /// Until they come in a later item of the same queue, or their time is over.
        Queue = "queue",
    }
}

/// Whether a cipher encrypts or decrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From plain text to ciphertext.
    Encrypt,
    /// From ciphertext to plain text.
    Decrypt,
}

words! {
    /// The format that wraps a DEFLATE stream.
    pub enum DeflateFormat {
        /// RFC 1951, no header.
        Raw = "raw",
        /// RFC 1950.
        Zlib = "zlib",
        /// RFC 1952.
        Gzip = "gzip",
    }
}

words! {
    /// A CRC.
    pub enum CrcName {
        /// See [`Crc32`](super::Crc32).
        Crc32 = "crc32",
        /// See [`Crc32c`](super::Crc32c).
        Crc32c = "crc32c",
        /// See [`Crc16T10Dif`](super::Crc16T10Dif).
        Crc16T10Dif = "crc16-t10dif",
    }
}

words! {
    /// Whether a copy goes through the caches.
    pub enum CopyMode {
        /// Through the caches.
        Cached = "cached",
        /// Past the caches.
        Streaming = "streaming",
    }
}

words! {
    /// The type of the numbers in an arithmetic operator.
    pub enum ArithmeticType {
        /// Eight bits, signed, wrapping; so are the other integers.
        Int8 = "int8",
        /// Sixteen bits.
        Int16 = "int16",
        /// Thirty-two bits.
        Int32 = "int32",
        /// Sixty-four bits.
        Int64 = "int64",
        /// A hundred and twenty-eight bits.
        Int128 = "int128",
        /// IEEE 754, binary32.
        F32 = "f32",
        /// IEEE 754, binary64.
        F64 = "f64",
    }
}

words! {
    /// An arithmetic operation.
    pub enum ArithmeticOperation {
        /// A sum.
        Add = "add",
        /// A difference.
        Subtract = "subtract",
        /// A product.
        Multiply = "multiply",
        /// A quotient.
        Divide = "divide",
    }
}

words! {
    /// Whether an operation waits for the result of the one before.
    pub enum ArithmeticForm {
        /// Each operation needs the previous result, so latency counts.
        Dependent = "dependent",
        /// Several chains run beside each other, so throughput counts.
        Independent = "independent",
    }
}

words! {
    /// The language whose order text is sorted in.
    pub enum CollationLocale {
        /// No language in particular: CLDR's root.
        Root = "und",
        /// German, as in telephone books: umlauts as two letters.
        GermanPhonebook = "de-u-co-phonebk",
        /// Swedish: å, ä and ö behind z.
        Swedish = "sv",
    }
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
        /// The padding of the digest to the length of the modulus.
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

words! {
    /// The padding of a digest for RSA.
    pub enum RsaPadding {
        /// RSASSA-PKCS1-v1_5.
        Pkcs1 = "pkcs1",
        /// RSASSA-PSS, its mask by SHA-256 too, its salt as long as a digest.
        Pss = "pss",
    }
}

words! {
    /// An elliptic curve of NIST's (SP 800-186).
    pub enum Curve {
        /// With SHA-256.
        P256 = "p256",
        /// With SHA-384.
        P384 = "p384",
    }
}

words! {
    /// The part of an item that a checksum covers.
    pub enum ChecksumForm {
        /// The item's bytes.
        Plain = "plain",
        /// The IPv4 header at the start of the item.
        Ipv4 = "ipv4",
        /// TCP in the IP packet that the item is, behind its pseudo header.
        Tcp = "tcp",
        /// UDP in the IP packet that the item is, behind its pseudo header.
        Udp = "udp",
    }
}

words! {
    /// The checksums of a packet that are meant.
    pub enum ChecksumLayers {
        /// The IPv4 header's and the transport's.
        All = "all",
        /// The IPv4 header's.
        Ip = "ip",
        /// The checksum of TCP or UDP.
        Transport = "transport",
    }
}

words! {
    /// Whether segmentation writes whole segments.
    pub enum SegmentationMode {
        /// Whole segments, one after another.
        Copy = "copy",
        /// Each segment's headers, and where its payload lies: a list for an engine that gathers.
        Descriptor = "descriptor",
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
}

impl Curve {
    /// The length of a number below the group's order.
    pub const fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }
}

impl ArithmeticType {
    /// The length in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::F32 => 4,
            Self::Int64 | Self::F64 => 8,
            Self::Int128 => 16,
        }
    }
}

impl HashTuple {
    /// The length in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Ipv4 => 8,
            Self::Ipv4Ports => 12,
            Self::Ipv6 => 32,
            Self::Ipv6Ports => 36,
        }
    }
}
