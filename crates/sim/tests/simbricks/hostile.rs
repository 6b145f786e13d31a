//! Slots as bytes, and peers that lie: each ends with an error that says what.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use dpb_sim::simbricks::{
    Endpoint, Error, IntroError, LinkParams, Listener, RingShape, Sent, SyncMode, connect,
};
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use tempfile::tempdir;

use crate::drive::{PATIENCE, error_of};
use crate::raw_peer::{
    ENTRIES, MEMORY_BYTES, RawPeer, listener_words, memory, message, receive_with, send_with,
};

const SMALL: RingShape = RingShape {
    entries: 8,
    entry_bytes: 256,
};

fn params(sync: SyncMode) -> LinkParams {
    LinkParams {
        sync,
        ..LinkParams::default()
    }
}

/// An endpoint that listens, and a peer by hand.
fn listening(sync: SyncMode) -> (Endpoint, RawPeer) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    let listener = Listener::bind(&path, SMALL, params(sync)).unwrap();
    thread::scope(|scope| {
        let peer = scope.spawn(|| RawPeer::connect(&path, sync.flags()));
        (listener.accept(PATIENCE).unwrap(), peer.join().unwrap())
    })
}

/// An endpoint that connects, and a peer by hand with a memory of those flags.
fn connecting(sync: SyncMode, flags: MemfdFlags) -> (Endpoint, RawPeer) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    let listener = UnixListener::bind(&path).unwrap();
    thread::scope(|scope| {
        let accept = || RawPeer::accept(&listener, sync.flags(), memory(MEMORY_BYTES, flags));
        let peer = scope.spawn(accept);
        let endpoint = connect(&path, params(sync), PATIENCE).unwrap();
        (endpoint, peer.join().unwrap())
    })
}

/// An endpoint of each kind with its peer.
fn each(sync: SyncMode) -> [(Endpoint, RawPeer); 2] {
    let sealing = MemfdFlags::ALLOW_SEALING;
    [listening(sync), connecting(sync, sealing)]
}

#[test]
fn a_slot_is_byte_for_byte_what_the_protocol_says() {
    for (mut endpoint, peer) in each(SyncMode::Optional) {
        let frame: Vec<u8> = (1..=61).collect();
        assert_eq!(endpoint.send(1_000_000, &frame).unwrap(), Sent::Queued);
        assert!(endpoint.out_sync(1_500_000).unwrap());
        assert_eq!(endpoint.terminate().unwrap(), Sent::Queued);
        let mut packet = [0; 256];
        packet[0] = 61;
        // 1,500,000 is 0x16e360.
        packet[48..51].copy_from_slice(&[0x60, 0xe3, 0x16]);
        packet[63] = 0xc0;
        packet[64..125].copy_from_slice(&frame);
        assert_eq!(peer.read(0), packet);
        let mut sync = [0; 256];
        // 2,000,000 is 0x1e8480.
        sync[48..51].copy_from_slice(&[0x80, 0x84, 0x1e]);
        sync[63] = 0x80;
        assert_eq!(peer.read(1), sync);
        let mut terminate = [0; 256];
        // The end of time and 500,000 is 499,999, which is 0x07a11f.
        terminate[48..51].copy_from_slice(&[0x1f, 0xa1, 0x07]);
        terminate[63] = 0x81;
        assert_eq!(peer.read(2), terminate);
    }
}

#[test]
fn a_slot_is_given_back_with_its_type() {
    for (mut endpoint, peer) in each(SyncMode::Optional) {
        peer.write(0, 0x80, 10, 0, &[]);
        peer.write(1, 0xc0, 20, 5, b"hello");
        assert_eq!(endpoint.poll(19).unwrap(), None);
        assert_eq!((peer.own_type_sent(0), peer.own_type_sent(1)), (0, 0xc0));
        assert_eq!(endpoint.input_timestamp_ps(), 20);
        let received = endpoint.poll(20).unwrap().unwrap();
        assert_eq!((received.timestamp_ps, received.frame), (20, &b"hello"[..]));
        assert_eq!(peer.own_type_sent(1), 0x40);
        peer.write(2, 0x81, 499_999, 0, &[]);
        assert_eq!(endpoint.poll(20).unwrap(), None);
        assert!(endpoint.peer_has_terminated());
    }
}

#[test]
fn messages_of_a_peer_by_hand_arrive_over_and_over() {
    for (mut endpoint, peer) in each(SyncMode::Optional) {
        for number in 0..10 * ENTRIES {
            let frame = [number as u8; 192];
            let len = number % 193;
            peer.write(number, 0xc0, number, len as u16, &frame);
            let received = endpoint.poll(number).unwrap().unwrap();
            assert_eq!(received.frame, &frame[..len as usize]);
            let answer = &frame[..len as usize];
            assert_eq!(endpoint.send(number, answer).unwrap(), Sent::Queued);
            let slot = peer.read(number);
            assert_eq!(slot[64..][..len as usize], frame[..len as usize]);
            peer.give_back(number);
        }
    }
}

#[test]
fn unknown_types_are_errors() {
    let unknown = (0x02..=0x3f).chain(0x41..=0x7f);
    for (mut endpoint, peer) in each(SyncMode::Optional) {
        for wrong in unknown.clone() {
            peer.write(0, 0x80 | wrong, 10, 0, &[]);
            for _ in 0..2 {
                let error = endpoint.poll(20).unwrap_err();
                let said = matches!(error, Error::MessageType { message_type, slot: 0 } if message_type == wrong);
                assert!(said, "{error}");
            }
        }
    }
}

#[test]
fn lengths_beyond_a_slot_are_errors() {
    for (mut endpoint, peer) in each(SyncMode::Disabled) {
        for len in [193, 256, 1500, u16::MAX] {
            peer.write(0, 0xc0, 10, len, &[]);
            let error = endpoint.poll(20).unwrap_err();
            let bytes = usize::from(len);
            let said = matches!(error, Error::FrameLength { bytes: b, bytes_max: 192, slot: 0 } if b == bytes);
            assert!(said, "{error}");
        }
        peer.write(0, 0xc0, 10, 192, &[]);
        assert_eq!(endpoint.poll(20).unwrap().unwrap().frame.len(), 192);
    }
}

#[test]
fn a_time_before_the_last_one_is_an_error() {
    for own_type in [0x80, 0xc0] {
        for (mut endpoint, peer) in each(SyncMode::Optional) {
            peer.write(0, 0x80, 700, 0, &[]);
            peer.write(1, 0xc0, 700, 60, &[]);
            peer.write(2, own_type, 699, 60, &[]);
            assert!(endpoint.poll(700).unwrap().is_some());
            let error = endpoint.poll(700).unwrap_err();
            let said = matches!(
                error,
                Error::TimestampDecreased {
                    timestamp_ps: 699,
                    before_ps: 700,
                    slot: 2
                }
            );
            assert!(said, "{error}");
        }
        // Without virtual time, times mean nothing.
        let (mut endpoint, peer) = listening(SyncMode::Disabled);
        peer.write(0, 0xc0, 700, 60, &[]);
        peer.write(1, 0xc0, 699, 60, &[]);
        assert_eq!(endpoint.poll(0).unwrap().unwrap().timestamp_ps, 700);
        assert_eq!(endpoint.poll(0).unwrap().unwrap().timestamp_ps, 699);
    }
}

#[test]
fn a_peer_that_leaves_is_noticed_after_its_last_message() {
    for sync in [SyncMode::Disabled, SyncMode::Optional] {
        for (mut endpoint, peer) in each(sync) {
            peer.write(0, 0xc0, 10, 3, b"one");
            peer.write(1, 0xc0, 20, 3, b"two");
            drop(peer);
            assert_eq!(endpoint.poll(10).unwrap().unwrap().frame, b"one");
            assert_eq!(endpoint.poll(20).unwrap().unwrap().frame, b"two");
            assert!(matches!(error_of(&mut endpoint, 30), Error::PeerGone));
            assert!(matches!(endpoint.poll(30), Err(Error::PeerGone)));
            assert_eq!(endpoint.send(30, &[1; 60]).unwrap(), Sent::Ended);
        }
    }
}

#[test]
fn a_sender_notices_that_its_peer_has_left() {
    for (mut endpoint, peer) in each(SyncMode::Disabled) {
        drop(peer);
        let mut fates = std::iter::repeat_with(|| endpoint.send(0, &[1; 60]).unwrap());
        assert!((&mut fates).take(8).all(|sent| sent == Sent::Queued));
        assert!(fates.take(10_000).any(|sent| sent == Sent::Ended));
        assert!(matches!(error_of(&mut endpoint, 0), Error::PeerGone));
    }
}

#[test]
fn bytes_on_the_socket_are_an_error() {
    for (mut endpoint, mut peer) in each(SyncMode::Optional) {
        peer.socket.write_all(b"?").unwrap();
        assert!(matches!(error_of(&mut endpoint, 0), Error::BytesOnSocket));
    }
}

#[test]
fn memory_that_takes_a_seal_cannot_be_cut_off() {
    let (listener, peer) = listening(SyncMode::Disabled);
    assert!(listener.is_sealed());
    peer.memory.set_len(0).unwrap_err();
    let (connecter, peer) = connecting(SyncMode::Disabled, MemfdFlags::ALLOW_SEALING);
    assert!(connecter.is_sealed());
    peer.memory.set_len(0).unwrap_err();
}

#[test]
fn memory_without_a_seal_is_looked_at() {
    let (mut endpoint, peer) = connecting(SyncMode::Disabled, MemfdFlags::empty());
    assert!(!endpoint.is_sealed());
    // The last page holds no ring, so that nothing is lost yet.
    peer.memory.set_len(MEMORY_BYTES - 4096).unwrap();
    let error = error_of(&mut endpoint, 0);
    let said = matches!(
        error,
        Error::MemoryShrunk {
            bytes: 8192,
            bytes_before: 12288
        }
    );
    assert!(said, "{error}");
}

/// What a connecter says of a listener that sends those bytes and so many files.
fn connected_to(words: &[u64], bytes: u64, files: usize) -> Result<Endpoint, Error> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    let listener = UnixListener::bind(&path).unwrap();
    thread::scope(|scope| {
        let liar = scope.spawn(|| {
            let (socket, _) = listener.accept().unwrap();
            let memory = memory(bytes, MemfdFlags::ALLOW_SEALING);
            send_with(&socket, &message(words, 4), &vec![&memory; files]);
            let _ = receive_with(&socket);
        });
        let result = connect(&path, params(SyncMode::Optional), PATIENCE);
        liar.join().unwrap();
        result
    })
}

#[test]
fn listeners_that_lie_are_refused() {
    let words = listener_words(1);
    let spoilt = |at: usize, word| {
        let mut words = words;
        words[at] = word;
        connected_to(&words, MEMORY_BYTES, 1).unwrap_err()
    };
    assert!(connected_to(&words, MEMORY_BYTES, 1).is_ok());
    let intro = |error| match error {
        Error::Intro(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(intro(spoilt(0, 2)), IntroError::Version(2));
    assert_eq!(intro(spoilt(8, 2)), IntroError::Protocol(2));
    assert_eq!(intro(spoilt(1, 8)), IntroError::Flags(8));
    assert_eq!(intro(spoilt(2, 0)), IntroError::Overlap);
    let outside = [
        spoilt(2, MEMORY_BYTES),
        spoilt(4, 1 << 40),
        spoilt(3, 1 << 40),
    ];
    for error in outside {
        assert!(matches!(intro(error), IntroError::Outside { .. }));
    }
    let result = connected_to(&words, 4096, 1).unwrap_err();
    assert!(matches!(intro(result), IntroError::Outside { .. }));
    for files in [0, 2, 3] {
        let result = connected_to(&words, MEMORY_BYTES, files);
        assert!(
            matches!(result, Err(Error::Files(n)) if n == files),
            "{result:?}"
        );
    }
    let result = connected_to(&words, 0, 1);
    assert!(matches!(result, Err(Error::System { .. })), "{result:?}");
}

/// What a listener says of a connecter that sends those bytes.
fn accepted(bytes: &[u8]) -> Result<Endpoint, Error> {
    let folder = tempdir().unwrap();
    let path: &Path = &folder.path().join("link");
    let listener = Listener::bind(path, SMALL, params(SyncMode::Optional)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = UnixStream::connect(path).unwrap();
            socket.write_all(bytes).unwrap();
            let _ = receive_with(&socket);
        });
        listener.accept(PATIENCE)
    })
}

#[test]
fn connecters_that_lie_are_refused() {
    assert!(accepted(&message(&[1, 1, 1, 32], 4)).is_ok());
    let wrong: [(Vec<u8>, IntroError); 5] = [
        (message(&[2, 1, 1, 32], 4), IntroError::Version(2)),
        (message(&[1, 16, 1, 32], 4), IntroError::Flags(16)),
        (message(&[1, 1, 2, 32], 4), IntroError::Protocol(2)),
        (
            message(&[1, 1, 1, 32], 5),
            IntroError::Length {
                bytes: 37,
                expected: 36,
            },
        ),
        (
            message(&[1, 1], 0),
            IntroError::Length {
                bytes: 16,
                expected: 36,
            },
        ),
    ];
    for (bytes, error) in wrong {
        let result = accepted(&bytes);
        assert!(
            matches!(result, Err(Error::Intro(e)) if e == error),
            "{result:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a peer writes, an endpoint answers with frames that fit, or an error.
    #[test]
    fn any_slots_are_read_without_a_panic(
        slots in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u16>()), 1..40),
        times in prop::collection::vec(any::<u64>(), 1..40),
        is_synchronised: bool,
    ) {
        let sync = if is_synchronised { SyncMode::Optional } else { SyncMode::Disabled };
        let (mut endpoint, peer) = listening(sync);
        for (number, (own_type, timestamp, len)) in (0..).zip(slots) {
            peer.write(number, own_type, timestamp, len, &[]);
            let now = times[number as usize % times.len()];
            let before = endpoint.input_timestamp_ps();
            match endpoint.poll(now) {
                Err(_) => {}
                Ok(None) => {
                    let is_later = endpoint.input_timestamp_ps() >= before;
                    prop_assert!(is_later);
                }
                Ok(Some(received)) => {
                    prop_assert!(received.frame.len() <= 192);
                    prop_assert!(!is_synchronised || received.timestamp_ps <= now);
                }
            }
        }
    }
}
