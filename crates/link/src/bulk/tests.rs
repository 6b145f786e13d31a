//! Large bodies past TCP, by a stand-in in this process: they are what TCP would have brought, and whatever breaks is an error
//! soon, never a wrong byte and never a wait without end.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dpb_core::WallClock;

use super::*;
use crate::error::{LinkError, Refusal, refusal_bytes};
use crate::header::Header;
use crate::link::{Interrupted, Link};
use crate::placed::{Placed, credit_bytes};
use crate::stream::Stream;
use crate::tag::{CREDIT, ERROR, PLACED, STOP, Tags};
use crate::testing::{Fault, ends};

/// Tags of a service that the tests have.
const BATCH: u8 = 146;
const FILE: u8 = 147;
const TAGS: Tags = Tags {
    body_bytes_max: |tag| match tag {
        BATCH => Some(64 << 20),
        FILE => Some(4 << 20),
        _ => None,
    },
    is_bulk: |tag| matches!(tag, BATCH | FILE),
};
const RING: Ring = Ring {
    pieces: 3,
    piece_bytes: 5000,
};
/// Longer than any wait here may take.
const SOON: Duration = Duration::from_secs(8);

/// Both ends of a connection.
fn pair() -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let link = |tcp| {
        let clock = Arc::new(WallClock::default());
        let mut link = Link::new(Stream::Plain(tcp), 0, clock).unwrap();
        link.set_tags(TAGS);
        link
    };
    (link(near), link(far))
}

/// The same with a transport between them.
fn pair_with(fault: Fault, delay: Duration) -> (Link, Link) {
    let (mut near, mut far) = pair();
    let (writer, reader) = ends(RING, fault, delay);
    near.set_writer(Box::new(writer), Arc::default());
    far.set_reader(Box::new(reader));
    (near, far)
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

fn receive(far: &mut Link) -> Result<(u8, Vec<u8>), LinkError> {
    let header = far.receive_header()?.ok_or(LinkError::Closed)?;
    Ok((header.tag, far.receive_body(header)?))
}

#[test]
fn bodies_arrive_whole_whatever_their_length_and_parts() {
    let lengths = [1, 4096, 4097, 5000, 5001, 9999, 10_000, 60_000, 123_457];
    for delay in [Duration::ZERO, Duration::from_millis(3)] {
        let (mut near, mut far) = pair_with(Fault::None, delay);
        let receiver = thread::spawn(move || {
            let mut bodies = Vec::new();
            for _ in 0..2 * lengths.len() {
                bodies.push(receive(&mut far).unwrap());
            }
            (bodies, far.bytes(), far.bulk_bytes())
        });
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&body(200_000)).unwrap();
        let going = || false;
        for len in lengths {
            let whole = body(len);
            let cuts = [len / 7, len / 7, len / 3, len];
            let mut parts = vec![&whole[..cuts[0]]];
            parts.extend(cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]));
            let ended = near.send_frame(BATCH, &parts, len, &going).unwrap();
            assert_eq!(ended, None);
            let ended = near.send_file_frame(FILE, &file, 7, len, &going).unwrap();
            assert_eq!(ended, None);
        }
        assert_eq!(near.settle_pieces(&going).unwrap(), None);
        let (bodies, bytes, bulk_bytes) = receiver.join().unwrap();
        for (pair, len) in bodies.chunks(2).zip(lengths) {
            assert_eq!(pair[0], (BATCH, body(len)));
            assert_eq!(pair[1], (FILE, body(200_000)[7..7 + len].to_vec()));
        }
        // Counted alike on both sides; short ones stay on TCP.
        let large = lengths.iter().filter(|&&len| len > INLINE_BYTES_MAX);
        assert_eq!(bulk_bytes.1, 2 * large.sum::<usize>() as u64);
        assert_eq!(near.bulk_bytes().0, bulk_bytes.1);
        assert_eq!(near.bytes().0, bytes.1);
    }
}

#[test]
fn a_body_is_read_in_any_steps() {
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    let sender = thread::spawn(move || {
        let whole = body(40_000);
        let sent = near.send_frame(FILE, &[&whole], whole.len(), &|| false);
        (sent.unwrap(), near)
    });
    let header = far.receive_header().unwrap().unwrap();
    assert_eq!((header.tag, header.len), (FILE, 40_000));
    let mut read = Vec::new();
    for step in [1, 4999, 5000, 7000, 3, 17_997, 5000] {
        let mut bytes = vec![0; step];
        far.receive_exact(&mut bytes).unwrap();
        read.extend(bytes);
    }
    assert_eq!(read, body(40_000));
    assert_eq!(sender.join().unwrap().0, None);
}

#[test]
fn a_client_that_gives_no_room_back_is_given_up_stopped_or_gone() {
    let (mut near, far) = pair_with(Fault::None, Duration::ZERO);
    near.set_patience(Duration::from_millis(100));
    let whole = body(20_000);
    let mut send = |stop: bool| near.send_frame(BATCH, &[&whole], whole.len(), &|| stop);
    assert_eq!(send(false).unwrap(), Some(Interrupted::Stalled));
    assert_eq!(send(true).unwrap(), Some(Interrupted::Stopped));
    drop(far);
    match send(false) {
        Ok(ended) => assert_eq!(ended, Some(Interrupted::Stopped)),
        Err(error) => assert!(matches!(error, LinkError::Closed | LinkError::Io(_))),
    }
}

#[test]
fn room_that_nobody_took_is_not_given_back() {
    for (pieces, is_right) in [(3, false), (2, false), (1, true)] {
        let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
        let whole = body(5000);
        near.send_frame(BATCH, &[&whole], 5000, &|| false).unwrap();
        far.send(CREDIT, &credit_bytes(pieces)).unwrap();
        far.send(STOP, &[]).unwrap();
        let heard = near.receive_header();
        match is_right {
            true => assert_eq!(heard.unwrap().unwrap().tag, STOP),
            false => assert!(matches!(heard, Err(LinkError::Malformed(_))), "{heard:?}"),
        }
    }
}

#[test]
fn frames_of_a_way_that_is_not_there_are_out_of_place() {
    let (mut near, mut far) = pair();
    far.send(CREDIT, &credit_bytes(1)).unwrap();
    let credit = near.receive_header();
    assert!(matches!(credit, Err(LinkError::OutOfPlace(CREDIT))));
    let placed = Placed { of: BATCH, len: 9 };
    near.send(PLACED, &placed.to_bytes()).unwrap();
    let announced = far.receive_header();
    assert!(matches!(announced, Err(LinkError::OutOfPlace(PLACED))));
    // One after another.
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    near.send(PLACED, &placed.to_bytes()).unwrap();
    near.send(PLACED, &placed.to_bytes()).unwrap();
    assert_eq!(far.receive_header().unwrap().unwrap().len, 9);
    assert!(matches!(
        far.receive_header(),
        Err(LinkError::OutOfPlace(PLACED))
    ));
}

#[test]
fn what_does_not_arrive_as_announced_is_an_error() {
    for (fault, says) in [
        (Fault::Lost(4), "went down"),
        (Fault::Skipped(0), "piece 1 came, not 0"),
        (Fault::Skipped(5), "piece 6 came, not 5"),
        (Fault::Short(2), "4999 bytes arrived where 5000 were due"),
    ] {
        let (mut near, mut far) = pair_with(fault, Duration::ZERO);
        let sender = thread::spawn(move || {
            let whole = body(50_000);
            // The other side breaks off.
            let _ = near.send_frame(BATCH, &[&whole], whole.len(), &|| false);
            near
        });
        let began = Instant::now();
        let error = receive(&mut far).unwrap_err();
        assert!(matches!(error, LinkError::Bulk(_)), "{error}");
        assert!(error.to_string().contains(says), "{fault:?}: {error}");
        assert!(began.elapsed() < SOON, "{fault:?}");
        drop(far);
        sender.join().unwrap();
    }
}

#[test]
fn an_agent_that_ends_ends_the_wait_for_a_piece() {
    let (mut near, mut far) = pair_with(Fault::Unanswered(1), Duration::ZERO);
    let whole = body(9000);
    near.send_frame(BATCH, &[&whole], 9000, &|| false).unwrap();
    let last = refusal_bytes(Refusal::Unavailable, "the agent is ending");
    near.send(ERROR, &last).unwrap();
    drop(near);
    let began = Instant::now();
    let error = receive(&mut far).unwrap_err();
    assert!(matches!(error, LinkError::Refused { .. }), "{error}");
    assert!(began.elapsed() < SOON);
}

/// Of a body that is announced there is no header to be forged: lengths keep their tags' bounds.
#[test]
fn a_placed_body_keeps_its_bound() {
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    let mut placed = Placed { of: FILE, len: 1 }.to_bytes();
    placed[7] = 1;
    near.send(PLACED, &placed).unwrap();
    assert!(matches!(
        far.receive_header(),
        Err(LinkError::TooLong { tag: FILE, .. })
    ));
    assert!(Header::checked(PLACED, 9, &TAGS).is_err());
}
