//! Headroom of systems that are known, and the kinds of work.

use std::convert::Infallible;
use std::sync::Arc;

use dpb_core::{
    Batch, BatchOut, Buf, Clock, ClockKind, Inline, JobError, Kernel, Limits, OpSpec, OutputShape,
    Span, VirtualClock,
};

use super::*;

/// A system that spends `own_ns` on a packet and forwards what its cores have time for.
fn system(own_ns: f64, cores: f64) -> impl FnMut(Load) -> Result<Option<TrialOutput>, Infallible> {
    move |load| {
        let busy = load.packets_per_s * (own_ns + load.work_ns_per_packet) * 1e-9;
        Ok(Some(TrialOutput {
            loss_ratio: (1.0 - cores / busy).max(0.0),
            effective_s: load.duration_s,
        }))
    }
}

#[test]
fn a_system_has_the_headroom_that_it_was_made_with() {
    for (packets_per_s, own_ns, cores, free) in [
        (1e6, 300.0, 1, 0.7),
        (1e6, 300.0, 2, 1.7),
        (1e5, 9000.0, 1, 0.1),
        (2e7, 1.0, 1, 0.98),
    ] {
        let mut trial = system(own_ns, f64::from(cores));
        let found = find(&Goal::NDR, packets_per_s, cores, &mut trial).expect("a search");
        assert_eq!(found.found.irregular, None);
        let least = found.cores_free().expect("a lower bound");
        let most = found.cores_free_at_most().expect("an upper bound");
        assert!(
            least <= free && free < most && most / least < 1.006,
            "{free} of {cores} is free, between {least} and {most}"
        );
    }
}

#[test]
fn a_system_that_is_too_slow_has_none() {
    let found = find(&Goal::PDR, 1e6, 1, &mut system(1100.0, 1.0)).expect("a search");
    assert_eq!(
        (found.cores_free(), found.found.irregular),
        (None, Some(crate::search::Irregular::NoLower))
    );
}

#[test]
fn a_rate_of_nothing_is_refused() {
    for (rate, cores) in [
        (0.0, 1),
        (-1.0, 1),
        (f64::NAN, 1),
        (f64::INFINITY, 1),
        (1e6, 0),
    ] {
        let found = find(&Goal::PDR, rate, cores, &mut system(1.0, 1.0));
        assert!(
            matches!(found, Err(SearchError::Settings(_))),
            "{rate} {cores}"
        );
    }
}

/// Liu et al., section II: 49.996 Gbit/s were sent, and the highest rate was 64.8.
#[test]
fn the_headroom_of_liu_et_al_is_that_of_the_rate() {
    let found = find(&Goal::PDR, 49.996, 1, &mut system(1.0, 1.0)).expect("a search");
    assert!((found.by_rate(64.8) - 0.228).abs() < 0.001);
}

/// By Brown's way to jump ahead ("Random Number Generation with Arbitrary Strides", 1994).
#[test]
fn arithmetic_is_all_steps_of_the_generator() {
    let jumped = |seed: u64, mut steps: u64| {
        let (mut factor, mut sum) = (6_364_136_223_846_793_005_u64, 1_442_695_040_888_963_407_u64);
        let (mut all_factor, mut all_sum) = (1_u64, 0_u64);
        while steps > 0 {
            if steps & 1 == 1 {
                all_factor = all_factor.wrapping_mul(factor);
                all_sum = all_sum.wrapping_mul(factor).wrapping_add(sum);
            }
            sum = sum.wrapping_mul(factor.wrapping_add(1));
            factor = factor.wrapping_mul(factor);
            steps >>= 1;
        }
        all_factor.wrapping_mul(seed).wrapping_add(all_sum)
    };
    let mut work = Arithmetic::new(7);
    let mut steps = 0;
    for units in [0, 1, 2, 1000, 12_345] {
        work.run(units).expect("no operator");
        steps += units;
        assert_eq!(work.state(), jumped(7, steps));
    }
}

#[test]
fn a_walk_meets_every_line_once_before_the_first_again() {
    for lines in [2, 3, 100, 1025] {
        let mut walk = Walk::new(lines * 64 + 63, 3).expect("lines");
        let mut met = vec![false; lines];
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut met[walk.at() as usize], true));
            walk.run(1).expect("no operator");
        }
        assert_eq!(walk.at(), 0);
    }
    assert_eq!(Walk::new(127, 3).err(), Some(WalkError::Size(127)));
}

#[test]
fn parts_of_units_add_up() {
    let dial = Dial::default();
    let mut injected = Injected::new(Box::new(Arithmetic::new(1)), &dial);
    dial.set(0.3);
    for packets in 0..100 {
        injected.after(packets % 7).expect("no operator");
    }
    let packets: usize = (0..100).map(|i| i % 7).sum();
    assert_eq!(dial.done(), (packets as f64 * 0.3) as u64);
    dial.set(-1.0);
    let done = dial.done();
    injected.after(1000).expect("no operator");
    assert_eq!(dial.done(), done);
}

/// A kernel that moves a clock by 50 ns an item and refuses items of 9.
struct Slow(Arc<VirtualClock>);

impl Kernel for Slow {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, len: usize) -> usize {
        len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _: &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            self.0.advance_to(self.0.now_ns() + 50);
            slot[..item.len()].copy_from_slice(item);
            match item {
                [9, ..] => Err(JobError::Malformed),
                _ => Ok(item.len() as u32),
            }
        });
        Ok(())
    }
}

fn computed(clock: &Arc<VirtualClock>, byte: u8) -> Computed {
    let limits = Limits::new(std::num::NonZeroU32::MIN);
    let operator = Inline::new(Slow(Arc::clone(clock)), OpSpec::custom("slow", []), limits);
    let items = (0..10).map(|i| Span {
        buf: 0,
        start: i * 4,
        len: 4,
    });
    let alloc = |len| Ok(Buf::zeroed(len).expect("memory"));
    Computed::new(Arc::new(operator), &[byte; 40], items.collect(), 4, alloc).expect("a queue")
}

#[test]
fn the_speed_of_an_operator_is_that_of_an_item() {
    let clock = Arc::new(VirtualClock::new(false));
    assert!(matches!(clock.kind(), ClockKind::Virtual { .. }));
    let mut work = computed(&clock, 1);
    work.run(25).expect("done");
    assert_eq!(clock.now_ns(), 25 * 50);
    let speed = Speed::alone(&mut work, &*clock, 10_000).expect("done");
    assert_eq!(speed.ns_per_unit, 50.0);
    assert_eq!(speed.units(1000.0), 20.0);
}

#[test]
fn a_refused_item_is_an_error() {
    let clock = Arc::new(VirtualClock::new(false));
    let ran = computed(&clock, 9).run(3);
    assert_eq!(ran, Err(WorkError::Item(JobError::Malformed)));
}
