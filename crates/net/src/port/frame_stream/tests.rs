//! The port beside a guest that is a plain socket and follows QEMU's format by hand.

use std::io::{Read, Write};

use proptest::prelude::*;
use tempfile::tempdir;

use super::*;

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| at as u8 ^ number).collect()
}

fn packet(bytes: &[u8]) -> Buf {
    let mut packet = Buf::zeroed(bytes.len()).expect("memory");
    packet.copy_from_slice(bytes);
    packet
}

/// All that has come, after some looks.
fn receive(port: &mut FrameStream) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for _ in 0..20 {
        port.receive(&mut packets, 7).expect("a guest that is sane");
    }
    packets.iter().map(|packet| packet.to_vec()).collect()
}

#[test]
fn frames_go_both_ways_and_guests_come_and_go() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("guest");
    let mut port = FrameStream::listen(&path).expect("a socket");
    let taken = FrameStream::listen(&path).expect_err("there is one");
    assert!(taken.to_string().contains("remove the file"), "{taken}");
    let mut alone = VecDeque::from([packet(&frame(0, 60))]);
    assert_eq!(port.send(&mut alone).expect("nobody is no error"), 0);
    assert_eq!(
        (port.stats().refused.queue_full, port.is_joined()),
        (1, false)
    );
    for number in 1..=2 {
        let mut guest = UnixStream::connect(&path).expect("it listens");
        let sent: Vec<Vec<u8>> = [14, 60, 1514, 65535]
            .map(|bytes| frame(number, bytes))
            .into();
        let bytes = sent.iter().flat_map(|it| framed(it)).collect::<Vec<u8>>();
        let mut received = Vec::new();
        // Pieces end anywhere.
        for piece in bytes.chunks(997) {
            guest.write_all(piece).expect("room");
            received.extend(receive(&mut port));
        }
        assert_eq!(received, sent);
        let mut packets: VecDeque<Buf> = sent.iter().map(|it| packet(it)).collect();
        assert_eq!(port.send(&mut packets).expect("room"), sent.len());
        let mut back = vec![0; bytes.len()];
        guest.read_exact(&mut back).expect("all of them");
        assert!(back == bytes);
        // A frame that is no frame, a piece of one, and the guest is gone.
        guest.write_all(&framed(&[1; 13])).expect("room");
        guest.write_all(&framed(&frame(9, 60))).expect("room");
        guest.write_all(&framed(&frame(9, 60))[..30]).expect("room");
        drop(guest);
        assert_eq!(receive(&mut port), [frame(9, 60)]);
        assert!(!port.is_joined());
    }
    let stats = port.stats();
    assert_eq!(stats.receive_lost.malformed, 2);
    assert_eq!((stats.taken, stats.sent), (stats.sent, stats.taken));
    assert_eq!((stats.taken.packets, stats.delivered.packets), (8, 10));
    drop(port);
    assert!(!path.exists());
}

#[test]
fn a_guest_that_takes_nothing_is_refused_more_and_loses_what_waited() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("guest");
    let mut port = FrameStream::listen(&path).expect("a socket");
    let mut guest = UnixStream::connect(&path).expect("it listens");
    let mut packets: VecDeque<Buf> = (0..4000).map(|it| packet(&frame(it as u8, 1514))).collect();
    let taken = port.send(&mut packets).expect("a guest");
    assert!(taken > WAITING_BYTES_MAX / 1518 && taken < 4000, "{taken}");
    let stats = port.stats();
    assert_eq!(stats.taken.packets as usize, taken);
    assert!(stats.in_flight() > 0 && stats.refused.queue_full > 0);
    // It takes some of them, in their order, and leaves.
    let mut some = vec![0; 100 * 1518];
    guest.read_exact(&mut some).expect("they are there");
    for (number, one) in some.chunks(1518).enumerate() {
        assert!(one == framed(&frame(number as u8, 1514)));
    }
    drop(guest);
    assert_eq!(receive(&mut port).len(), 0);
    let stats = port.stats();
    assert_eq!(stats.in_flight(), 0);
    assert!(stats.sent.packets >= 100 && stats.send_lost.queue_full > 0);
}

#[test]
fn a_guest_that_lies_about_a_length_is_an_error() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("guest");
    let mut port = FrameStream::listen(&path).expect("a socket");
    let mut guest = UnixStream::connect(&path).expect("it listens");
    let claims = (BYTES_MAX as u32 + 1).to_be_bytes();
    guest.write_all(&claims).expect("room");
    let error = port.receive(&mut Vec::new(), 1).expect_err("no frame");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("65554 bytes"), "{error}");
}

proptest! {
    /// Whatever a guest sends, what is given out is what its lengths say.
    #[test]
    fn any_bytes_are_cut_by_their_lengths(bytes in prop::collection::vec(0u8..4, 0..200)) {
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("guest");
        let mut port = FrameStream::listen(&path).expect("a socket");
        let mut guest = UnixStream::connect(&path).expect("it listens");
        guest.write_all(&bytes).expect("room");
        drop(guest);
        let (mut expected, mut rest, mut lies) = (Vec::new(), &bytes[..], false);
        while rest.len() >= 4 {
            let length = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            lies = length > BYTES_MAX;
            let Some(frame) = rest.get(4..4 + length).filter(|_| !lies) else { break };
            if frame.len() >= 14 {
                expected.push(frame.to_vec());
            }
            rest = &rest[4 + length..];
        }
        let mut packets = Vec::new();
        let outcome = (0..3).try_for_each(|_| port.receive(&mut packets, 1000).map(drop));
        prop_assert_eq!(outcome.is_err(), lies);
        let received: Vec<Vec<u8>> = packets.iter().map(|packet| packet.to_vec()).collect();
        prop_assert_eq!(received, expected);
    }
}
