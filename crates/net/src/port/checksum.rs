//! Checksums that the kernel leaves to the device, which a packet that it hands over does not have yet (`CHECKSUM_PARTIAL`).

use crate::packet::Sum;

/// Computes the checksum that lies `offset` bytes behind `start`, from there to the packet's end (RFC 1071). In its place is the sum of the
/// pseudo-header. What lies outside of the packet is left alone; false then.
pub(super) fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(summed) = packet.get_mut(start..) else {
        return false;
    };
    // UDP calls 0 none, and 0xFFFF means the same (RFC 768).
    let sum = match Sum::of(summed).checksum() {
        0 => 0xFFFF,
        sum => sum,
    };
    match summed.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
        Some(place) => {
            *place = sum.to_be_bytes();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of RFC 1071, section 3: the bytes 00 01 f2 03 f4 f5 f6 f7 sum to ddf2.
    #[test]
    fn the_example_of_the_rfc() {
        let mut packet = [9, 9, 0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        packet[2..4].copy_from_slice(&[0, 1]);
        let mut with_place = [&packet[..], &[0, 0]].concat();
        assert!(complete(&mut with_place, 2, 8));
        assert_eq!(with_place[10..], (!0xDDF2_u16).to_be_bytes());
        assert_eq!(with_place[..10], packet);
    }

    #[test]
    fn a_place_outside_is_left_alone() {
        let mut packet = [1, 2, 3, 4, 5];
        for (start, offset) in [(6, 0), (0, 4), (5, 0), (2, usize::MAX)] {
            assert!(!complete(&mut packet, start, offset), "{start} {offset}");
        }
        assert_eq!(packet, [1, 2, 3, 4, 5]);
        // An odd length counts as if a zero were behind it, and none is 0.
        assert!(complete(&mut packet[..3], 0, 0));
        let mut none = [0xFF, 0xFF, 0, 0];
        assert!(complete(&mut none, 0, 2) && none == [0xFF, 0xFF, 0xFF, 0xFF]);
    }
}
