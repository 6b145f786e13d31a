//! The kernel beside a plain simulator of the same rules, on one thread and on several.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use dpb_core::random::SplitMix64;

use super::*;

/// A component that passes messages on as chance has it, and writes down what happens.
struct Walker {
    random: SplitMix64,
    ports: usize,
    log: Vec<Happening>,
}

/// A message of `hops` left, or a timer.
type Happening = (u64, Option<usize>, u64);

impl Walker {
    fn new(seed: u64, ports: usize) -> Self {
        Self {
            random: SplitMix64::new(seed),
            ports,
            log: Vec::new(),
        }
    }

    /// What it does: messages by port, delay and hops left; timers by delay and hops left. Times are coarse, so that many fall together.
    fn act(&mut self, hops: u64) -> (Vec<(usize, u64)>, Option<u64>) {
        if hops == 0 || self.ports == 0 {
            return (Vec::new(), None);
        }
        let messages =
            (0..=self.random.below(2)).map(|_| (self.random.below(self.ports), hops - 1));
        let messages = messages.collect();
        let timer = (self.random.below(3) == 0).then(|| 100 * self.random.below(4) as u64);
        (messages, timer)
    }
}

const HOPS: u64 = 7;

impl Component<u64> for Walker {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(100 * self.random.below(3) as u64, HOPS);
    }

    fn receive(&mut self, port: usize, hops: u64, context: &mut Context<'_, u64>) {
        self.log.push((context.now_ps(), Some(port), hops));
        self.go_on(hops, context);
    }

    fn wake(&mut self, hops: u64, context: &mut Context<'_, u64>) {
        self.log.push((context.now_ps(), None, hops));
        self.go_on(hops, context);
    }
}

impl Walker {
    fn go_on(&mut self, hops: u64, context: &mut Context<'_, u64>) {
        let (messages, timer) = self.act(hops);
        for (port, hops) in messages {
            context.send(port, hops);
        }
        if let Some(delay_ps) = timer {
            context.wake_at(context.now_ps() + delay_ps, hops - 1);
        }
    }
}

/// Two ports, by component, and the latency between them.
type Joint = ([(usize, usize); 2], u64);

/// A random graph: the number of ports of each component, and the joints.
fn graph(random: &mut SplitMix64) -> (Vec<usize>, Vec<Joint>) {
    let mut ports = vec![0; 2 + random.below(6)];
    let mut joints = Vec::new();
    for _ in 0..ports.len() + random.below(6) {
        let ends = [(); 2].map(|()| {
            let component = random.below(ports.len());
            let port = ports[component];
            ports[component] += 1;
            (component, port)
        });
        joints.push((ends, 100 * random.below(5) as u64));
    }
    (ports, joints)
}

fn by_kernel(seed: u64, threads: usize, steps: &[u64]) -> (Vec<Vec<Happening>>, usize) {
    let (ports, joints) = graph(&mut SplitMix64::new(seed));
    let mut plan = Plan::new();
    let ids: Vec<ComponentId> = ports
        .iter()
        .enumerate()
        .map(|(id, &ports)| plan.add(&format!("{id}"), 1, Walker::new(seed + id as u64, ports)))
        .collect();
    for ([a, b], latency_ps) in joints {
        let [a, b] = [a, b].map(|(component, port)| (ids[component], port));
        plan.join(a, b, latency_ps).expect("free ports");
    }
    let mut kernel = plan.build(threads);
    for &end_ps in steps {
        kernel.run_until(end_ps).expect("nothing fails");
        assert_eq!(kernel.now_ps(), end_ps);
    }
    let logs: Vec<_> = ids
        .iter()
        .map(|&id| {
            kernel
                .component::<Walker>(id)
                .expect("a walker")
                .log
                .clone()
        })
        .collect();
    let happened: usize = logs.iter().map(Vec::len).sum();
    assert_eq!(kernel.events(), happened as u64);
    (logs, kernel.threads())
}

/// The rules of the kernel's page, with a list that is searched for each event.
fn by_list(seed: u64, end_ps: u64) -> Vec<Vec<Happening>> {
    let (ports, joints) = graph(&mut SplitMix64::new(seed));
    let mut walkers: Vec<Walker> = (0..ports.len())
        .map(|id| Walker::new(seed + id as u64, ports[id]))
        .collect();
    let target = |component: usize, port: usize| {
        let found = joints.iter().find_map(|&([a, b], latency_ps)| {
            let here = (component, port);
            (a == here)
                .then_some((b, latency_ps))
                .or((b == here).then_some((a, latency_ps)))
        });
        found.expect("every port is joined")
    };
    // Time, component, port (timers behind all), count of the list: it is appended to in the order in which things are sent.
    let mut list: Vec<(u64, usize, usize, u64)> = Vec::new();
    for (id, walker) in walkers.iter_mut().enumerate() {
        list.push((100 * walker.random.below(3) as u64, id, usize::MAX, HOPS));
    }
    while let Some(at) = (0..list.len()).min_by_key(|&at| (list[at].0, list[at].1, list[at].2, at))
    {
        let (now_ps, component, port, hops) = list.remove(at);
        if now_ps > end_ps {
            break;
        }
        let walker = &mut walkers[component];
        let port = (port != usize::MAX).then_some(port);
        walker.log.push((now_ps, port, hops));
        let (messages, timer) = walker.act(hops);
        for (port, hops) in messages {
            let ((to, to_port), latency_ps) = target(component, port);
            list.push((now_ps + latency_ps, to, to_port, hops));
        }
        if let Some(delay_ps) = timer {
            list.push((now_ps + delay_ps, component, usize::MAX, hops - 1));
        }
    }
    walkers.into_iter().map(|walker| walker.log).collect()
}

#[test]
fn agrees_with_a_list_on_any_number_of_threads() {
    let mut on_several = 0;
    for seed in 0..100 {
        let expected = by_list(1000 * seed, 4000);
        for threads in [1, 2, 3, 8] {
            let (logs, partitions) = by_kernel(1000 * seed, threads, &[4000]);
            assert_eq!(logs, expected, "seed {seed}, {threads} threads");
            on_several += usize::from(partitions > 1);
        }
        let steps = [0, 1, 99, 100, 101, 250, 700, 3000, 4000];
        let (logs, _) = by_kernel(1000 * seed, 2, &steps);
        assert_eq!(logs, expected, "seed {seed} in steps");
    }
    assert!(on_several > 130, "{on_several} runs on several threads");
}

/// An outside that answers each message after a while, as a peer in another process would, and promises a little ahead.
struct Echo {
    latency_ps: u64,
    reached_ps: u64,
    answers: VecDeque<(u64, u64)>,
    has_room: bool,
    fails_at_ps: u64,
    reached: Arc<Mutex<Vec<u64>>>,
}

impl Outside<u64> for Echo {
    fn send(&mut self, now_ps: u64, message: u64) -> Result<Option<u64>, OutsideError> {
        // Every other time it has no room.
        self.has_room = !self.has_room;
        if self.has_room {
            return Ok(Some(message));
        }
        self.answers
            .push_back((now_ps + 2 * self.latency_ps, message + 1));
        Ok(None)
    }

    fn receive(&mut self) -> Result<Option<(u64, u64)>, OutsideError> {
        let promise_ps = self.promise_ps();
        let next = self.answers.front();
        let is_there = next.is_some_and(|&(due_ps, _)| due_ps <= promise_ps);
        Ok(is_there.then(|| self.answers.pop_front()).flatten())
    }

    fn promise_ps(&self) -> u64 {
        self.reached_ps + self.latency_ps
    }

    fn reach(&mut self, now_ps: u64) -> Result<bool, OutsideError> {
        assert!(now_ps >= self.reached_ps);
        self.reached_ps = now_ps;
        self.reached.lock().expect("one thread").push(now_ps);
        match now_ps >= self.fails_at_ps {
            true => Err(OutsideError("the peer has left".to_owned())),
            false => Ok(true),
        }
    }
}

/// Sends a number at each full microsecond, and writes down the answers.
#[derive(Default)]
struct Caller {
    answers: Vec<(u64, u64)>,
}

impl Component<u64> for Caller {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(0, 0);
    }

    fn receive(&mut self, _: usize, answer: u64, context: &mut Context<'_, u64>) {
        self.answers.push((context.now_ps(), answer));
    }

    fn wake(&mut self, number: u64, context: &mut Context<'_, u64>) {
        context.send(3, number);
        context.wake_at(context.now_ps() + MICROSECOND_PS, number + 1);
    }
}

fn with_echo(fails_at_ps: u64) -> (Kernel<u64>, ComponentId, Arc<Mutex<Vec<u64>>>) {
    let mut plan = Plan::new();
    let caller = plan.add("caller", 1, Caller::default());
    let reached = Arc::default();
    let echo = Echo {
        latency_ps: 500 * NANOSECOND_PS,
        reached_ps: 0,
        answers: VecDeque::new(),
        has_room: false,
        fails_at_ps,
        reached: Arc::clone(&reached),
    };
    plan.lead_out((caller, 3), echo).expect("a free port");
    (plan.build(2), caller, reached)
}

#[test]
fn an_outside_is_synchronised() {
    let (mut kernel, caller, reached) = with_echo(u64::MAX);
    kernel.run_until(20 * MICROSECOND_PS).expect("an echo");
    let answers = &kernel.component::<Caller>(caller).expect("it").answers;
    let expected = (0..20).map(|it| ((it + 1) * MICROSECOND_PS, it + 1));
    assert_eq!(*answers, Vec::from_iter(expected));
    let reached = reached.lock().expect("one thread");
    let mut steps = reached.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.all(|step_ps| step_ps <= 500 * NANOSECOND_PS));
}

#[test]
fn an_outside_that_fails_ends_the_run() {
    let (mut kernel, _, _) = with_echo(5 * MICROSECOND_PS);
    let failed = kernel.run_until(20 * MICROSECOND_PS).expect_err("it fails");
    assert_eq!(failed.component, "caller");
    assert_eq!(failed.at_ps, 5 * MICROSECOND_PS);
    assert_eq!(failed.reason, "the peer has left");
}

/// Fails, or panics, at a time.
struct Fragile {
    at_ps: u64,
    panics: bool,
}

impl Component<u64> for Fragile {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(self.at_ps, 0);
    }

    fn receive(&mut self, _: usize, _: u64, _: &mut Context<'_, u64>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, u64>) {
        assert!(!self.panics, "as planned");
        context.fail("as planned");
    }
}

/// Sends itself timers for ever.
struct Busy;

impl Component<u64> for Busy {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(0, 0);
    }

    fn receive(&mut self, _: usize, _: u64, _: &mut Context<'_, u64>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, u64>) {
        context.wake_at(context.now_ps() + 10, 0);
    }
}

fn with_fragile(panics: bool) -> Kernel<u64> {
    let mut plan = Plan::new();
    let busy = plan.add("busy", 1, Busy);
    let fragile = plan.add(
        "fragile",
        1,
        Fragile {
            at_ps: 5000,
            panics,
        },
    );
    plan.join((busy, 0), (fragile, 0), 100).expect("free ports");
    plan.build(2)
}

#[test]
fn a_component_that_fails_ends_the_run_of_all() {
    let mut kernel = with_fragile(false);
    assert_eq!(kernel.threads(), 2);
    let failed = kernel.run_until(SECOND_PS).expect_err("it fails");
    assert_eq!(
        failed.to_string(),
        "`fragile` failed at 5000 ps: as planned"
    );
}

/// Sends a message at a time, and needs a while of the wall clock for it.
struct Slow;

impl Component<u64> for Slow {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(3000, 0);
    }

    fn receive(&mut self, _: usize, _: u64, _: &mut Context<'_, u64>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, u64>) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        context.send(0, 1);
    }
}

/// Fails when a message comes.
struct Touchy;

impl Component<u64> for Touchy {
    fn receive(&mut self, _: usize, _: u64, context: &mut Context<'_, u64>) {
        context.fail("touched");
    }
}

/// On three threads the failure at 5000 ps is there long before the one at 4000 ps.
#[test]
fn the_first_failure_is_the_same_on_any_number_of_threads() {
    for threads in [1, 3] {
        let mut plan = Plan::new();
        let slow = plan.add("slow", 1, Slow);
        let touchy = plan.add("touchy", 1, Touchy);
        let fragile = Fragile {
            at_ps: 5000,
            panics: false,
        };
        let fragile = plan.add("fragile", 1, fragile);
        plan.join((slow, 0), (touchy, 0), 1000).expect("free ports");
        plan.join((touchy, 1), (fragile, 0), 10_000)
            .expect("free ports");
        let mut kernel = plan.build(threads);
        assert_eq!(kernel.threads(), threads);
        let failed = kernel.run_until(SECOND_PS).expect_err("it fails");
        assert_eq!(failed.to_string(), "`touchy` failed at 4000 ps: touched");
    }
}

#[test]
#[should_panic(expected = "as planned")]
fn a_panic_of_a_component_reaches_the_caller() {
    let _ = with_fragile(true).run_until(SECOND_PS);
}

/// A peer that never says anything, and takes so many messages or notices of the time.
struct Deaf {
    messages: u32,
    notices: u32,
}

impl Outside<u64> for Deaf {
    fn send(&mut self, _: u64, message: u64) -> Result<Option<u64>, OutsideError> {
        let is_taken = self.messages > 0;
        self.messages = self.messages.saturating_sub(1);
        Ok((!is_taken).then_some(message))
    }

    fn receive(&mut self) -> Result<Option<(u64, u64)>, OutsideError> {
        Ok(None)
    }

    fn promise_ps(&self) -> u64 {
        SECOND_PS
    }

    fn reach(&mut self, _: u64) -> Result<bool, OutsideError> {
        let is_told = self.notices > 0;
        self.notices = self.notices.saturating_sub(1);
        Ok(is_told)
    }
}

/// Whatever a partition waits for, it sees that another has failed: room for a message, room for the time, a promise.
#[test]
fn a_failure_ends_every_wait() {
    let at_ps = 2 * MICROSECOND_PS + 50;
    for (messages, notices) in [(2, u32::MAX), (u32::MAX, 0), (u32::MAX, u32::MAX)] {
        let mut plan = Plan::new();
        let caller = plan.add("caller", 1, Caller::default());
        let fragile = plan.add(
            "fragile",
            1,
            Fragile {
                at_ps,
                panics: false,
            },
        );
        plan.join((caller, 0), (fragile, 0), 100)
            .expect("free ports");
        plan.lead_out((caller, 3), Deaf { messages, notices })
            .expect("a free port");
        let mut kernel = plan.build(2);
        assert_eq!(kernel.threads(), 2);
        let failed = kernel
            .run_until(3 * MICROSECOND_PS)
            .expect_err("fragile fails");
        assert_eq!(failed.component, "fragile");
        assert_eq!(failed.at_ps, at_ps);
    }
}

/// A peer that sends without end, as fast as it is read: each message so long after the one before. It takes messages, or none.
struct Flood {
    step_ps: u64,
    last_ps: u64,
    takes: bool,
}

impl Outside<u64> for Flood {
    fn send(&mut self, _: u64, message: u64) -> Result<Option<u64>, OutsideError> {
        Ok((!self.takes).then_some(message))
    }

    fn receive(&mut self) -> Result<Option<(u64, u64)>, OutsideError> {
        self.last_ps += self.step_ps;
        Ok(Some((self.last_ps, 0)))
    }

    fn promise_ps(&self) -> u64 {
        self.last_ps
    }

    fn reach(&mut self, _: u64) -> Result<bool, OutsideError> {
        Ok(true)
    }
}

#[test]
fn a_peer_that_sends_without_end_holds_nobody_up() {
    let run = |step_ps: u64, takes: bool| {
        let mut plan = Plan::new();
        let caller = plan.add("caller", 1, Caller::default());
        let flood = Flood {
            step_ps,
            last_ps: 0,
            takes,
        };
        plan.lead_out((caller, 3), flood).expect("a free port");
        plan.build(1)
            .run_until(10 * MICROSECOND_PS)
            .map_err(|it| it.to_string())
    };
    // Its time goes on, and so does that of the run.
    assert_eq!(run(NANOSECOND_PS / 10, true), Ok(()));
    // Its time stands still: no run would ever end.
    assert_eq!(
        run(0, true),
        Err(
            "`caller` failed at 0 ps: the peer has sent more than 65536 messages for one time"
                .to_owned()
        )
    );
    let said = run(NANOSECOND_PS, false).expect_err("it takes nothing");
    assert!(said.ends_with("messages and taken none"), "{said}");
}

/// Promises more than it keeps.
struct Hasty;

impl Component<u64> for Hasty {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(10, 0);
    }

    fn receive(&mut self, _: usize, _: u64, _: &mut Context<'_, u64>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, u64>) {
        context.send_after(0, 99, 1);
    }

    fn least_delay_ps(&self, _: usize) -> u64 {
        100
    }
}

#[test]
#[should_panic(
    expected = "a message on port 0 has a delay of 99 ps, and the least was to be 100 ps"
)]
fn a_delay_below_the_promised_one_is_refused() {
    let mut plan = Plan::new();
    let [a, b] = ["a", "b"].map(|name| plan.add(name, 1, Hasty));
    plan.join((a, 0), (b, 0), 0).expect("free ports");
    let _ = plan.build(1).run_until(SECOND_PS);
}

/// Counts in a value of its thread, and in one of its own.
#[derive(Default)]
struct Counter {
    own: u64,
    locals: Vec<u64>,
}

impl Component<u64> for Counter {
    fn start(&mut self, context: &mut Context<'_, u64>) {
        context.wake_at(0, 0);
    }

    fn receive(&mut self, _: usize, _: u64, _: &mut Context<'_, u64>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, u64>) {
        self.own += 1;
        // What cannot be sent to another thread can be kept there.
        let local: &mut std::rc::Rc<std::cell::Cell<u64>> = context.local();
        local.set(local.get() + 1);
        self.locals.push(local.get());
        context.wake_at(context.now_ps() + 10, 0);
    }
}

#[test]
fn a_components_local_value_lives_for_a_run() {
    for threads in [1, 2] {
        let mut plan = Plan::new();
        let ids = ["a", "b"].map(|name| plan.add(name, 1, Counter::default()));
        let mut kernel = plan.build(threads);
        assert_eq!(kernel.threads(), threads);
        for end_ps in [25, 40] {
            kernel.run_until(end_ps).expect("nothing fails");
        }
        for id in ids {
            let counter: &Counter = kernel.component(id).expect("a counter");
            assert_eq!(counter.own, 5);
            assert_eq!(counter.locals, [1, 2, 3, 1, 2]);
        }
    }
}

#[test]
fn a_port_takes_one_channel() {
    let mut plan = Plan::new();
    let [a, b] = ["a", "b"].map(|name| plan.add(name, 1, Busy));
    plan.join((a, 0), (b, 0), 1).expect("free ports");
    let taken = plan.join((b, 1), (a, 0), 1).expect_err("taken");
    assert_eq!(taken.to_string(), "port 0 of `a` is joined already");
    assert!(plan.join((a, 1), (a, 1), 1).is_err());
}
