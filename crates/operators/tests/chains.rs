//! Chains of operators are operators: they pass the suite that every operator passes, each output is that of the stages one behind
//! another, and a job comes home with what is the caller's whatever a stage does.

#[path = "support/chained.rs"]
mod chained;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use chained::Chained;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, Chain, Inline, Items, Job, JobError, Kernel, Limits, Memory,
    OpSpec, Operator, OutputShape, SetupError, Workload, conformance,
    spec::{self},
};
use dpb_operators::cpu::FAMILIES;
use dpb_operators::registry::find;
use rayon::prelude::*;

const CHAINS: &[&[&str]] = &[
    &["crc32c"],
    &["sha256", "crc32c"],
    &["inflate", "sha256"],
    &["aes-gcm-decrypt", "inflate"],
    &["aes-gcm-decrypt", "inflate", "sha256", "crc32c"],
    // The second would write before its item in place.
    &["checksum-fill", "aes-ctr"],
    // In place from end to end: packets out of a tunnel, their checksums left to the far end.
    &["aes-gcm-decrypt", "checksum-fill"],
    &["aes-gcm-decrypt", "checksum-fill", "checksum-fill"],
];

#[test]
fn chains_conform() {
    // Of a pool those that have most stages, out of place and in place.
    let pooled = CHAINS.iter().filter(|names| names.len() >= 3);
    let pooled = pooled.map(|names| ("pool/2", names));
    let cases: Vec<_> = pooled
        .chain(CHAINS.iter().map(|names| ("cpu/best", names)))
        .collect();
    cases.par_iter().for_each(|(backend, names)| {
        let workload = Chained::of(names);
        let backend = FAMILIES.open(backend).expect("a CPU");
        let coverage = conformance::check(&backend, &[&workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 0, "{names:?}: nothing compared");
    });
}

/// What stands before an item's slot stays as it was, so that only the first stage may have anything there. A refusal names the stage to
/// blame.
#[test]
fn a_chain_works_in_place_if_no_later_stage_writes_before_its_slot() {
    let backend = FAMILIES.open("cpu/best").expect("a CPU");
    for (names, right) in [
        (&["aes-gcm-decrypt", "checksum-fill"][..], Ok(12)),
        (&["checksum-fill", "checksum-fill"], Ok(0)),
        (
            &["checksum-fill", "aes-ctr"],
            Err("stage 2 of 2, aes-ctr: its output begins 16 bytes"),
        ),
        (
            &["inflate", "checksum-fill"],
            Err("stage 1 of 2, inflate: an item is still read"),
        ),
        (
            &["aes-ctr", "sha256"],
            Err("stage 2 of 2, sha256: an output of fixed length"),
        ),
    ] {
        let operator = backend.prepare(Chained::of(names).spec());
        match (operator.expect("prepared").in_place(), right) {
            (Ok(offset), Ok(right)) => assert_eq!(offset, right, "{names:?}"),
            (Err(why), Err(right)) => assert!(why.reason.starts_with(right), "{names:?}: {why}"),
            (other, _) => panic!("{names:?}: {other:?}"),
        }
    }
}

#[test]
fn a_chain_of_chains_is_a_chain() {
    let inner = ["inflate", "sha256"].map(|name| Chained::of(&[name]).spec().clone());
    let backend = FAMILIES.open("cpu/best").expect("a CPU");
    let [inflate, sha256] = &inner;
    let outer = OpSpec::from(spec::Chain(vec![
        inflate.clone(),
        spec::Chain(vec![sha256.clone()]).into(),
    ]));
    let operator = backend.prepare(&outer).expect("nested");
    assert_eq!(operator.spec(), &outer);
    assert_eq!(operator.shape(), OutputShape::Variable);
}

#[test]
fn what_one_stage_cannot_do_the_chain_cannot() {
    let library = FAMILIES.open("cpu/libdeflate").expect("a CPU");
    let spec = Chained::of(&["inflate", "sha256"]).spec().clone();
    let refused = library.limits(&spec).expect_err("no such path");
    assert!(refused.reason.starts_with("sha256 has no"), "{refused}");
    let none = OpSpec::from(spec::Chain(Vec::new()));
    let refused = library.prepare(&none).map(drop);
    assert!(
        matches!(refused, Err(SetupError::Unsupported(_))),
        "{refused:?}"
    );
}

#[test]
fn the_code_of_a_chain_is_that_of_its_stages() {
    let backend = FAMILIES.open("cpu/best").expect("a CPU");
    let of = |name: &str| {
        let entry = find(name).expect("an operator");
        backend.code(&entry.default_spec()).expect("a CPU knows")
    };
    let code = backend.code(Chained::of(&["inflate", "sha256"]).spec());
    let right = format!("inflate: {}; sha256: {}", of("inflate"), of("sha256"));
    assert_eq!(code, Some(right));
    let unknown = OpSpec::from(spec::Chain(vec![OpSpec::custom("nobody", [])]));
    assert_eq!(backend.code(&unknown), None);
}

/// Between stages a decoder has the room that `dst_len` says, whatever its item decodes to: an item beyond it is refused alone.
#[test]
fn a_decoder_that_needs_more_room_between_stages_refuses_its_item() {
    let backend = FAMILIES.open("cpu/best").expect("a CPU");
    let chained = Chained::of(&["inflate", "sha256"]);
    let operator = backend.prepare(chained.spec()).expect("prepared");
    let [short, long] = [10, 1 << 20].map(|len| {
        let item = chained.encode_item(&vec![7; len]);
        item.expect("a stream")
    });
    let stage = find("inflate").expect("an operator").default_spec();
    let decoder = backend.prepare(&stage).expect("prepared");
    assert!(decoder.dst_len(long.len()) < 1 << 20, "it needs more");
    let src = [&short[..], &long, &short].concat();
    let items = Items::one_behind_another([short.len(), long.len(), short.len()]);
    let mut buf = zeroed(src.len()).expect("memory");
    buf.copy_from_slice(&src);
    let dst = zeroed(3 * 32).expect("memory");
    let job = Job::new(0, buf, items, dst, operator.shape());
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
    let mut done = Vec::new();
    queue.submit(&mut VecDeque::from([job]));
    assert_eq!(queue.poll(&mut done), 1);
    assert_eq!(done[0].result, Ok(()));
    let output = |i| done[0].job.output(operator.shape(), i);
    assert_eq!(output(1), Err(JobError::DstTooShort));
    for i in [0, 2] {
        assert_eq!(chained.check(&short, output(i), 32), Ok(()));
    }
}

#[test]
fn what_lies_between_needs_a_bound() {
    let backend = FAMILIES.open("cpu/best").expect("a CPU");
    let stage = backend
        .prepare(&OpSpec::from(spec::Sha256))
        .expect("a CPU has it");
    let limits = Limits::new(NonZeroU32::MIN);
    let chain = Chain::new(vec![stage], limits, zeroed);
    assert!(matches!(chain, Err(SetupError::Parameter(_))));
}

fn zeroed(len: usize) -> Result<Buf, SetupError> {
    Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
}

/// Copies its items, and fails jobs whose first item begins with this byte.
struct Fails(u8);

impl Kernel for Fails {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        if batch.item(0).first() == Some(&self.0) {
            return Err(JobError::Device(self.0.into()));
        }
        out.each_outcome(batch, |item, slot| {
            slot[..item.len()].copy_from_slice(item);
            Ok(item.len() as u32)
        });
        Ok(())
    }
}

/// A job that fails at any stage comes home with the caller's memory and lists, and the next one is right.
#[test]
fn a_job_that_a_stage_fails_comes_home_whole() {
    let mut limits = Limits::new(NonZeroU32::MIN);
    (limits.input_bytes_max, limits.items_max) = (64, 4);
    let stage = |byte: u8| -> Arc<dyn Operator> {
        let spec = OpSpec::custom("fails", [("at", i64::from(byte).into())]);
        Arc::new(Inline::new(Fails(byte), spec, limits))
    };
    let chain = Chain::new(vec![stage(1), stage(2), stage(3)], limits, zeroed);
    let chain = Arc::new(chain.expect("three stages"));
    let mut queue = chain.clone().open(NonZeroU32::MIN).expect("opens");
    let [mut src, dst] = [16, 16].map(|len| zeroed(len).expect("memory"));
    src[4] = 9;
    let [at_src, at_dst] = [&src, &dst].map(|buf| buf.as_ptr());
    let list = |lens: &[usize]| Items::one_behind_another(lens.iter().copied());
    let [items, slots] = [list(&[4, 4]), list(&[8, 8])];
    let outcomes = Vec::with_capacity(2);
    let mut job = Job::with_slots(7, src, items.clone(), dst, slots.clone(), outcomes);
    let (mut ready, mut done) = (VecDeque::new(), Vec::new());
    for first in [0, 1, 2, 3, 0, 3, 2, 1, 0] {
        if let Memory::Own(buffers) = &mut job.src {
            buffers[0][0] = first;
        }
        ready.push_back(job);
        assert_eq!(queue.submit(&mut ready), 1);
        assert_eq!(queue.poll(&mut done), 1);
        let completion = done.pop().expect("polled");
        job = completion.job;
        let right = match first {
            0 => Ok(()),
            byte => Err(JobError::Device(byte.into())),
        };
        assert_eq!(completion.result, right);
        assert_eq!((job.tag, &job.items, &job.slots), (7, &items, &slots));
        assert_eq!([job.src[0].as_ptr(), job.dst[0].as_ptr()], [at_src, at_dst]);
        if right.is_ok() {
            assert_eq!(job.output(chain.shape(), 0), Ok(&[0, 0, 0, 0][..]));
            assert_eq!(job.output(chain.shape(), 1), Ok(&[9, 0, 0, 0][..]));
        }
        // Beyond the limits it does not even begin.
        let many = std::mem::replace(&mut job.items, list(&[1; 5]));
        ready.push_back(job);
        queue.submit(&mut ready);
        queue.poll(&mut done);
        let completion = done.pop().expect("polled");
        assert_eq!(completion.result, Err(JobError::TooManyItems));
        job = completion.job;
        job.items = many;
    }
}
