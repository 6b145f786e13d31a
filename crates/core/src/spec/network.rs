//! Specs of operators on packets and streams.

use super::{
    ChecksumForm, ChecksumLayers, CopyMode, CrcName, FragmentsKept, HashTuple, IpFamily,
    SegmentationMode,
};
use crate::spec;

spec! {
    /// CRC-32C (Castagnoli, RFC 3720 appendix B.4). Output: four bytes, little endian, per item.
    pub struct Crc32c = "crc32c";
}

spec! {
    /// CRC-32 (IEEE 802.3, as gzip and zlib have it). Output: four bytes, little endian, per item.
    pub struct Crc32 = "crc32";
}

spec! {
    /// CRC-16/T10-DIF (T10 SBC-3). Output: two bytes, big endian, per item.
    pub struct Crc16T10Dif = "crc16-t10dif";
}

spec! {
    /// The CRC of two joined parts, from the CRC of each part and the length of the second. Item: records of sixteen bytes, each
    /// two CRCs of four bytes and a length of eight, little endian. Output: variable, four bytes a record; an item that ends
    /// inside a record is refused.
    pub struct CrcCombine = "crc-combine" {
        /// The CRC that is combined.
        crc: CrcName = "crc32c",
    }
}

spec! {
    /// The item's bytes. Output: variable, as long as the item.
    pub struct Copy = "copy" {
        /// Whether the copy is written through the caches or past them.
        mode: CopyMode = "cached",
    }
}

spec! {
    /// The Internet checksum (RFC 1071). Output: two bytes, big endian; of packets variable, refusing what is none.
    pub struct Checksum = "checksum" {
        /// The part that is summed: the item's bytes, or a header or the transport of the packet that the item is.
        form: ChecksumForm = "plain",
    }
}

spec! {
    /// Whether the checksums of an IP packet are right: IPv4's, and that of TCP or UDP. Bytes behind the packet, which pad it, count
    /// for nothing. Output: one byte, in which 1 says that the IPv4 header's is right and 2 that it is wrong, 4 and 8 say the same
    /// of the transport's, and 16 says that the item is no packet. A checksum that the packet does not have sets no bit.
    pub struct ChecksumVerify = "checksum-verify" {
        /// The checksums that are looked at.
        layers: ChecksumLayers = "all",
    }
}

spec! {
    /// Fills in the checksums of an IP packet: IPv4's, and that of TCP or UDP. Output: variable, the packet without bytes that pad
    /// it; refuses what is no packet.
    pub struct ChecksumFill = "checksum-fill" {
        /// The checksums that are filled in.
        layers: ChecksumLayers = "all",
    }
}

spec! {
    /// TCP segmentation of one large send. Output: variable.
    pub struct Segmentation = "segmentation" {
        /// Bytes of payload of a segment.
        mss: u16 = "1460" in 48..=65279,
        /// Whether segments are written whole, or as headers and the place of the payload.
        mode: SegmentationMode = "copy",
    }
}

spec! {
    /// IP fragmentation (RFC 791, RFC 8200). Output: variable; refuses what must not be fragmented.
    pub struct Fragmentation = "fragmentation" {
        /// The longest fragment, in bytes.
        mtu: u16 = "1500" in 68..=65535,
    }
}

spec! {
    /// IP reassembly of a burst of fragments (RFC 791, RFC 8200, RFC 5722). Output: variable.
    pub struct Reassembly = "reassembly" {
        /// The time for which fragments wait: to the end of their item, or for later items of their queue. Then each item begins with the time at
        /// which it came, eight bytes, little endian, in nanoseconds.
        keep: FragmentsKept = "item",
        /// Datagrams that wait at once; the oldest gives way to one more. Each takes about 68 KiB.
        datagrams: u16 = "64" in 1..=1024,
        /// The time for which a datagram waits after its first fragment came, in milliseconds (RFC 8200: 60 s).
        timeout_ms as "timeout-ms": u32 = "60000" in 1..=86400000,
    }
}

spec! {
    /// Longest prefix match of addresses, 4 or 16 bytes each in network order. Output: variable, the next hop of each, four
    /// bytes little endian, all ones if there is no route; an item that ends inside an address is refused.
    pub struct Lpm =
        /// Whether addresses are IPv4 or IPv6.
        family: IpFamily { V4 = "lpm4", V6 = "lpm6" } {
        file {
            /// A route list, `prefix/length hop` on each line; or `generated:N` routes, without either 10,000.
            routes,
        }
    }
}

spec! {
    /// Changes to a table of routes. Each item is a script of route changes; the table is restored afterwards. Output: variable,
    /// for each change the hop that its prefix had before, four bytes little endian, all ones if it had none; malformed scripts
    /// are refused.
    pub struct LpmUpdate =
        /// Whether addresses are IPv4 or IPv6.
        family: IpFamily { V4 = "lpm4-update", V6 = "lpm6-update" } {
        file {
            /// The route list that each item starts from, `prefix/length hop` on each line; or `generated:N` routes, without either
            /// 10,000.
            routes,
        }
    }
}

spec! {
    /// Toeplitz hash of tuples that lie one behind another. Output: variable, the hash or queue of each, four bytes little
    /// endian; an item that ends inside a tuple is refused.
    pub struct Toeplitz = "toeplitz" {
        /// The parts of a tuple.
        form: HashTuple = "ipv4-ports",
        /// The number of queues that a redirection table, filled in turn, spreads hashes over; the output is a queue. With 0 it is the
        /// hash.
        queues: u16 = "0" in 0..=512,
        file {
            /// The key, 40 or 52 bytes; without a file, Microsoft's.
            key,
        }
    }
}
