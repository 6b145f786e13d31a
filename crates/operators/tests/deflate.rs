//! DEFLATE and INFLATE: streams of other implementations, both ways between the paths, bad streams, bounded output.

use dpb_core::{Batch, BatchOut, DeflateFormat, Input, Items, JobError, Kernel};
use dpb_operators::cpu::Path;
use dpb_operators::input;
use dpb_operators::storage::deflate::{Deflate, Inflate, compressed_bytes_max};
use proptest::prelude::*;

const FORMATS: [DeflateFormat; 3] = [DeflateFormat::Raw, DeflateFormat::Zlib, DeflateFormat::Gzip];
const PATHS: [Path; 2] = [Path::Libdeflate, Path::Portable];
/// Behind the slot; must stay as it is.
const CANARY: u8 = 0xa5;

fn run<K: Kernel>(kernel: &K, item: &[u8], slot: usize) -> Result<Vec<u8>, JobError> {
    let mut dst = vec![CANARY; slot + 64];
    let mut outcomes = Vec::with_capacity(1);
    let out = BatchOut {
        dst: &mut dst[..slot],
        slot,
        outcomes: &mut outcomes,
    };
    let batch = Batch::new(item, &Items::One).expect("one item");
    kernel.run(batch, out, &mut kernel.scratch())?;
    assert!(
        dst[slot..].iter().all(|byte| *byte == CANARY),
        "wrote past its slot"
    );
    let len = outcomes[0]? as usize;
    assert!(len <= slot);
    dst.truncate(len);
    Ok(dst)
}

fn encode(path: Path, level: u8, format: DeflateFormat, plain: &[u8]) -> Vec<u8> {
    let kernel = Deflate::new(path, level, format).expect("in range");
    run(&kernel, plain, compressed_bytes_max(plain.len())).expect("the bound holds")
}

fn decode(
    path: Path,
    format: DeflateFormat,
    stream: &[u8],
    slot: usize,
) -> Result<Vec<u8>, JobError> {
    run(&Inflate::new(path, format).expect("any CPU"), stream, slot)
}

fn format(name: &str) -> DeflateFormat {
    let named = |format: &DeflateFormat| format.name() == name;
    FORMATS.into_iter().find(named).expect("a format")
}

#[test]
fn streams_of_zlib_decode() {
    let plain = include_bytes!("data/plain.bin");
    let mut streams = 0;
    let lines = include_str!("data/zlib_streams.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split(' ').collect();
        let (format, digits) = (format(fields[0]), fields[2]);
        let stream: Vec<u8> = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
            .collect();
        for path in PATHS {
            let name = format!("{path}, {} level {}", fields[0], fields[1]);
            // What follows the stream is not looked at.
            let followed = [&stream[..], b"rest"].concat();
            for stream in [&stream, &followed] {
                let found = decode(path, format, stream, plain.len());
                assert_eq!(found.as_deref(), Ok(&plain[..]), "{name}");
            }
            let short = decode(path, format, &stream, plain.len() - 1);
            assert_eq!(short, Err(JobError::DstTooShort), "{name}");
            for end in [0, 1, stream.len() / 2, stream.len() - 1] {
                let cut = decode(path, format, &stream[..end], plain.len());
                assert_eq!(cut, Err(JobError::Malformed), "{name}, cut at {end}");
            }
            if format != DeflateFormat::Raw {
                let mut flipped = stream.clone();
                *flipped.last_mut().expect("not empty") ^= 1;
                let found = decode(path, format, &flipped, plain.len());
                assert_eq!(found, Err(JobError::Malformed), "{name}, flipped check");
            }
        }
        streams += 1;
    }
    assert_eq!(streams, 12);
}

/// RFC 1951: reserved block type; stored length that is not its complement; distance before the start;
/// over-subscribed code.
#[test]
fn malformed_streams_are_refused() {
    let streams: [&[u8]; 5] = [
        &[0x07],
        &[0x01, 0x05, 0x00, 0x00, 0x00, b'a', b'b', b'c', b'd', b'e'],
        &[0x4b, 0x04, 0x12],
        &[
            0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
        &[],
    ];
    for path in PATHS {
        for stream in streams {
            let found = decode(path, DeflateFormat::Raw, stream, 1 << 16);
            assert_eq!(found, Err(JobError::Malformed), "{path}, {stream:02x?}");
        }
    }
}

#[test]
fn a_bomb_stops_at_its_slot() {
    for path in PATHS {
        let stream = encode(
            Path::Libdeflate,
            9,
            DeflateFormat::Gzip,
            &vec![0; 10_000_000],
        );
        assert!(stream.len() < 20_000);
        let found = decode(path, DeflateFormat::Gzip, &stream, 4096);
        assert_eq!(found, Err(JobError::DstTooShort), "{path}");
    }
}

#[test]
fn an_encoder_refuses_a_slot_that_is_too_short() {
    let plain = Input::random(1, 1000, 1).bytes;
    for path in PATHS {
        for format in FORMATS {
            for slot in [0, 1, 9, 10, 500, 999] {
                let kernel = Deflate::new(path, 6, format).expect("in range");
                let found = run(&kernel, &plain, slot);
                assert_eq!(
                    found,
                    Err(JobError::DstTooShort),
                    "{path}, {format:?}, {slot}"
                );
            }
        }
    }
}

#[test]
fn every_level_and_format_decodes_on_both_paths() {
    let inputs = [
        input::text(1, 20_000, 1).bytes,
        Input::random(1, 70_000, 1).bytes,
        Vec::new(),
    ];
    for plain in inputs {
        for format in FORMATS {
            for level in 1..=9 {
                for encoder in PATHS {
                    let stream = encode(encoder, level, format, &plain);
                    for decoder in PATHS {
                        let found = decode(decoder, format, &stream, plain.len());
                        assert!(
                            found.as_deref() == Ok(&plain[..]),
                            "{encoder} to {decoder}, {format:?} level {level}"
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 300 } else { 40 }))]

    /// Random bytes, and real streams with some bytes changed: both paths take the same and refuse the same.
    #[test]
    fn hostile_streams_are_taken_or_refused_alike(
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        len in 0usize..3000,
        noise: bool,
        format in prop::sample::select(&FORMATS[..]),
    ) {
        let mut stream = if noise {
            Input::random(seed, len, 1).bytes
        } else {
            encode(Path::Portable, 6, format, &input::text(seed, len, 1).bytes)
        };
        for (at, byte) in changes {
            if !stream.is_empty() {
                let at = at.index(stream.len());
                stream[at] = byte;
            }
        }
        let right = decode(Path::Portable, format, &stream, 4096).ok();
        let found = decode(Path::Libdeflate, format, &stream, 4096).ok();
        prop_assert_eq!(found, right);
    }
}
