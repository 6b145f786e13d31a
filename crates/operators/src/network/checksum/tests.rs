//! The checksum against the RFCs' examples and another implementation, on every path.

use etherparse::checksum::Sum16BitWords;
use proptest::prelude::*;

use super::*;
use crate::network::packet::tests::{ACK, bytes, chained, received, samples};
use crate::network::packet::{Sample, Transport, put_u16};

const FORMS: [ChecksumForm; 4] = [
    ChecksumForm::Plain,
    ChecksumForm::Ipv4,
    ChecksumForm::Tcp,
    ChecksumForm::Udp,
];

/// Every path that this CPU has.
fn each(form: ChecksumForm) -> Vec<Checksum> {
    let paths = Checksum::PATHS.iter().filter(|path| path.is_available());
    let made = paths.map(|path| Checksum::new(form, *path).expect("available"));
    made.collect()
}

/// The checksum that another implementation gives.
fn another(data: &[u8]) -> u16 {
    Sum16BitWords::new()
        .add_slice(data)
        .ones_complement()
        .to_be()
}

/// RFC 1071, 3: the bytes 00 01 f2 03 f4 f5 f6 f7 sum to ddf2.
#[test]
fn the_example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    for checksum in each(ChecksumForm::Plain) {
        assert_eq!(checksum.of(&bytes), Ok(!0xddf2));
    }
}

#[test]
fn every_length_at_every_offset() {
    let data = bytes(1 << 12, 1);
    for checksum in each(ChecksumForm::Plain) {
        for len in (0..=300).chain([511, 512, 513, 1500, 2047, 2048, 2049]) {
            for offset in [0, 1, 2, 3, 31, 63] {
                let item = &data[offset..offset + len];
                assert_eq!(
                    checksum.of(item),
                    Ok(another(item)),
                    "{checksum:?}, {len} at {offset}"
                );
            }
        }
    }
}

#[test]
fn sums_that_carry_most() {
    for len in [
        1,
        2,
        3,
        20,
        63,
        64,
        65,
        128,
        1500,
        65_535,
        65_536,
        65_537,
        1 << 20,
        3_000_001,
    ] {
        for byte in [0x00, 0xff, 0x7f, 0x80] {
            let item = vec![byte; len];
            for checksum in each(ChecksumForm::Plain) {
                let right = another(&item);
                assert_eq!(
                    checksum.of(&item),
                    Ok(right),
                    "{checksum:?}, {len} of {byte:#x}"
                );
            }
        }
    }
}

#[test]
fn packets_of_another_implementation() {
    for transport in [ACK, Transport::Udp] {
        let form = match transport {
            Transport::Udp => ChecksumForm::Udp,
            Transport::Tcp { .. } => ChecksumForm::Tcp,
        };
        for sample in samples(transport) {
            for len in [0, 1, 7, 12, 64, 255, 1460, 65_000] {
                let packet = sample.packet(&bytes(len, 2));
                received(&packet);
                for checksum in each(form) {
                    assert_eq!(checksum.is_right(&packet), Ok(true), "{checksum:?}");
                    let mut wrong = packet.clone();
                    *wrong.last_mut().expect("not empty") ^= 1;
                    assert_eq!(checksum.is_right(&wrong), Ok(false), "{checksum:?}");
                    assert_eq!(checksum.of(&wrong), oracle(form, &wrong));
                }
                if packet[0] >> 4 == 4 {
                    for checksum in each(ChecksumForm::Ipv4) {
                        assert_eq!(checksum.is_right(&packet), Ok(true), "{checksum:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn udp_writes_zero_as_all_ones() {
    let sample = Sample::new(Version::V4, Transport::Udp);
    let mut packet = sample.packet(&[0, 0]);
    let field = u16_at(&packet, 26);
    // What makes the sum all ones, so that its complement is zero.
    put_u16(&mut packet, 28, field);
    for checksum in each(ChecksumForm::Udp) {
        assert_eq!(checksum.of(&packet), Ok(0xffff));
    }
    put_u16(&mut packet, 26, 0);
    assert_eq!(
        Checksum::best(ChecksumForm::Udp).is_right(&packet),
        Ok(true)
    );
}

#[test]
fn a_udp_length_below_the_packets_counts() {
    let mut packet = Sample::new(Version::V6, Transport::Udp).packet(b"data and padding");
    put_u16(&mut packet, 44, 8 + 4);
    let mut cut = packet[..packet.len() - 12].to_vec();
    put_u16(&mut cut, 4, 8 + 4);
    for checksum in each(ChecksumForm::Udp) {
        assert_eq!(checksum.of(&packet), checksum.of(&cut));
    }
    put_u16(&mut packet, 44, 7);
    for checksum in each(ChecksumForm::Udp) {
        assert_eq!(checksum.of(&packet), Err(PacketError::Malformed));
    }
}

#[test]
fn what_has_no_such_checksum_is_refused() {
    let tcp = Sample::new(Version::V4, ACK).packet(b"");
    let mut fragment = tcp.clone();
    fragment[6] = 0x20;
    let routed = chained(UDP, 1, &[0, 0, 0, 0, 0, 8, 0, 0]);
    let cases = [
        (ChecksumForm::Udp, &tcp[..], PacketError::Protocol),
        (ChecksumForm::Tcp, &fragment[..], PacketError::Fragment),
        (ChecksumForm::Udp, &routed[..], PacketError::Routed),
        (ChecksumForm::Tcp, &tcp[1..], PacketError::Malformed),
        (ChecksumForm::Ipv4, &[][..], PacketError::Malformed),
        (ChecksumForm::Ipv4, &tcp[..19], PacketError::Malformed),
    ];
    for (form, item, error) in cases {
        for checksum in each(form) {
            assert_eq!(checksum.of(item), Err(error), "{checksum:?}");
        }
    }
}

/// The outputs of a batch, refusals as none.
fn run(checksum: Checksum, items: &[Vec<u8>]) -> Vec<Option<u16>> {
    let mut offsets = vec![0];
    for item in items {
        offsets.push(offsets.last().expect("not empty") + item.len() as u32);
    }
    let src = items.concat();
    let split = dpb_core::Items::Offsets(offsets.into());
    let batch = Batch::new(&src, &split).expect("inside");
    let mut dst = vec![0; 2 * items.len()];
    let mut outcomes = Vec::with_capacity(items.len());
    let slots = dpb_core::Items::fixed(2, items.len() as u32);
    let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
    checksum.run(batch, out, &mut ()).expect("runs");
    let values = dst.chunks(2).map(|pair| u16_at(pair, 0));
    match checksum.form {
        ChecksumForm::Plain => values.map(Some).collect(),
        _ => values
            .zip(outcomes)
            .map(|(value, outcome)| outcome.ok().map(|_| value))
            .collect(),
    }
}

/// Packets, some of them spoilt, and bytes.
fn items() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let item = (0usize..4, 0usize..6, 0usize..200, any::<u64>());
    let item = item.prop_map(|(kind, which, len, seed)| {
        let transport = if which % 2 == 0 { ACK } else { Transport::Udp };
        let mut packet = samples(transport)[kind].packet(&bytes(len, seed));
        if which == 4 {
            let at = seed as usize % packet.len();
            packet[at] ^= 1 << (seed >> 61);
        }
        if which == 5 {
            packet.truncate(len % 60);
        }
        packet
    });
    prop::collection::vec(item, 0..40)
}

/// Batches of items of one length, which have paths of their own.
#[test]
fn equal_items() {
    for len in (0usize..=66).chain([333]) {
        for count in [1usize, 15, 16, 17, 50] {
            let src = bytes(len * count + 1, 3);
            let right: Vec<_> = (0..count)
                .map(|i| another(&src[1 + i * len..][..len]))
                .collect();
            let items = dpb_core::Items::fixed(len as u32, count as u32);
            for checksum in each(ChecksumForm::Plain) {
                let mut dst = vec![0; 2 * count];
                let (slots, mut none) = (dpb_core::Items::fixed(2, count as u32), Vec::new());
                let out = BatchOut::new(&mut dst, &slots, &mut none).expect("inside");
                let batch = Batch::new(&src[1..], &items).expect("inside");
                checksum.run(batch, out, &mut ()).expect("runs");
                let ours: Vec<_> = dst.chunks(2).map(|pair| u16_at(pair, 0)).collect();
                assert_eq!(ours, right, "{checksum:?}, {count} of {len}");
            }
        }
    }
}

/// Batches of items that are summed together, empty ones too.
#[test]
fn short_items_of_many_lengths() {
    for longest in [0, 1, 15, 16, 17, 33, 64, 65, 200] {
        let item = |i: usize| bytes(i * 29 % (longest + 1), i as u64);
        let items: Vec<_> = (0..50).map(item).collect();
        let right: Vec<_> = items.iter().map(|item| Some(another(item))).collect();
        for checksum in each(ChecksumForm::Plain) {
            assert_eq!(run(checksum, &items), right, "{checksum:?}, {longest}");
        }
    }
}

/// Sixteen items together where one is as long as a block, and where some are longer.
#[test]
fn items_longer_than_a_block_among_short_ones() {
    let len = |i: usize| match i {
        5 => BLOCK_BYTES,
        17 => BLOCK_BYTES + 1,
        20 => 140_001,
        _ => 9,
    };
    let items: Vec<_> = (0..33).map(|i| bytes(len(i), i as u64)).collect();
    let right: Vec<_> = items.iter().map(|item| Some(another(item))).collect();
    for checksum in each(ChecksumForm::Plain) {
        assert_eq!(run(checksum, &items), right, "{checksum:?}");
        // Fewer than are summed together.
        let few = 16..22;
        assert_eq!(
            run(checksum, &items[few.clone()]),
            right[few],
            "{checksum:?}"
        );
    }
}

proptest! {
    #[test]
    fn batches_are_as_items_one_by_one(items in items()) {
        for form in FORMS {
            let right: Vec<_> = items.iter().map(|item| oracle(form, item).ok()).collect();
            for checksum in each(form) {
                prop_assert_eq!(run(checksum, &items), &right[..], "{:?}", checksum);
                for (item, right) in items.iter().zip(&right) {
                    prop_assert_eq!(checksum.of(item).ok(), *right, "{:?}", checksum);
                }
            }
        }
    }

    #[test]
    fn an_update_is_as_a_new_sum(mut data in prop::collection::vec(any::<u8>(), 8..60), at in 0usize..26, new in any::<u32>()) {
        let at = (at * 2 % (data.len() - 5)) & !1;
        let old = u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        let before = another(&data);
        data[at..at + 4].copy_from_slice(&new.to_be_bytes());
        let after = another(&data);
        let updated = update_u32(before, old, new);
        // All zeros and all ones are one number, and only a sum of nothing but zeros gives the first.
        prop_assert!(updated == after || [updated, after] == [0, 0xffff] || [updated, after] == [0xffff, 0]);
        let high = update(before, (old >> 16) as u16, (new >> 16) as u16);
        prop_assert_eq!(update(high, old as u16, new as u16), updated);
    }
}
