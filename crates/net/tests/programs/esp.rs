//! ESP against RustCrypto, etherparse and scapy, and against itself back to back.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit};
use dpb_core::{Buf, Direction, OpSpec};
use dpb_net::flow::toeplitz::{SYMMETRIC_KEY, Toeplitz};
use dpb_net::pipeline::{Burst, Distributor, Line, Mark, OffloadStage, Pool, Reason, Stage};
use dpb_net::programs::esp::{
    self, Association, Gateway, GatewaySharding, Mode, Open, Opening, Seal, Tunnel,
};
use etherparse::{NetHeaders, PacketHeaders};
use proptest::prelude::*;

use super::support::{self, Manner, buf, gcm, udp_v4, udp_v6};
use super::{one, through};

const KEY: [u8; 16] = [0x3c; 16];
const SALT: [u8; 4] = [0xca, 0xfe, 0xba, 0xbe];
const SPI: u32 = 0x1234;
const EPOCH: u64 = 1_800_000_000_000_000_000;

fn pool() -> Pool {
    Pool::new(512, 2048, 128).expect("memory")
}

const TUNNEL_V4: Mode = Mode::Tunnel(Tunnel::V4 {
    source: Ipv4Addr::new(198, 51, 100, 1),
    destination: Ipv4Addr::new(203, 0, 113, 9),
});
const TUNNEL_V6: Mode = Mode::Tunnel(Tunnel::V6 {
    source: Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 2),
});
const MODES: [Mode; 3] = [Mode::Transport, TUNNEL_V4, TUNNEL_V6];

fn association(mode: Mode) -> Association {
    Association {
        spi: SPI,
        salt: SALT,
        mode,
    }
}

fn seal(mode: Mode, mtu: u16, manner: Manner) -> OffloadStage<Seal> {
    let engine = gcm(Direction::Encrypt, &KEY, manner);
    association(mode).seal(&engine, pool(), mtu).expect("opens")
}

fn open(mode: Mode, opening: Opening, manner: Manner) -> OffloadStage<Open> {
    let engine = gcm(Direction::Decrypt, &KEY, manner);
    association(mode)
        .open(&engine, pool(), opening)
        .expect("opens")
}

/// What RFC 4303 and RFC 4106 say of a frame, by etherparse and RustCrypto: (text without padding, protocol, sequence).
fn decrypted(frame: &[u8], key: &[u8], salt: [u8; 4], spi: u32) -> (Vec<u8>, u8, u32) {
    let headers = PacketHeaders::from_ethernet_slice(frame).expect("sound");
    let (protocol, header_bytes) = match headers.net.expect("IP") {
        NetHeaders::Ipv4(header, _) => {
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), frame.len() - 14);
            (header.protocol.0, header.header_len())
        }
        NetHeaders::Ipv6(header, _) => {
            assert_eq!(usize::from(header.payload_length), frame.len() - 54);
            (header.next_header.0, 40)
        }
        NetHeaders::Arp(_) => panic!("IP"),
    };
    assert_eq!(protocol, 50);
    let esp = &frame[14 + header_bytes..];
    assert_eq!(esp[..4], spi.to_be_bytes());
    let nonce = [&salt[..], &esp[8..16]].concat();
    let nonce = nonce[..].try_into().expect("twelve bytes");
    let (aad, rest) = (&esp[..8], &esp[16..]);
    let (sealed, tag) = rest.split_at(rest.len() - 16);
    let tag = tag.try_into().expect("sixteen bytes");
    let mut text = sealed.to_vec();
    let opened = InOutBuf::from(&mut text[..]);
    match key.len() {
        16 => (Aes128Gcm::new_from_slice(key).expect("a key"))
            .decrypt_inout_detached(nonce, aad, opened, tag),
        _ => (Aes256Gcm::new_from_slice(key).expect("a key"))
            .decrypt_inout_detached(nonce, aad, opened, tag),
    }
    .expect("genuine");
    let [.., padding, protocol] = text[..] else {
        panic!("a trailer");
    };
    assert_eq!(text.len() % 4, 0);
    let len = text.len() - 2 - usize::from(padding);
    assert!(padding < 4 && text[len..text.len() - 2].iter().copied().eq(1..=padding));
    let sequence = u32::from_be_bytes(*esp[4..].first_chunk().expect("a number"));
    (text[..len].to_vec(), protocol, sequence)
}

fn frames(lens: &[usize], is_v6: bool) -> Vec<Vec<u8>> {
    let frame = |len: &usize| {
        let payload: Vec<u8> = (0..*len).map(|i| i as u8).collect();
        match is_v6 {
            false => udp_v4([[10, 1, 2, 3], [192, 0, 2, 77]], [5, 6], 9, &payload),
            true => udp_v6([[0x20; 16], [0x21; 16]], [5, 6], 9, &payload),
        }
    };
    lens.iter().map(frame).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two programs back to back carry plain traffic: in place or not, whatever the order in which jobs come home, from pools and from elsewhere, with
    /// padding of Ethernet or without. In between, others can read it.
    #[test]
    fn back_to_back_carries_plain_traffic(
        lens in prop::collection::vec(0_usize..1350, 1..80), mode in 0_usize..3, is_v6: bool, padding in 0_usize..40, not_in_place: bool,
        disorder: Option<u64>, from_pool: bool,
    ) {
        let (mode, manner) = (MODES[mode], Manner { not_in_place, disorder, ..Manner::default() });
        let plain = frames(&lens, is_v6);
        let source = Pool::new(100, 2048, 100).expect("memory");
        let given = plain.iter().map(|frame| {
            let padded = [&frame[..], &vec![0; padding]].concat();
            if from_pool { source.copy(&padded).expect("free") } else { buf(&padded) }
        });
        let seal = seal(mode, 1500, manner);
        prop_assert_eq!(seal.works_in_place(), !not_in_place);
        let mut sealing = Line::new("seal", vec![Box::new(seal)], 16);
        let sealed: Vec<Buf> = through(&mut sealing, given.collect()).into_iter().map(|outcome| outcome.expect("sealed").0).collect();
        for (i, (frame, plain)) in sealed.iter().zip(&plain).enumerate() {
            let (text, protocol, sequence) = decrypted(frame, &KEY, SALT, SPI);
            prop_assert_eq!(sequence as usize, i + 1);
            let ip = if is_v6 { 40 } else { 20 };
            match mode {
                Mode::Transport => prop_assert_eq!((&text[..], protocol), (&plain[14 + ip..], 17)),
                Mode::Tunnel(_) => prop_assert_eq!((&text[..], protocol), (&plain[14..], if is_v6 { 41 } else { 4 })),
            }
            prop_assert_eq!(&frame[..12], &plain[..12]);
        }
        let mut opening = Line::new("open", vec![Box::new(open(mode, Opening::default(), manner))], 16);
        let opened = through(&mut opening, sealed);
        prop_assert_eq!(opened.len(), plain.len());
        for (outcome, plain) in opened.into_iter().zip(&plain) {
            let (frame, _) = outcome.expect("opened");
            prop_assert_eq!(&frame[..], &plain[..]);
        }
    }

    /// No byte of an ESP packet can change without being noticed; nothing panics.
    #[test]
    fn damaged_packets_are_refused(mode in 0_usize..3, at: prop::sample::Index, flip in 1_u8.., cut in 0_usize..40) {
        let mode = MODES[mode];
        let (sealed, _) = one(vec![Box::new(seal(mode, 1500, Manner::default()))], &frames(&[50], false)[0]).expect("sealed");
        let esp = if let Mode::Tunnel(Tunnel::V6 { .. }) = mode { 54 } else { 34 };
        let mut damaged = sealed.clone();
        damaged[esp + at.index(sealed.len() - esp)] ^= flip;
        let outcome = one(vec![Box::new(open(mode, Opening::default(), Manner::default()))], &damaged);
        let reason = outcome.expect_err("damaged");
        prop_assert!([esp::UNKNOWN, esp::FORGED].contains(&reason), "{}", reason);
        // Anywhere in the frame: an outcome, whatever it is.
        let mut damaged = sealed[..sealed.len() - cut].to_vec();
        let place = at.index(damaged.len());
        damaged[place] ^= flip;
        let _ = one(vec![Box::new(open(mode, Opening::default(), Manner::default()))], &damaged);
    }
}

/// Packets that scapy made are opened, and packets that are made here are what scapy made but for the IV, which scapy draws.
#[test]
fn scapys_packets_are_understood() {
    let text = include_str!("../data/esp.txt");
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|two| {
                u8::from_str_radix(std::str::from_utf8(two).expect("ASCII"), 16).expect("hex")
            })
            .collect()
    };
    let (mut count, mut equal) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [mode, key, salt, spi, sequence, plain, sealed] =
            line.split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let (key, plain, sealed) = (hex(key), hex(plain), hex(sealed));
        let salt: [u8; 4] = hex(salt).try_into().expect("four bytes");
        let spi = u32::from_str_radix(spi, 16).expect("hex");
        let sequence: u32 = sequence.parse().expect("a number");
        let is_outer_v6 = sealed[12] == 0x86;
        let mode = match (mode, is_outer_v6) {
            ("transport", _) => Mode::Transport,
            (_, false) => TUNNEL_V4,
            (_, true) => TUNNEL_V6,
        };
        let association = Association { spi, salt, mode };
        let engine = gcm(Direction::Decrypt, &key, Manner::default());
        let opening = association
            .open(&engine, pool(), Opening::default())
            .expect("opens");
        let (opened, _) = one(vec![Box::new(opening)], &sealed).expect("opened");
        assert_eq!(opened, plain, "{line}");

        let (text, protocol, number) = decrypted(&sealed, &key, salt, spi);
        assert_eq!(number, sequence);
        let engine = gcm(Direction::Encrypt, &key, Manner::default());
        let sealing = association.seal(&engine, pool(), 1500).expect("opens");
        let mut line = Line::new("seal", vec![Box::new(sealing)], 2);
        let given = (0..sequence).map(|_| buf(&plain)).collect();
        let (ours, _) = through(&mut line, given)
            .pop()
            .expect("the last")
            .expect("sealed");
        assert_eq!(
            decrypted(&ours, &key, salt, spi),
            (text, protocol, sequence)
        );
        assert_eq!(ours.len(), sealed.len());
        // With one IV they are the same, bit by bit, from SPI to tag.
        let esp = if is_outer_v6 { 54 } else { 34 };
        if sealed[esp + 8..esp + 16] == u64::from(sequence).to_be_bytes() {
            assert_eq!(ours[esp..], sealed[esp..]);
            equal += 1;
        }
        count += 1;
    }
    assert_eq!((count, equal), (25, 12));
}

/// Two ends of three shards each: what comes plain on one side comes plain out of the other, both ways; between there is ESP, of which each association comes to one shard.
/// ARP passes, others do not.
#[test]
fn gateways_carry_traffic_both_ways() {
    const SHARDS: u16 = 3;
    let first = Association {
        spi: SPI,
        salt: SALT,
        mode: Mode::Transport,
    };
    let numbered = |odd: u32| {
        (0..8)
            .map(|i| first.numbered(2 * i + odd))
            .collect::<Vec<_>>()
    };
    let engines = || {
        let of = |direction| gcm(direction, &KEY, Manner::default());
        (of(Direction::Encrypt), of(Direction::Decrypt))
    };
    let end = |is_near: bool| {
        let ((seals, opens), (even, odd)) = (engines(), (numbered(0), numbered(1)));
        let (sends, receives) = if is_near { (even, odd) } else { (odd, even) };
        Gateway {
            plain: vec![is_near, !is_near],
            sends,
            receives,
            seals,
            opens,
            mtu: 1500,
            opening: Opening::default(),
            epoch: EPOCH,
            lets_arp_pass: true,
        }
    };
    let (near, far) = (end(true), end(false));
    let toeplitz = || Toeplitz::new(SYMMETRIC_KEY);
    let mut shardings = [&near, &far].map(|end| GatewaySharding::new(toeplitz(), SHARDS, end));
    let lines = |end: &Gateway| -> Vec<Line> {
        let of = |shard| Line::new("end", end.stages(shard, &pool()).expect("opens"), 8);
        (0..usize::from(SHARDS)).map(of).collect()
    };
    let mut lines = [lines(&near), lines(&far)];
    // A frame through the end `at`, by the port `ingress`, on its own shard.
    let mut through_end = |at: usize, ingress: u16, frame: &[u8]| {
        let mut shards = Vec::new();
        shardings[at].spread(ingress, &[buf(frame)], &mut shards);
        let line = &mut lines[at][usize::from(shards[0])];
        let mut burst = Burst::with_capacity(1);
        burst.push(buf(frame), Mark::of(ingress));
        let before = dropped(line);
        line.offer(&mut [burst].into());
        let mut done = Vec::new();
        for _ in 0..10 {
            line.poll(&mut done);
        }
        let after = dropped(line);
        let reason = after
            .iter()
            .find(|(of, count)| before.get(*of) != Some(*count));
        let came: Vec<_> = done[0].drain().map(|(frame, _)| frame.to_vec()).collect();
        (
            shards[0],
            came.into_iter()
                .next()
                .ok_or_else(|| reason.map(|(of, _)| *of)),
        )
    };
    let (mut spis, mut ivs) = ([HashSet::new(), HashSet::new()], HashSet::new());
    for i in 0..200_u16 {
        let (a, b) = ([10, 1, 2, i as u8], [192, 0, 2, 77]);
        let there = udp_v4([a, b], [5 + i, 6], 9, &[i as u8; 50]);
        let back = udp_v4([b, a], [6, 5 + i], 9, &[i as u8; 70]);
        for (from, plain) in [(0, there), (1, back)] {
            // Port 0 of the near end and port 1 of the far one are plain.
            let (_, sealed) = through_end(from, from as u16, &plain);
            let sealed = sealed.expect("sealed");
            let spi = u32::from_be_bytes(*sealed[34..].first_chunk().expect("long"));
            let number = spi - SPI;
            assert_eq!(number % 2, from as u32);
            let salt = (u32::from_be_bytes(SALT) ^ number).to_be_bytes();
            let (text, ..) = decrypted(&sealed, &KEY, salt, spi);
            assert_eq!(text, plain[34..]);
            let sequence = u32::from_be_bytes(*sealed[38..].first_chunk().expect("long"));
            assert_eq!(sealed[42..50], (EPOCH + u64::from(sequence)).to_be_bytes());
            // No nonce comes twice: salt, which the SPI is for, and IV.
            assert!(ivs.insert((spi, sealed[42..50].to_vec())));
            let to = 1 - from;
            let (shard, opened) = through_end(to, from as u16, &sealed);
            assert_eq!(opened.expect("opened"), plain);
            spis[from].insert((spi, shard));
            let (same, again) = through_end(to, from as u16, &sealed);
            assert_eq!((same, again), (shard, Err(Some(esp::REPLAY))));
            // Nobody gets in who does not encrypt.
            let (_, stranger) = through_end(to, from as u16, &plain);
            assert_eq!(stranger, Err(Some(esp::UNPROTECTED)));
        }
    }
    for spis in spis {
        assert_eq!(
            spis.len(),
            usize::from(SHARDS),
            "one shard for each association: {spis:?}"
        );
    }
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    for (at, ingress) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        assert_eq!(through_end(at, ingress, &arp).1.as_ref(), Ok(&arp));
    }
    let wrong = Gateway {
        seals: near.opens.clone(),
        ..near.clone()
    };
    let error = wrong.stages(0, &pool()).err().expect("decrypts");
    assert!(error.to_string().contains("other direction"), "{error}");
    assert!(near.stages(8, &pool()).is_err(), "eight associations");
}

/// The packets that a line has dropped, by reason.
fn dropped(line: &Line) -> HashMap<Reason, u64> {
    let mut sums = HashMap::new();
    for report in line.reports() {
        for (reason, tally) in report.counters.dropped.iter() {
            *sums.entry(reason).or_insert(0) += tally.packets;
        }
    }
    sums
}

#[test]
fn replays_and_strangers_are_dropped_by_reason() {
    let mut sealing = Line::new(
        "seal",
        vec![Box::new(seal(TUNNEL_V4, 1500, Manner::default()))],
        8,
    );
    let sealed: Vec<Vec<u8>> = through(
        &mut sealing,
        frames(&[40; 200], false).iter().map(|f| buf(f)).collect(),
    )
    .into_iter()
    .map(|outcome| outcome.expect("sealed").0.to_vec())
    .collect();
    let opening = Opening {
        window: 64,
        ..Opening::default()
    };
    // A replay in the same burst, while the first one's job is out; one from an earlier burst; one from before the window.
    let order: Vec<usize> = (0..30)
        .chain([29, 3])
        .chain(30..200)
        .chain([150, 100, 0])
        .collect();
    let disorder = Manner {
        disorder: Some(3),
        ..Manner::default()
    };
    for manner in [Manner::default(), disorder] {
        let mut line = Line::new("open", vec![Box::new(open(TUNNEL_V4, opening, manner))], 1);
        let outcomes = through(&mut line, order.iter().map(|i| buf(&sealed[*i])).collect());
        let right = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let replayed = outcomes
            .iter()
            .filter(|outcome| outcome.as_ref().is_err_and(|r| *r == esp::REPLAY));
        assert_eq!((right, replayed.count()), (200, 5));
    }
    let opened = |frame: &[u8], opening| {
        let stage = open(TUNNEL_V4, opening, Manner::default());
        one(vec![Box::new(stage)], frame).map(|(frame, _)| frame)
    };
    let plain = &frames(&[40], false)[0];
    assert_eq!(opened(plain, Opening::default()), Err(esp::UNPROTECTED));
    let lets = Opening {
        lets_others_in: true,
        ..Opening::default()
    };
    assert_eq!(opened(plain, lets).as_ref(), Ok(plain));
    let mut other = sealed[0].clone();
    other[34] ^= 1;
    assert_eq!(opened(&other, lets), Err(esp::UNKNOWN));
    let mut short = sealed[0].clone();
    short.truncate(14 + 20 + 35);
    short[16..18].copy_from_slice(&55_u16.to_be_bytes());
    assert_eq!(opened(&short, lets), Err(Reason::MALFORMED));
    let mut fragment = sealed[0].clone();
    fragment[20] |= 0x20;
    assert_eq!(opened(&fragment, lets), Err(esp::FRAGMENT));
}

#[test]
fn packets_that_would_be_too_long_are_dropped_and_counted() {
    // 20 of the tunnel, 16 in front, 20 + 8 + n inside, 2 behind, 16 of the tag: a multiple of four.
    for (mode, len, fits) in [
        (TUNNEL_V4, 1418, true),
        (TUNNEL_V4, 1419, false),
        (TUNNEL_V6, 1398, true),
        (TUNNEL_V6, 1399, false),
        (Mode::Transport, 1438, true),
        (Mode::Transport, 1439, false),
    ] {
        let stage = seal(mode, 1500, Manner::default());
        let outcome = one(vec![Box::new(stage)], &frames(&[len], false)[0]);
        match fits {
            true => assert_eq!(outcome.expect("fits").0.len(), 14 + 1500, "{mode:?} {len}"),
            false => assert_eq!(outcome.map(|_| ()), Err(esp::TOO_LONG), "{mode:?} {len}"),
        }
    }
}

#[test]
fn the_last_number_is_used_once() {
    let engine = gcm(Direction::Encrypt, &KEY, Manner::default());
    let part = |sequence| {
        let association = association(Mode::Transport);
        Seal::new(association, pool(), 1500).after(sequence)
    };
    let stage = engine.stage(part(u32::MAX - 1), 2000).expect("opens");
    let mut line = Line::new("seal", vec![Box::new(stage)], 2);
    let given = frames(&[10, 10, 10], false)
        .iter()
        .map(|frame| buf(frame))
        .collect();
    let outcomes = through(&mut line, given);
    let last = outcomes[0].as_ref().expect("the last one");
    assert_eq!(decrypted(&last.0, &KEY, SALT, SPI).2, u32::MAX);
    assert!(
        outcomes[1..]
            .iter()
            .all(|o| o.as_ref().is_err_and(|r| *r == esp::EXHAUSTED))
    );
    assert_eq!(outcomes.len(), 3);
}

#[test]
fn congestion_is_handed_on_as_rfc_6040_says() {
    // Inner, outer, and what becomes of it (figure 4); 0 not capable, 1 and 2 capable, 3 experienced.
    let dropped = 9;
    for (inner, becomes) in [
        (0, [0, 0, 0, dropped]),
        (2, [2, 1, 2, 3]),
        (1, [1, 1, 1, 3]),
        (3, [3, 3, 3, 3]),
    ] {
        for (outer, right) in (0..).zip(becomes) {
            for is_v6 in [false, true] {
                let mut plain = frames(&[30], is_v6).remove(0);
                set_congestion(&mut plain, 14, inner);
                let stage = seal(TUNNEL_V4, 1500, Manner::default());
                let (mut sealed, _) = one(vec![Box::new(stage)], &plain).expect("sealed");
                assert_eq!(sealed[15] & 3, inner, "normal mode copies");
                set_congestion(&mut sealed, 14, outer);
                let stage = open(TUNNEL_V4, Opening::default(), Manner::default());
                let outcome = one(vec![Box::new(stage)], &sealed);
                if right == dropped {
                    assert_eq!(outcome.map(|_| ()), Err(esp::CONGESTED));
                    continue;
                }
                set_congestion(&mut plain, 14, right);
                assert_eq!(outcome.expect("opened").0, plain, "{inner} {outer} {is_v6}");
            }
        }
    }
}

/// Writes the congestion bits of the packet at `at`, and of IPv4 the checksum, by etherparse.
fn set_congestion(frame: &mut [u8], at: usize, bits: u8) {
    if frame[at] >> 4 == 6 {
        frame[at + 1] = frame[at + 1] & 0xcf | bits << 4;
        return;
    }
    frame[at + 1] = frame[at + 1] & 0xfc | bits;
    let header = etherparse::Ipv4HeaderSlice::from_slice(&frame[at..])
        .expect("sound")
        .to_header();
    let sum = header.calc_header_checksum();
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn operators_that_are_no_good_for_it_are_refused() {
    let association = association(TUNNEL_V4);
    let encrypts = gcm(Direction::Encrypt, &KEY, Manner::default());
    let error = association
        .open(&encrypts, pool(), Opening::default())
        .expect_err("encrypts");
    assert!(error.to_string().contains("other direction"), "{error}");
    let other = support::sum(Manner::default());
    let error = association.seal(&other, pool(), 1500).expect_err("sums");
    assert!(error.to_string().contains("takes aes-gcm"), "{error}");
    let reserved = Association {
        spi: 255,
        ..association
    };
    assert!(reserved.seal(&encrypts, pool(), 1500).is_err());
    assert_eq!(OpSpec::custom("sum", []).name(), "sum");
}

/// Jobs that are not carried out cost their packets, which are counted; nothing that was half made leaves.
#[test]
fn failed_jobs_are_counted() {
    let manner = Manner {
        disorder: Some(1),
        errors_ppm: 300_000,
        ..Manner::default()
    };
    let mut sealing = Line::new("seal", vec![Box::new(seal(TUNNEL_V4, 1500, manner))], 8);
    let outcomes = through(
        &mut sealing,
        frames(&[60; 960], false).iter().map(|f| buf(f)).collect(),
    );
    let failed = outcomes
        .iter()
        .filter(|o| o.as_ref().is_err_and(|r| *r == Reason::JOB_FAILED))
        .count();
    assert!(failed > 0 && failed % 32 == 0 && failed < 960, "{failed}");
    let sealed = outcomes.into_iter().flatten();
    let mut last = 0;
    for (frame, _) in sealed {
        let (_, _, sequence) = decrypted(&frame, &KEY, SALT, SPI);
        assert!(sequence > last);
        last = sequence;
    }
}
