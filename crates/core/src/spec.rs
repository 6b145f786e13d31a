//! What is computed, as data.

mod material;

use std::collections::BTreeMap;
use std::fmt;

pub use material::Material;
#[cfg(feature = "measure")]
pub(crate) use material::{FNV_START, fnv1a64};

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
///         for (i, slot) in out.dst.iter_mut().enumerate() {
///             let sum = batch.item(i).iter().map(|&byte| u64::from(byte)).sum::<u64>();
///             *slot = (sum % u64::from(self.0)) as u8;
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
        /// Which addresses.
        family: IpFamily,
        /// The route list, as text: on each line a prefix and a hop.
        routes: Material,
        /// How addresses are drawn for it.
        keys: LookupKeys,
    },
    /// Changes to a table of routes: each item a script, which is undone behind its last change. Output: variable, for each
    /// change the hop that its prefix had, four bytes little endian, all ones if it had none; malformed scripts are refused.
    LpmUpdate {
        /// Which addresses.
        family: IpFamily,
        /// The route list that each item starts from, as text.
        routes: Material,
    },
    /// Toeplitz hash of tuples that lie one behind another. Output: variable, the hash or queue of each, four bytes little
    /// endian; an item that ends inside a tuple is refused.
    Toeplitz {
        /// What is hashed.
        form: HashTuple,
        /// From so many queues the one of the hash, by a redirection table filled in turn; of 0 the hash itself.
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
    /// Decodes such a block. Output: variable; refuses what is malformed or longer than its slot.
    Unlz4,
    /// Snappy's raw format (`format_description.txt`). Output: variable.
    Snappy,
    /// Decodes it. Output: variable; refuses what is malformed or longer than its slot.
    Unsnappy,
    /// Canonical Huffman codes of at most eleven bits, their table in front. Output: variable, in dpb's own format.
    Huffman,
    /// Decodes it. Output: variable; refuses what is malformed or longer than its slot.
    Unhuffman,
    /// The Internet checksum (RFC 1071). Output: two bytes, big endian; of packets variable, refusing what is none.
    Checksum {
        /// What is summed.
        form: ChecksumForm,
    },
    /// TCP segmentation of one large send. Output: variable.
    Segmentation {
        /// Bytes of payload of a segment.
        mss: u16,
        /// What is written of each.
        mode: SegmentationMode,
    },
    /// IP fragmentation (RFC 791, RFC 8200). Output: variable; refuses what must not be fragmented.
    Fragmentation {
        /// The longest fragment, in bytes.
        mtu: u16,
    },
    /// IP reassembly of a burst of fragments (RFC 791, RFC 8200, RFC 5722). Output: variable.
    Reassembly,
    /// An operator that this crate does not know.
    Custom {
        /// One that no other variant has.
        name: String,
        /// All of them, those with their usual value too: equal specs compute the same.
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
    /// Every address equally likely; of IPv6 every one of 2000::/3, where all global ones are.
    Random,
    /// A route, the *n*-th of a random order about *n* times rarer than the first, then an address in it.
    Zipf,
    /// A route, each equally likely, then an address in it.
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
    /// And source and destination port: 12 bytes.
    Ipv4Ports,
    /// Source and destination address: 32 bytes.
    Ipv6,
    /// And source and destination port: 36 bytes.
    Ipv6Ports,
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

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumForm {
    /// The item's bytes.
    Plain,
    /// The IPv4 header at the start of the item.
    Ipv4,
    /// TCP in the IP packet that the item is, behind its pseudo header.
    Tcp,
    /// UDP, the same.
    Udp,
}

/// What segmentation writes of each segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentationMode {
    /// All of it, one segment after another.
    Copy,
    /// Its headers, and where its payload lies: a list for an engine that gathers.
    Descriptor,
}

impl OpSpec {
    /// [`OpSpec::Custom`], from its parts.
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
            Self::Checksum { .. } => "checksum",
            Self::Segmentation { .. } => "segmentation",
            Self::Fragmentation { .. } => "fragmentation",
            Self::Reassembly => "reassembly",
            Self::Custom { name, .. } => name,
        }
    }

    /// Every parameter by its name, those with their usual value too: with the name they say exactly what is computed.
    pub fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        match self {
            Self::Crc32c
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
            Self::Hmac { key, .. } => vec![("key", key.clone().into())],
            Self::Checksum { form } => vec![("form", form.name().into())],
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
            Self::Custom { parameters, .. } => parameters
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect(),
        }
    }
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
