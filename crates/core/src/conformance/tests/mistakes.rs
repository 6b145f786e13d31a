//! Kernels and workloads that are wrong about an item.

use std::sync::LazyLock;

use super::*;

/// The sample, but for one operator.
struct Replaced {
    sample: Sample,
    operator: Arc<dyn Operator>,
}

impl Replaced {
    /// With `kernel` for the workload at `at`: what the suite finds wrong.
    fn check(kernel: impl Kernel, at: usize) -> Result<Coverage, String> {
        let sample = Sample::new(None);
        let operator = sample.lift(kernel, workloads()[at].spec());
        let checked = check(&Self { sample, operator }, &workloads()[at..=at]);
        checked.map_err(|failure| failure.to_string())
    }
}

impl Backend for Replaced {
    fn name(&self) -> &str {
        "replaced"
    }

    fn clock(&self) -> &dyn Clock {
        self.sample.clock()
    }

    fn properties(&self) -> Properties {
        self.sample.properties()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.sample.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        self.sample.limits(spec)
    }

    fn prepare(&self, _: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(self.operator.clone())
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "some mistakes show only at sizes for which Miri is too slow"
)]
fn every_mistake_about_an_item_is_caught() {
    type Case = (usize, fn(&[u8]) -> Result<Vec<u8>, JobError>, &'static str);
    let cases: [Case; 7] = [
        // A stream that does not decode back, and one that decodes to something else.
        (
            1,
            |item| stored(item).map(|block| block[..block.len().min(132)].to_vec()),
            "of 128 bytes: decodes to Err(Malformed)",
        ),
        (
            1,
            |item| stored(if item.len() == 65 { &item[1..] } else { item }),
            "of 65 bytes: decodes to Ok",
        ),
        // Refusals of what is right, whatever the reason.
        (
            1,
            |item| match item.len() {
                9 => Err(JobError::DstTooShort),
                _ => stored(item),
            },
            "refused (output does not fit its slot)",
        ),
        (
            2,
            |block| match block.len() {
                5 => Err(JobError::Malformed),
                _ => Ok(block[5..].to_vec()),
            },
            "refused (malformed input)",
        ),
        // What is malformed, taken.
        (
            2,
            |block| Ok(block.get(5..).unwrap_or_default().to_vec()),
            "expected a refusal (malformed input), got ",
        ),
        // The key forgotten, and a slot that is too short for a reason that is none.
        (3, |item| Ok(item.to_vec()), "they part at byte 0"),
        (
            3,
            |item| match item.len() {
                4096.. => Err(JobError::Malformed),
                _ => Ok(xored(item, b"no secret at all").collect()),
            },
            "refused (malformed input) in a slot of 4097 bytes",
        ),
    ];
    for (at, each, expected) in cases {
        let each = move |item: &[u8], output: &mut Vec<u8>| {
            output.extend(each(item)?);
            Ok(())
        };
        let said = Replaced::check(sample::Each(each), at).expect_err(expected);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// Each item and its output, in place, but as `overlay` has it.
struct Overlaid {
    offset: usize,
    overlay: fn(Overlay<'_>) -> Result<u32, JobError>,
}

impl Kernel for Overlaid {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let xor = |item: &[u8], output: &mut Vec<u8>| {
            output.extend(xored(item, KEY));
            Ok(())
        };
        sample::Each(xor).run(batch, out, &mut Vec::new())
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(self.offset)
    }

    fn run_in_place(&self, work: InPlace<'_>, (): &mut ()) -> Result<(), JobError> {
        work.outcomes.extend(work.items.map(self.overlay));
        Ok(())
    }
}

const KEY: &[u8] = b"no secret at all";

#[test]
#[cfg_attr(miri, ignore = "the lifts are what Miri is to see, and it is slow")]
fn mistakes_in_place_are_caught() {
    fn put(overlay: &mut Overlay<'_>, at: usize) {
        let output: Vec<u8> = xored(&overlay.bytes[..overlay.item_len], KEY).collect();
        overlay.bytes[at..][..output.len()].copy_from_slice(&output);
    }
    fn right(mut overlay: Overlay<'_>) -> Result<u32, JobError> {
        put(&mut overlay, 0);
        Ok(overlay.slot_len as u32)
    }
    let of = |offset, overlay| Replaced::check(Overlaid { offset, overlay }, 3);
    of(0, right).expect("right");
    let shifted: fn(Overlay<'_>) -> _ = |mut overlay| {
        put(&mut overlay, 3);
        Ok(overlay.slot_len as u32)
    };
    of(3, shifted).expect("right too");
    let head_lost: fn(Overlay<'_>) -> _ = |mut overlay| {
        put(&mut overlay, 3);
        overlay.bytes[2] ^= 1;
        Ok(overlay.slot_len as u32)
    };
    let nothing: fn(Overlay<'_>) -> _ = |overlay| Ok(overlay.slot_len as u32);
    for (offset, overlay, expected) in [
        (3, head_lost, "outside of slots"),
        (3, right, "outside of slots"),
        (0, shifted as fn(Overlay<'_>) -> _, "panicked"),
        (0, nothing, "they part at"),
    ] {
        let said = of(offset, overlay).expect_err(expected);
        assert!(
            said.contains("in place") && said.contains(expected),
            "{expected}: {said}"
        );
    }
}

/// A workload whose user data is too short, or that has no item for more than eight bytes.
struct Unfit {
    is_short: bool,
}

impl Workload for Unfit {
    fn spec(&self) -> &OpSpec {
        static SPEC: LazyLock<OpSpec> = LazyLock::new(|| spec::Crc32c.into());
        &SPEC
    }

    fn name(&self) -> &str {
        "unfit"
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> crate::Input {
        crate::Input::random(seed, if self.is_short { len / 2 } else { len }, count)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let is_short = plain.len() <= 8;
        is_short
            .then(|| plain.to_vec())
            .ok_or_else(|| "at most 8".to_owned())
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        workloads()[0].right(item, slot_bytes)
    }
}

#[test]
#[cfg_attr(miri, ignore = "the lifts are what Miri is to see, and it is slow")]
fn a_workload_without_items_is_a_failure() {
    for (is_short, expected) in [
        (true, "user data is not as long as asked for"),
        (false, "crc32c of item 1, 9 bytes: at most 8"),
    ] {
        let failure = check(&Sample::new(None), &[&Unfit { is_short }]);
        let said = failure.expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
}
