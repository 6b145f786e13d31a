//! Segments read back as a stream by another implementation, and refusals.

use etherparse::NetHeaders;
use proptest::prelude::*;

use super::*;
use crate::network::packet::tests::{ACK, bytes, chained, received, samples, tcp};
use crate::network::packet::{Burst, Sample, Transport, Version, put_u16, u32_at};

fn each(mss: u16, mode: Mode) -> Vec<Segmentation> {
    let paths = Segmentation::PATHS
        .iter()
        .filter(|path| path.is_available());
    let made = paths.map(|path| Segmentation::new(mss, mode, *path).expect("available"));
    made.collect()
}

/// The output in a slot of exactly the operator's `dst_len`, every byte behind it untouched.
fn run(segmentation: &Segmentation, send: &[u8]) -> Result<Vec<u8>, PacketError> {
    let slot = segmentation.dst_len(send.len());
    let mut dst = vec![0xaa; slot + 64];
    let len = segmentation.segment(send, &mut dst[..slot])?;
    assert!(
        dst[len..].iter().all(|&byte| byte == 0xaa),
        "written behind the output"
    );
    dst.truncate(len);
    Ok(dst)
}

/// What another implementation makes of the segments: the stream is the payload, in order, and every field is as it must be.
fn assert_is_stream(send: &[u8], output: &[u8], sample: &Sample<'_>, payload: &[u8], mss: usize) {
    let first_sequence = u32_at(send, sample.headers_bytes() - 28);
    let segments: Vec<_> = Burst::new(output)
        .map(|segment| segment.expect("sound"))
        .collect();
    assert_eq!(segments.len(), payload.len().div_ceil(mss).max(1));
    let mut stream = Vec::<u8>::new();
    for (i, segment) in segments.iter().enumerate() {
        let headers = received(segment);
        let (is_first, is_last) = (i == 0, i + 1 == segments.len());
        let tcp = tcp(&headers);
        assert_eq!(
            tcp.sequence_number,
            first_sequence.wrapping_add(stream.len() as u32)
        );
        assert!(tcp.ack);
        assert_eq!((tcp.fin, tcp.psh, tcp.cwr), (is_last, is_last, is_first));
        assert_eq!(tcp.options.as_slice().len(), 12);
        match headers.net.as_ref().expect("IP") {
            NetHeaders::Ipv4(ip, _) => {
                assert_eq!(ip.identification, sample.id.wrapping_add(i as u16));
                assert_eq!(ip.options.as_slice(), sample.options);
            }
            NetHeaders::Ipv6(ip, _) => {
                assert_eq!(ip.flow_label.value(), u32::from(sample.id));
            }
            NetHeaders::Arp(_) => unreachable!(),
        }
        let part = headers.payload.slice();
        assert!(part.len() == mss || is_last);
        stream.extend(part);
    }
    assert_eq!(stream, payload);
}

/// FIN, PSH, ACK, CWR.
const MARKED: Transport = Transport::Tcp { flags: 0x99 };

#[test]
fn another_implementation_reads_the_stream() {
    for mut sample in samples(MARKED) {
        sample.id = 0xfffe;
        for (len, mss) in [
            (0, 1460),
            (1, 1460),
            (1459, 1460),
            (1460, 1460),
            (1461, 1460),
            (9001, 1448),
            (65_000, 1460),
            (65_000, 535),
            (1000, 48),
            (200_001, 1460),
            (200_001, MSS_MAX),
        ] {
            let payload = bytes(len, 3);
            let send = sample.packet(&payload);
            for segmentation in each(mss, Mode::Copy) {
                let output = run(&segmentation, &send).expect("segments");
                assert_is_stream(&send, &output, &sample, &payload, mss.into());
            }
        }
    }
}

#[test]
fn descriptors_are_the_same_segments() {
    for sample in samples(MARKED) {
        for (len, mss) in [
            (0, 1460),
            (1460, 1460),
            (10_001, 1448),
            (999, 48),
            (131_072, 9000),
        ] {
            let send = sample.packet(&bytes(len, 4));
            for (copy, descriptor) in each(mss, Mode::Copy)
                .iter()
                .zip(each(mss, Mode::Descriptor))
            {
                let whole = run(copy, &send).expect("segments");
                let listed = run(&descriptor, &send).expect("segments");
                assert!(listed.len().is_multiple_of(DESCRIPTOR_ALIGN));
                let mut gathered = Vec::<u8>::new();
                for piece in descriptors(&listed) {
                    gathered.extend(piece.headers);
                    let at = piece.payload_at as usize;
                    gathered.extend(&send[at..at + usize::from(piece.payload_bytes)]);
                }
                assert!(gathered == whole, "{descriptor:?}");
            }
        }
    }
}

/// What leaves must not depend on the checksums that came: a stack leaves them for the engine to fill.
#[test]
fn checksums_of_the_send_are_not_read() {
    for sample in samples(ACK) {
        let send = sample.packet(&bytes(5000, 5));
        let mut unset = send.clone();
        let tcp_at = sample.headers_bytes() - 32;
        put_u16(&mut unset, tcp_at + 16, 0x1234);
        if sample.version == Version::V4 {
            put_u16(&mut unset, 10, 0);
        }
        for segmentation in each(1460, Mode::Copy) {
            assert_eq!(run(&segmentation, &unset), run(&segmentation, &send));
        }
    }
}

#[test]
fn what_cannot_be_segmented_is_refused() {
    let sample = Sample::new(Version::V4, ACK);
    let send = sample.packet(&bytes(3000, 6));
    let flagged =
        |flags| Sample::new(Version::V6, Transport::Tcp { flags }).packet(&bytes(3000, 6));
    let udp = Sample::new(Version::V4, Transport::Udp).packet(&bytes(3000, 6));
    let mut fragment = send.clone();
    fragment[7] = 1;
    let mut short_header = send.clone();
    short_header[32] = 4 << 4;
    let mut long_header = sample.packet(&[]);
    long_header[32] = 9 << 4;
    let mut tcp_header = vec![0; 20];
    tcp_header[12] = 5 << 4;
    let routed = chained(TCP, 1, &tcp_header);
    let mut chain = chained(TCP, 0, &[]);
    chain[41] = 20;
    chain.splice(48..48, vec![0; 160]);
    chain.extend(&tcp_header);
    let len = (chain.len() - 40) as u16;
    put_u16(&mut chain, 4, len);
    let cases = [
        (flagged(0x12), PacketError::Flags),
        (flagged(0x14), PacketError::Flags),
        (flagged(0x30), PacketError::Flags),
        (udp, PacketError::Protocol),
        (fragment, PacketError::Fragment),
        (short_header, PacketError::Malformed),
        (long_header, PacketError::Malformed),
        (routed, PacketError::Routed),
        (chain, PacketError::Headers),
        (Vec::new(), PacketError::Malformed),
    ];
    for (send, error) in cases {
        for segmentation in each(1460, Mode::Copy) {
            assert_eq!(run(&segmentation, &send), Err(error), "{segmentation:?}");
        }
    }
    let whole = Sample::new(Version::V4, Transport::Tcp { flags: 2 }).packet(b"");
    for segmentation in each(1460, Mode::Copy) {
        assert_eq!(
            run(&segmentation, &whole),
            Ok(whole.clone()),
            "one segment may be a SYN"
        );
        let mut short = vec![0; send.len() + 51];
        let error = segmentation.segment(&send, &mut short);
        assert_eq!(error, Err(PacketError::DstTooShort));
    }
    for mss in [0, MSS_MIN - 1, MSS_MAX + 1] {
        assert!(Segmentation::best(mss, Mode::Copy).is_err());
    }
}

/// Sends of all kinds, some of them spoilt in their headers.
fn sends() -> impl Strategy<Value = Vec<u8>> {
    let send = (
        0usize..4,
        any::<u8>(),
        0usize..6000,
        any::<u64>(),
        0usize..90,
    );
    send.prop_map(|(kind, flags, len, seed, at)| {
        let transport = Transport::Tcp {
            flags: flags & !0x26,
        };
        let mut send = samples(transport)[kind].packet(&bytes(len, seed));
        if let Some(byte) = send.get_mut(at).filter(|_| seed % 3 == 0) {
            *byte ^= (seed >> 40) as u8;
        }
        send
    })
}

proptest! {
    #[test]
    fn every_path_is_as_the_oracle(send in sends(), mss in prop_oneof![48u16..200, 200u16..3000]) {
        for mode in [Mode::Copy, Mode::Descriptor] {
            let oracle = Segmentation::new(mss, mode, Implementation::Portable).expect("there");
            let right = run(&oracle, &send);
            for segmentation in each(mss, mode) {
                prop_assert_eq!(&run(&segmentation, &send), &right, "{:?}", segmentation);
            }
        }
    }
}
