//! IP packets as the operators of this scenario meet them ([`dpb_core::packet`]), and packets to measure with.

pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod workload;

pub use dpb_core::packet::{
    Burst, HEADERS_BYTES_MAX, PACKET_BYTES_MAX, Packet, PacketError, TCP, UDP, Version, in_frame,
};
pub(crate) use dpb_core::packet::{
    DESTINATION, FRAGMENT, FRAGMENT_BYTES, HOP_BY_HOP, IPV4_BYTES, IPV6_BYTES, ROUTING, extension,
    put_u16, put_u32, transport_header_bytes, u16_at, u32_at, version,
};
pub use sample::{Sample, Transport};
