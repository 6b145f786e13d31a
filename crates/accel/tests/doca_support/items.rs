//! Items of which some are whole and some are not: streams in containers, blocks of erasure codes.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use dpb_core::{Backend, Items, Job, JobError, Workload};

use super::cases::workload;

/// A change to a stream in words, the item, and its end, if that is known.
type Case = (&'static str, Vec<u8>, Option<Result<(), JobError>>);

/// Decompresses, in one job, each of [`cases`]; says how many were right.
pub(super) fn unwraps(backend: &dyn Backend) {
    for format in ["zlib", "gzip"] {
        let workload = workload("inflate", &format!("format={format}"));
        let plain = workload.plain(7, 300, 1).bytes;
        let cases = cases(
            format,
            &workload.encode_item(&plain).expect("a stream of it"),
        );
        let items = cases.iter().map(|(_, item, _)| item.clone()).collect();
        let outcomes = outcomes(backend, &*workload, items, plain.len());
        for ((what, _, ends), outcome) in cases.iter().zip(outcomes) {
            if let Some(ends) = ends {
                assert_eq!(outcome.map(|_| ()), *ends, "{format}, {what}");
            }
        }
        println!("{} items of {format} end as they must", cases.len());
    }
}

/// Computes the parity of one item of four, for which the engine is asked once; the others are none, or not of whole units.
pub(super) fn settles(backend: &dyn Backend) {
    let workload = workload("erasure-encode", "data=3,parity=2");
    let items = [0, 64, 2 * 192, 193].map(|len| vec![7; len]).to_vec();
    let malformed = Err(JobError::Malformed);
    let expected = [Ok(0), malformed, Ok(2 * 128), malformed];
    assert_eq!(outcomes(backend, &*workload, items, 256), expected);
    println!("one item is computed");
}

/// The outcomes of `items` in one job, judged.
fn outcomes(
    backend: &dyn Backend,
    workload: &dyn Workload,
    items: Vec<Vec<u8>>,
    slot_bytes: usize,
) -> Vec<Result<u32, JobError>> {
    let mut end = 0;
    let ends = items.iter().map(|item| {
        end += item.len() as u32;
        end
    });
    let offsets = Items::Offsets(std::iter::once(0).chain(ends).collect());
    let bytes = items.concat();
    let mut src = backend.alloc(bytes.len()).expect("memory");
    src.copy_from_slice(&bytes);
    let dst = backend.alloc(slot_bytes * items.len()).expect("memory");
    let operator = backend.prepare(workload.spec()).expect("an engine");
    let job = Job::new(0, src.freeze(), offsets, dst, operator.shape());
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
    let mut done = Vec::new();
    queue.submit(&mut VecDeque::from([job]));
    while done.is_empty() {
        queue.poll(&mut done);
    }
    let done = done.remove(0);
    assert_eq!(done.result, Ok(()));
    for (i, item) in items.iter().enumerate() {
        let output = done.job.output(operator.shape(), i);
        let judged = workload.check(item, output, slot_bytes);
        judged.unwrap_or_else(|wrong| panic!("{}, item {i}: {wrong}", workload.spec()));
    }
    done.job.into_parts().outcomes
}

fn cases(format: &str, whole: &[u8]) -> Vec<Case> {
    let malformed = Some(Err(JobError::Malformed));
    let (header, trailer) = if format == "zlib" { (2, 4) } else { (10, 8) };
    let (body, end) = (&whole[header..], whole.len());
    let flipped = |at: usize, bit: u8| {
        let mut item = whole.to_vec();
        item[at] ^= bit;
        item
    };
    let after = |header: &[u8]| [header, body].concat();
    let mut cases = vec![
        ("whole", whole.to_vec(), Some(Ok(()))),
        ("a wrong check", flipped(end - trailer, 1), malformed),
        ("a wrong last byte", flipped(end - 1, 0x80), malformed),
        ("a cut trailer", whole[..end - 1].to_vec(), None),
        ("no trailer", whole[..end - trailer].to_vec(), None),
        ("a header alone", whole[..header].to_vec(), malformed),
        ("half a header", whole[..header - 1].to_vec(), malformed),
        (
            "header and trailer",
            [&whole[..header], &whole[end - trailer..]].concat(),
            malformed,
        ),
        ("nothing", Vec::new(), malformed),
        (
            "another method",
            flipped(if header == 2 { 0 } else { 2 }, 1),
            malformed,
        ),
    ];
    if format == "zlib" {
        // RFC 1950, 2.2: FDICT, with the dictionary's Adler-32 behind it; a window of 256 bytes.
        cases.push(("a dictionary", after(&[0x78, 0x20, 0, 0, 0, 1]), malformed));
        cases.push(("a small window", after(&[0x08, 0x1d]), Some(Ok(()))));
        return cases;
    }
    // RFC 1952, 2.3: FTEXT, FHCRC, FEXTRA, FNAME, FCOMMENT, and a bit that is reserved.
    let gzip = |flags, more: &[u8]| {
        let fixed = [0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 3];
        after(&[&fixed, more].concat())
    };
    let all = b"\x03\0abcname\0comment\0\x12\x34";
    cases.push(("every field", gzip(31, all), Some(Ok(()))));
    cases.push(("an extra field", gzip(4, b"\0\0"), Some(Ok(()))));
    cases.push(("a name", gzip(8, b"a\0"), Some(Ok(()))));
    cases.push(("a field beyond the end", gzip(4, b"\xff\xff"), malformed));
    cases.push(("a reserved flag", gzip(32, b""), malformed));
    cases
}
