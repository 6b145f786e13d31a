//! Fragment by fragment, each header written anew.

use super::{DF, MF};
use crate::network::checksum::portable;
use crate::network::packet::{FRAGMENT, Packet, PacketError, Version, u16_at};

/// The fragments of `packet`, one after another.
pub(crate) fn fragment(
    packet: &[u8],
    mtu: usize,
    identification: u32,
) -> Result<Vec<u8>, PacketError> {
    let packet = Packet::parse(packet)?;
    match packet.version() {
        Version::V4 => v4(packet, mtu),
        Version::V6 => v6(packet, mtu, identification),
    }
}

fn v4(packet: Packet<'_>, mtu: usize) -> Result<Vec<u8>, PacketError> {
    if portable::checksum(packet.headers()) != 0 {
        return Err(PacketError::Checksum);
    }
    if packet.bytes().len() <= mtu {
        return Ok(packet.bytes().to_vec());
    }
    let flags_and_offset = u16_at(packet.bytes(), 6);
    if flags_and_offset & DF != 0 {
        return Err(PacketError::DontFragment);
    }
    let payload = packet.payload();
    let start = usize::from(flags_and_offset & 0x1fff) * 8;
    let ends_datagram = flags_and_offset & MF == 0;
    if start + payload.len() > 65_535 || !ends_datagram && !payload.len().is_multiple_of(8) {
        return Err(PacketError::Malformed);
    }
    let all = packet.headers()[20..].to_vec();
    let copied = copied_options(&all)?;
    let mut output = Vec::new();
    let mut done = 0;
    while done < payload.len() {
        let options = if done == 0 { &all } else { &copied };
        let room = (mtu - 20 - options.len()) / 8 * 8;
        let part = &payload[done..payload.len().min(done + room)];
        let is_end = done + part.len() == payload.len();
        let mut header = packet.headers()[..20].to_vec();
        header.extend(options);
        header[0] = 0x40 + header.len() as u8 / 4;
        let total = (header.len() + part.len()) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        let mut field = flags_and_offset & 0x8000 | ((start + done) / 8) as u16;
        if !(is_end && ends_datagram) {
            field |= MF;
        }
        header[6..8].copy_from_slice(&field.to_be_bytes());
        header[10..12].fill(0);
        let sum = portable::checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        output.extend(header);
        output.extend(part);
        done += part.len();
    }
    Ok(output)
}

/// The options with the copy bit (RFC 791, 3.1), padded with ends of options.
fn copied_options(mut options: &[u8]) -> Result<Vec<u8>, PacketError> {
    let mut copied = Vec::new();
    while let [kind, rest @ ..] = options {
        match kind {
            0 => break,
            1 => options = rest,
            kind => {
                let len = *rest.first().ok_or(PacketError::Malformed)?;
                let option = options.get(..usize::from(len));
                let option = option.filter(|_| len >= 2).ok_or(PacketError::Malformed)?;
                if kind & 0x80 != 0 {
                    copied.extend(option);
                }
                options = &options[option.len()..];
            }
        }
    }
    while copied.len() % 4 != 0 {
        copied.push(0);
    }
    Ok(copied)
}

fn v6(packet: Packet<'_>, mtu: usize, identification: u32) -> Result<Vec<u8>, PacketError> {
    let bytes = packet.bytes();
    if bytes.len() <= mtu {
        return Ok(bytes.to_vec());
    }
    if packet.is_fragment() {
        return Err(PacketError::Fragment);
    }
    let (repeated, fragmentable) = bytes.split_at(packet.per_fragment_bytes());
    let chain = packet.headers().len() + packet.transport_header_bytes() - repeated.len();
    let room = mtu.saturating_sub(repeated.len() + 8) / 8 * 8;
    if repeated.len() + 8 > 256 || room == 0 || chain > room {
        return Err(PacketError::Headers);
    }
    let mut output = Vec::new();
    for (i, part) in fragmentable.chunks(room).enumerate() {
        let at = output.len();
        let offset = i * room;
        let is_last = offset + part.len() == fragmentable.len();
        output.extend(repeated);
        let payload_bytes = (repeated.len() - 40 + 8 + part.len()) as u16;
        output[at + 4..at + 6].copy_from_slice(&payload_bytes.to_be_bytes());
        output[at + packet.next_header_at()] = FRAGMENT;
        output.extend([bytes[packet.next_header_at()], 0]);
        output.extend((offset as u16 + u16::from(!is_last)).to_be_bytes());
        output.extend(identification.to_be_bytes());
        output.extend(part);
    }
    Ok(output)
}
