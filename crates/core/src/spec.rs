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
    /// SHA-256 (FIPS 180-4). Output: thirty-two bytes per item.
    Sha256,
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

    /// The name as written on a command line and in records: `crc32c`, `sha256`, `deflate`, `inflate`, a custom one's own.
    pub fn name(&self) -> &str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Sha256 => "sha256",
            Self::Deflate { .. } => "deflate",
            Self::Inflate { .. } => "inflate",
            Self::Checksum { .. } => "checksum",
            Self::Segmentation { .. } => "segmentation",
            Self::Fragmentation { .. } => "fragmentation",
            Self::Reassembly => "reassembly",
            Self::Lz4 => "lz4",
            Self::Unlz4 => "unlz4",
            Self::Snappy => "snappy",
            Self::Unsnappy => "unsnappy",
            Self::Huffman => "huffman",
            Self::Unhuffman => "unhuffman",
            Self::Custom { name, .. } => name,
        }
    }

    /// Every parameter by its name, those with their usual value too: with the name they say exactly what is computed.
    pub fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        match self {
            Self::Crc32c
            | Self::Sha256
            | Self::Lz4
            | Self::Unlz4
            | Self::Snappy
            | Self::Unsnappy
            | Self::Huffman
            | Self::Unhuffman
            | Self::Reassembly => Vec::new(),
            Self::Deflate { level, format } => vec![
                ("level", i64::from(*level).into()),
                ("format", format.name().into()),
            ],
            Self::Inflate { format } => vec![("format", format.name().into())],
            Self::Checksum { form } => vec![("form", form.name().into())],
            Self::Segmentation { mss, mode } => vec![
                ("mss", i64::from(*mss).into()),
                ("mode", mode.name().into()),
            ],
            Self::Fragmentation { mtu } => vec![("mtu", i64::from(*mtu).into())],
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
