//! Messages by a connection and a ring that take what they like: the peer has each whole and in order, and knows of every piece given back.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use dpb_core::random::SplitMix64;
use proptest::prelude::*;

use super::super::protocol::{HEADER_BYTES, Header, Tag, message, read_credit};
use super::*;
use crate::bulk::Ring;
use crate::bulk::pieces::Incoming;
use crate::testing::{Fault, ends};

/// A connection that takes a few bytes at a time, or none.
struct Slow {
    file: UnixStream,
    took: Vec<u8>,
    random: SplitMix64,
}

impl Read for Slow {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.random.below(40));
        match len {
            0 => Err(ErrorKind::WouldBlock.into()),
            len => {
                self.took.extend(&bytes[..len]);
                Ok(len)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Slow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Wire for Slow {
    fn set_nonblocking(&self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// A message: its front, its body, and how much of the body is in the head.
#[derive(Clone, Debug)]
struct Sheet {
    head: Vec<u8>,
    payload: Vec<u8>,
    placed_bytes: usize,
    is_sent: bool,
}

struct AllSheets(Vec<Sheet>);

impl Sheets for AllSheets {
    fn pieces(&self, place: u32) -> [&[u8]; 2] {
        let sheet = &self.0[place as usize];
        assert!(!sheet.is_sent, "its memory may be used again");
        [&sheet.head, &sheet.payload]
    }

    fn placed_bytes(&self, place: u32) -> usize {
        self.0[place as usize].placed_bytes
    }

    fn sent(&mut self, place: u32) {
        self.0[place as usize].is_sent = true;
    }
}

/// A message whose body of `len` bytes lies in its head up to `cut`, and is placed or not.
fn sheet(number: usize, len: usize, cut: usize, is_placed: bool) -> Sheet {
    let body: Vec<u8> = (0..len).map(|i| (i * 7 + number * 31) as u8).collect();
    let (of_head, payload) = body.split_at(cut.min(len));
    let is_placed = is_placed && len > 0;
    let tag = if is_placed { Tag::JobPlaced } else { Tag::Job };
    let mut head = message(tag, of_head);
    let header = Header {
        tag,
        len: if is_placed { 0 } else { len },
    };
    head[..HEADER_BYTES].copy_from_slice(&header.bytes());
    Sheet {
        head,
        payload: payload.to_vec(),
        placed_bytes: if is_placed { len } else { 0 },
        is_sent: false,
    }
}

/// What a peer has made of the bytes that came: lengths of the messages on the connection and whether they are placed, and pieces that were
/// given back.
fn heard(mut bytes: &[u8]) -> (Vec<(bool, Vec<u8>)>, u32) {
    let (mut messages, mut given_back) = (Vec::new(), 0);
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        if let Some(pieces) = read_credit(bytes).expect("a message") {
            given_back += pieces;
            bytes = &bytes[CREDIT_BYTES..];
            continue;
        }
        let Header { tag, len } = Header::read(*header).expect("a message");
        let (body, rest) = rest.split_at(len);
        messages.push((tag == Tag::JobPlaced, body.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "whole messages");
    (messages, given_back)
}

/// True if these bytes end with a message.
fn are_whole(mut bytes: &[u8]) -> bool {
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Header { len, .. } = Header::read(*header).expect("a message");
        match rest.get(len..) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}

proptest! {
    #[test]
    fn messages_arrive_whole_whatever_goes_where(
        sizes in prop::collection::vec((0..300_usize, 0..300_usize, any::<bool>()), 1..12),
        (pieces, piece_bytes) in (1..4_u32, 1..90_usize),
        credits in prop::collection::vec(1..5_u32, 0..6),
        seed in any::<u64>(),
    ) {
        let (writer, reader) = ends(Ring { pieces, piece_bytes }, Fault::None, Duration::ZERO);
        let (mut outgoing, mut incoming) = (Outgoing::new(Box::new(writer)), Incoming::new(Box::new(reader)));
        let mut wire = Slow {
            file: UnixStream::pair().unwrap().0,
            took: Vec::new(),
            random: SplitMix64::new(seed),
        };
        let sheets = sizes.iter().enumerate().map(|(number, &(len, cut, is_placed))| sheet(number, len, cut, is_placed));
        let mut sheets = AllSheets(sheets.collect());
        let whole: Vec<(bool, Vec<u8>)> = sheets.0.iter().map(|sheet| {
            let body = [&sheet.head[HEADER_BYTES..], &sheet.payload].concat();
            (sheet.placed_bytes > 0, body)
        }).collect();
        let mut outbox = Outbox::new(sheets.0.len());
        (0..sheets.0.len() as u32).for_each(|place| outbox.push(place, &sheets));
        let mut owed = credits.iter().copied();
        // The peer takes pieces in their order, a body after the other.
        let mut bodies = whole.iter().filter(|(is_placed, _)| *is_placed).map(|(_, body)| body).peekable();
        let mut due: Option<(&Vec<u8>, Vec<u8>)> = None;
        let mut random = SplitMix64::new(!seed);
        for turn in 0.. {
            prop_assert!(turn < 100_000, "it goes on");
            if let Some(pieces) = owed.next() {
                outbox.give_back(pieces);
            }
            outbox.flush(&mut wire, Some(&mut outgoing), &mut sheets).unwrap();
            prop_assert_eq!(outbox.is_mid_message(), !are_whole(&wire.took));
            if due.is_none() && let Some(body) = bodies.next() {
                prop_assert!(incoming.expect(body.len()));
                due = Some((body, Vec::new()));
            }
            if let Some((body, came)) = &mut due {
                let mut room = vec![0; (1 + random.below(100)).min(body.len() - came.len())];
                let took = incoming.take(&mut room).unwrap();
                came.extend(&room[..took]);
                if came.len() == body.len() {
                    prop_assert_eq!(&*came, *body);
                    due = None;
                }
            }
            if let Some(pieces) = incoming.credit() {
                prop_assert!(outgoing.take_credit(pieces));
            }
            if outbox.is_empty() && due.is_none() && bodies.peek().is_none() && owed.len() == 0 {
                break;
            }
        }
        prop_assert!(sheets.0.iter().all(|sheet| sheet.is_sent));
        let (messages, given_back) = heard(&wire.took);
        prop_assert_eq!(given_back, credits.iter().sum::<u32>());
        let on_wire = whole.iter().map(|(is_placed, body)| (*is_placed, if *is_placed { Vec::new() } else { body.clone() }));
        prop_assert!(messages.into_iter().eq(on_wire));
    }
}

/// Room that was never taken is not given back: a peer that says so breaks a rule.
#[test]
fn a_credit_is_for_what_was_written() {
    let ring = Ring {
        pieces: 2,
        piece_bytes: 10,
    };
    let (writer, _reader) = ends(ring, Fault::None, Duration::ZERO);
    let mut outgoing = Outgoing::new(Box::new(writer));
    assert!(!outgoing.take_credit(1));
    outgoing.write(&[&[7; 10]], 10).expect("room");
    assert!(!outgoing.take_credit(2) && !outgoing.take_credit(u32::MAX));
    assert!(outgoing.take_credit(1));
}
