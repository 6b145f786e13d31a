//! Chains on backends that know them and on backends that do not, what is too long between two stages, and the tables of stages.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use dpb_core::chain::changes_to;
use dpb_core::conformance::{self, sample};
use dpb_core::versions::Reader;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, Chain, ChangeError, Clock, Control, Families, Family, Inline,
    Items, Job, JobError, Kernel, Limits, Listed, OpSpec, OpenError, Operator, OutputShape,
    Properties, Right, SetupError, StageByStage, Unsupported, Versioned, Versions, Workload, spec,
};

fn zeroed(len: usize) -> Result<Buf, SetupError> {
    Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
}

/// Runs one job of `items`, each in the slot that the operator asks for: its outcome, and what came out.
fn outputs(operator: &Arc<dyn Operator>, items: &[&[u8]]) -> Result<Vec<Vec<u8>>, JobError> {
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
    let bytes = items.concat();
    let mut src = zeroed(bytes.len()).expect("memory");
    src.copy_from_slice(&bytes);
    let longest = items.iter().map(|item| item.len()).max().unwrap_or(0);
    let slot = match operator.shape() {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => operator.dst_len(longest),
    };
    let dst = zeroed(slot * items.len()).expect("memory");
    let [at_src, at_dst] = [&src, &dst].map(|buf| buf.as_ptr());
    let list = Items::one_behind_another(items.iter().map(|item| item.len()));
    let job = Job::new(7, src, list.clone(), dst, operator.shape());
    let (mut ready, mut done) = (VecDeque::from([job]), Vec::new());
    while done.is_empty() {
        queue.submit(&mut ready);
        queue.poll(&mut done);
    }
    let done = done.pop().expect("home");
    let job = done.job;
    assert_eq!((job.tag, &job.items), (7, &list));
    assert_eq!([job.src[0].as_ptr(), job.dst[0].as_ptr()], [at_src, at_dst]);
    done.result?;
    let output = |i| job.output(operator.shape(), i).map(<[u8]>::to_vec);
    (0..items.len()).map(output).collect()
}

/// Each byte of an item `times` times.
struct Repeats {
    times: usize,
    /// What `dst_len` says of three bytes, which is more than the formula for other lengths gives.
    of_three: Option<usize>,
}

impl Kernel for Repeats {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        match (item_len, self.of_three) {
            (3, Some(bytes)) => bytes,
            _ => self.times * item_len,
        }
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let len = self.times * item.len();
            let slot = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
            for (to, byte) in slot.chunks_mut(self.times).zip(item) {
                to.fill(*byte);
            }
            Ok(len as u32)
        });
        Ok(())
    }
}

fn repeats(of_three: Option<usize>, limits: Limits) -> Arc<dyn Operator> {
    let kernel = Repeats { times: 2, of_three };
    Arc::new(Inline::new(kernel, OpSpec::custom("repeats", []), limits))
}

fn small() -> Limits {
    let mut limits = Limits::new(NonZeroU32::MIN);
    (limits.input_bytes_max, limits.items_max) = (64, 4);
    limits.synchronous = true;
    limits
}

/// The chain takes items up to eight bytes, and so does its second stage, to which longer ones come.
#[test]
fn what_is_too_long_for_the_next_stage_fails_its_job() {
    let mut short = small();
    short.item_bytes_max = 8;
    let stages = vec![repeats(None, small()), repeats(None, short)];
    let chain: Arc<dyn Operator> = Arc::new(Chain::new(stages, short, zeroed).expect("two stages"));
    assert_eq!(outputs(&chain, &[b"abcde"]), Err(JobError::TooLong));
    assert_eq!(
        outputs(&chain, &[b"ab", b"c"]),
        Ok(vec![b"aaaabbbb".to_vec(), b"cccc".to_vec()])
    );
    assert_eq!(
        outputs(&chain, &[b"123456789"]),
        Err(JobError::TooLong),
        "the first stage's"
    );
}

/// A stage that says of some length that it needs more than its neighbours: memory between stages was not made for that.
#[test]
fn what_finds_no_memory_between_stages_fails_its_job() {
    let stages = vec![repeats(Some(1000), small()), repeats(None, small())];
    let chain = Chain::new(stages, small(), zeroed).expect("two stages");
    let chain: Arc<dyn Operator> = Arc::new(chain);
    assert_eq!(outputs(&chain, &[b"abc"]), Err(JobError::TooLong));
    assert_eq!(outputs(&chain, &[b"ab"]), Ok(vec![b"aaaabbbb".to_vec()]));
}

/// The sample, and what it was asked to prepare. It may know one chain: INFLATE, then CRC-32C.
struct Asked {
    sample: sample::Sample,
    knows_chain: bool,
    prepared: Mutex<Vec<String>>,
}

impl Asked {
    fn new(knows_chain: bool) -> Arc<Self> {
        Arc::new(Self {
            sample: sample::Sample::new(None),
            knows_chain,
            prepared: Mutex::default(),
        })
    }

    fn prepared(&self) -> Vec<String> {
        self.prepared.lock().expect("no panic").clone()
    }
}

/// The CRC-32C of what an item unpacks to, in one go.
struct UnpackedSum;

impl Kernel for UnpackedSum {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let sum = unpacked_sum(item)?;
            let slot = slot.get_mut(..4).ok_or(JobError::DstTooShort)?;
            slot.copy_from_slice(&sum);
            Ok(4)
        });
        Ok(())
    }
}

fn unpacked_sum(item: &[u8]) -> Result<Vec<u8>, JobError> {
    let right = |at: usize, item: &[u8]| match sample::workloads()[at].right(item, usize::MAX) {
        Right::Only(output) => Ok(output),
        Right::Refused(error) => Err(error),
        Right::AnyValid => unreachable!("one output is right"),
    };
    right(0, &right(2, item)?)
}

/// INFLATE, then CRC-32C.
fn chain() -> OpSpec {
    let stages = [2, 0].map(|at| sample::workloads()[at].spec().clone());
    OpSpec::from(spec::Chain(stages.to_vec()))
}

impl Backend for Asked {
    fn name(&self) -> &str {
        "asked"
    }

    fn clock(&self) -> &dyn Clock {
        self.sample.clock()
    }

    fn properties(&self) -> Properties {
        self.sample.properties()
    }

    fn code(&self, spec: &OpSpec) -> Option<String> {
        Some(format!("by hand for {}", spec.name()))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.sample.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        match self.knows_chain && *spec == chain() {
            true => self.sample.limits(&spec::Crc32c.into()),
            false => self.sample.limits(spec),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let limits = self.limits(spec)?;
        let mut prepared = self.prepared.lock().expect("no panic");
        prepared.push(spec.name().to_owned());
        match self.knows_chain && *spec == chain() {
            true => Ok(Arc::new(Inline::new(UnpackedSum, spec.clone(), limits))),
            false => self.sample.prepare(spec),
        }
    }
}

/// A chain's items, as the sample packs them.
struct Packed(OpSpec);

impl Workload for Packed {
    fn spec(&self) -> &OpSpec {
        &self.0
    }

    fn name(&self) -> &str {
        "sample"
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        sample::workloads()[2].encode_item(plain)
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        unpacked_sum(item).into()
    }
}

#[test]
fn who_takes_a_chain_whole_gets_it_whole_and_others_get_its_stages() {
    let whole = chain().name().to_owned();
    for (knows_chain, asked_for, code) in [
        (true, vec![whole.clone()], format!("by hand for {whole}")),
        (
            false,
            ["inflate", "crc32c"].map(str::to_owned).to_vec(),
            "inflate: by hand for inflate; crc32c: by hand for crc32c".to_owned(),
        ),
    ] {
        let inner = Asked::new(knows_chain);
        let backend = StageByStage::new(inner.clone() as Arc<dyn Backend>);
        let spec = chain();
        let operator = backend.prepare(&spec).expect("either way");
        assert_eq!(operator.spec(), &spec);
        assert_eq!(inner.prepared(), asked_for);
        assert_eq!(backend.code(&spec), Some(code));
        let item = [
            1, 9, 0, 0xF6, 0xFF, b'1', b'2', b'3', b'4', b'5', b'6', b'7', b'8', b'9',
        ];
        // RFC 3720's check value, of a block that was stored by hand.
        let sum = 0xE306_9283_u32.to_le_bytes().to_vec();
        assert_eq!(outputs(&operator, &[&item]), Ok(vec![sum]));
        let coverage = conformance::check(&backend, &[&Packed(spec)]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 100, "{coverage:?}");
    }
}

#[test]
fn a_chain_of_which_a_stage_is_missing_is_refused_for_that_stage() {
    let inner = Asked::new(false);
    let backend = StageByStage::new(inner.clone() as Arc<dyn Backend>);
    let stages = vec![spec::Crc32c.into(), spec::Sha256.into()];
    let spec = OpSpec::from(spec::Chain(stages));
    let refused = backend.limits(&spec).expect_err("no such stage");
    assert_eq!(refused.reason, "a sample has no sha256");
    let again = backend.prepare(&spec).map(drop);
    assert_eq!(again, Err(SetupError::Unsupported(refused)));
}

/// A family of one backend, which knows no chain.
struct One;

impl Family for One {
    fn name(&self) -> &'static str {
        "one"
    }

    fn backends(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, _: &str) -> Result<Box<dyn Backend>, OpenError> {
        Ok(Box::new(sample::Sample::new(None)))
    }
}

#[test]
fn who_is_opened_by_name_runs_chains() {
    let families = Families::new(&[&One]);
    let backend = families.open("one").expect("there");
    assert!(sample::Sample::new(None).limits(&chain()).is_err());
    assert!(backend.limits(&chain()).is_ok());
    assert!(backend.prepare(&chain()).is_ok());
}

/// A number that is added to each byte.
#[derive(Clone)]
struct Added(u8);

impl Versioned for Added {
    type Change = u8;
    type Error = ChangeError;

    fn apply(&mut self, change: &u8) -> Result<(), ChangeError> {
        self.0 = *change;
        Ok(())
    }
}

struct Adder(Arc<Versions<Added>>);

impl Kernel for Adder {
    type Scratch = Reader<Added>;

    fn scratch(&self) -> Reader<Added> {
        self.0.reader()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(Arc::new(Handle(self.0.clone())))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        table: &mut Reader<Added>,
    ) -> Result<(), JobError> {
        let table = table.enter();
        out.each_outcome(batch, |item, slot| {
            for (to, byte) in slot.iter_mut().zip(item) {
                *to = byte.wrapping_add(table.0);
            }
            Ok(item.len() as u32)
        });
        Ok(())
    }
}

/// Changes of two bytes, of which the first is 7.
struct Handle(Arc<Versions<Added>>);

impl Control for Handle {
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError> {
        match changes {
            [7, value] => self.0.change(*value),
            [7, ..] => Err(ChangeError::Malformed { at: 1 }),
            _ => Err(ChangeError::Malformed { at: 0 }),
        }
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        Ok(self.0.commit())
    }
}

#[test]
fn each_stage_of_a_chain_has_its_control() {
    let adder = || -> Arc<dyn Operator> {
        let kernel = Adder(Arc::new(Versions::new(Arc::new(Added(0)))));
        Arc::new(Inline::new(kernel, OpSpec::custom("adder", []), small()))
    };
    let stages = vec![adder(), repeats(None, small()), adder()];
    let chain: Arc<dyn Operator> =
        Arc::new(Chain::new(stages, small(), zeroed).expect("three stages"));
    let control = chain.control().expect("two stages have one");
    let sum = || outputs(&chain, &[&[1]]).map(|outputs| outputs[0].clone());
    assert_eq!((control.commit(), sum()), (Ok(0), Ok(vec![1, 1])));
    control.change(&changes_to(0, &[7, 10])).expect("taken");
    assert_eq!(sum(), Ok(vec![1, 1]), "not committed");
    assert_eq!((control.commit(), sum()), (Ok(1), Ok(vec![11, 11])));
    // Both at once, by another handle of the same chain: one version.
    let again = chain.control().expect("the same");
    again.change(&changes_to(2, &[7, 100])).expect("taken");
    again.change(&changes_to(0, &[7, 20])).expect("taken");
    assert_eq!((control.commit(), sum()), (Ok(2), Ok(vec![121, 121])));
    assert_eq!(again.commit(), Ok(2), "nothing new");
    for (changes, at) in [
        (vec![], 0),
        (vec![0, 0, 0], 0),
        (changes_to(1, &[7, 1]), 0),
        (changes_to(3, &[7, 1]), 0),
        (changes_to(u32::MAX, &[7, 1]), 0),
        (changes_to(2, &[7]), 5),
        (changes_to(2, &[]), 4),
    ] {
        let refused = control.change(&changes);
        assert_eq!(refused, Err(ChangeError::Malformed { at }), "{changes:?}");
    }
    assert_eq!((control.commit(), sum()), (Ok(2), Ok(vec![121, 121])));
    let plain = Chain::new(vec![repeats(None, small())], small(), zeroed).expect("one stage");
    assert!(plain.control().is_none());
}
