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
        let found = find(
            &Goal::NDR,
            packets_per_s,
            cores,
            &Patience::default(),
            &mut trial,
        )
        .expect("a search");
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
    let found = find(
        &Goal::PDR,
        1e6,
        1,
        &Patience::default(),
        &mut system(1100.0, 1.0),
    )
    .expect("a search");
    assert_eq!(
        (found.cores_free(), found.found.irregular),
        (None, Some(crate::search::Irregular::NoLower))
    );
}

/// [`system`], offered to by a generator that is late above `generator` packets a second.
fn with_generator(
    generator: f64,
    mut system: impl FnMut(Load) -> Result<Option<TrialOutput>, Infallible>,
) -> impl FnMut(Load) -> Result<Option<TrialOutput>, Infallible> {
    move |load| match load.packets_per_s > generator {
        true => Ok(None),
        false => system(load),
    }
}

#[test]
fn the_highest_rate_is_the_systems() {
    for (own_ns, cores, rate) in [(300.0, 1.0, 1e9 / 300.0), (2000.0, 4.0, 2e6)] {
        let mut trial = with_generator(1e7, system(own_ns, cores));
        let highest =
            highest_rate(&Goal::NDR, 2e7, &Patience::default(), &mut trial).expect("a search");
        let found = highest.packets_per_s().expect("a lower bound");
        assert!(found <= rate && rate < found * 1.006, "{found}, {rate}");
        assert!(!highest.is_generators() && highest.invalid >= 4 && highest.offered_max < 1e7);
    }
}

#[test]
fn a_system_that_is_faster_than_its_generator_is_said_to_be() {
    let mut trial = with_generator(1e6, system(100.0, 1.0));
    let highest =
        highest_rate(&Goal::PDR, 16e6, &Patience::default(), &mut trial).expect("a search");
    assert!(highest.is_generators());
    let found = highest.packets_per_s().expect("a lower bound");
    assert!((0.8e6..=1e6).contains(&found), "{found}");
    assert_eq!(found, highest.offered_max);
}

/// What a trial at the highest rate allowed once, the search's may not allow again.
#[test]
fn a_generator_that_is_late_now_and_then_gets_less_to_do() {
    let (mut turns, mut known) = (0, system(2000.0, 1.0));
    let mut trial = |load: Load| {
        turns += 1;
        let is_late = load.packets_per_s > 1e6 && turns > 1;
        if is_late { Ok(None) } else { known(load) }
    };
    let highest =
        highest_rate(&Goal::PDR, 3e6, &Patience::default(), &mut trial).expect("a search");
    let found = highest.packets_per_s().expect("a lower bound");
    assert!((found / 502_500.0 - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn a_generator_that_is_always_late_finds_nothing() {
    let mut never = |_: Load| Ok::<_, Infallible>(None);
    let found = highest_rate(&Goal::PDR, 1e6, &Patience::default(), &mut never);
    assert!(matches!(found, Err(SearchError::Invalid { .. })));
    let found = find(&Goal::PDR, 1e6, 1, &Patience::default(), &mut never);
    assert!(matches!(found, Err(SearchError::Invalid { tried: 3, .. })));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = highest_rate(
            &Goal::PDR,
            rate,
            &Patience::default(),
            &mut system(1.0, 1.0),
        );
        assert!(matches!(found, Err(SearchError::Settings(_))), "{rate}");
    }
}

/// Packets whose work slows them down, as one that empties their cache: what is free is less than the rate tells.
#[test]
fn headroom_is_not_what_is_left_of_the_rate() {
    let own_ns = |work_ns: f64| 300.0 + work_ns.min(200.0);
    let mut trial = |load: Load| {
        let each_ns = own_ns(load.work_ns_per_packet) + load.work_ns_per_packet;
        let busy = load.packets_per_s * each_ns * 1e-9;
        let loss_ratio = (1.0 - 1.0 / busy).max(0.0);
        let effective_s = load.duration_s;
        Ok::<_, Infallible>(Some(TrialOutput {
            loss_ratio,
            effective_s,
        }))
    };
    let patience = Patience::default();
    let highest = highest_rate(&Goal::NDR, 1e7, &patience, &mut trial).expect("a search");
    let found = find(&Goal::NDR, 1e6, 1, &patience, &mut trial).expect("a search");
    let by_rate = found.by_rate(highest.packets_per_s().expect("a rate"));
    let free = found.cores_free().expect("a bound");
    assert!(
        (by_rate - 0.7).abs() < 0.006 && (free - 0.5).abs() < 0.006,
        "{by_rate}, {free}"
    );
}

#[test]
fn a_search_ends_when_its_time_is_over() {
    let patience = Patience {
        duration_max_s: 10.0,
        ..Patience::default()
    };
    let found = find(&Goal::PDR, 1e6, 1, &patience, &mut system(300.0, 1.0)).expect("a search");
    assert_eq!(
        found.found.irregular,
        Some(crate::search::Irregular::OutOfTime)
    );
    assert!(found.outcome.duration_s < 12.0);
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
        let found = find(
            &Goal::PDR,
            rate,
            cores,
            &Patience::default(),
            &mut system(1.0, 1.0),
        );
        assert!(
            matches!(found, Err(SearchError::Settings(_))),
            "{rate} {cores}"
        );
    }
}

/// Liu et al., section II: 49.996 Gbit/s were sent, and the highest rate was 64.8.
#[test]
fn the_headroom_of_liu_et_al_is_that_of_the_rate() {
    let found = find(
        &Goal::PDR,
        49.996,
        1,
        &Patience::default(),
        &mut system(1.0, 1.0),
    )
    .expect("a search");
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

#[test]
fn a_stage_does_the_work_of_its_bursts_and_says_what_went_wrong() {
    use crate::pipeline::{Burst, Mark, Stage as _};
    let burst = |packets: usize| {
        let mut burst = Burst::with_capacity(packets);
        for _ in 0..packets {
            burst.push(Buf::zeroed(60).expect("memory"), Mark::of(0));
        }
        burst
    };
    let dial = Dial::default();
    dial.set(2.5);
    let mut stage = Injected::new(Box::new(Arithmetic::new(1)), &dial).into_stage();
    stage.offer(&mut [burst(3), burst(4)].into());
    let mut done = Vec::new();
    assert_eq!(stage.poll(&mut done), 2);
    // 7.5, then 10.5 of which 0.5 is of before.
    assert_eq!((dial.done(), dial.fault()), (17, None));
    assert!(
        done.iter()
            .all(|burst| burst.marks().iter().all(|mark| mark.dropped.is_none()))
    );

    let clock = Arc::new(VirtualClock::new(false));
    let mut stage = Injected::new(Box::new(computed(&clock, 9)), &dial).into_stage();
    stage.offer(&mut [burst(3)].into());
    stage.poll(&mut done);
    assert_eq!(dial.fault(), Some(WorkError::Item(JobError::Malformed)));
    assert!(done[2].marks().iter().all(|mark| mark.dropped.is_some()));
}
