//! Application recognition against the conversations that were sent, RustCrypto's hash, lz4_flex's decoder, and a search for the rules' words.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use dpb_core::lift::OneKernel;
use dpb_core::{
    Batch, BatchOut, Clock, JobError, Kernel, OpSpec, OutputShape, SetupError, VirtualClock, spec,
};
use dpb_net::flow::Timeouts;
use dpb_net::packet::{Frame, protocol};
use dpb_net::pipeline::{Line, Stage};
use dpb_net::programs::Engine;
use dpb_net::programs::app_recognition::{
    Action, Log, Policy, Recognise, Results, RuleEngine, Settings, Tally, compress, hash,
    is_sha256, send_back,
};
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::recognition::{self, Applications, Evidence, Protocol};
use dpb_net::traffic::application::{Application, Applications as Said, Delivery};
use dpb_net::traffic::{Flows, Generator, Profile, Sizes, StampKey, Start, Traffic};
use etherparse::PacketBuilder;
use sha2::{Digest, Sha256};

use super::support::{self, Manner, buf};
use super::through;

/// An operator of a test: what it makes of an item.
struct By {
    shape: OutputShape,
    make: fn(&[u8]) -> Vec<u8>,
}

impl Kernel for By {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        self.shape
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len + item_len / 8 + 64
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        match self.shape {
            OutputShape::Fixed(_) => {
                out.each(batch, |item, slot| slot.copy_from_slice(&(self.make)(item)));
            }
            OutputShape::Variable => out.each_outcome(batch, |item, slot| {
                let made = (self.make)(item);
                let slot = slot.get_mut(..made.len()).ok_or(JobError::DstTooShort)?;
                slot.copy_from_slice(&made);
                Ok(made.len() as u32)
            }),
        }
        Ok(())
    }
}

fn engine(
    name: &'static str,
    shape: OutputShape,
    make: fn(&[u8]) -> Vec<u8>,
    manner: Manner,
) -> Engine {
    let kernel = move |_: &spec::Custom| Ok(By { shape, make });
    let backend = OneKernel::of_operator("test", name, kernel);
    support::engine(manner.of(backend), &OpSpec::custom(name, []))
}

const WORD: &[u8] = b"session ";

/// An operator whose rule 7 matches a word of [`Application::Private`].
fn word(manner: Manner) -> Engine {
    let make = |item: &[u8]| match item.windows(WORD.len()).any(|part| part == WORD) {
        true => [7_u32, WORD.len() as u32].map(u32::to_le_bytes).concat(),
        false => Vec::new(),
    };
    engine("rules", OutputShape::Variable, make, manner)
}

fn rules(manner: Manner) -> RuleEngine {
    RuleEngine::new(word(manner)).expect("supported")
}

fn settings(policy: &str) -> Settings {
    let applications = Applications::built_in();
    Settings {
        flows: 4096,
        timeouts: Timeouts::default(),
        seed: 3,
        recognizer: recognition::Settings::default(),
        policy: Policy::read(policy, &applications).expect("a policy"),
        applications,
    }
}

/// Conversations of all kinds from their first packets on, and some packets behind them.
fn generator(delivery: Delivery, ipv6_share: f64) -> Generator {
    let mut said = Said::today();
    said.shares = Application::ALL
        .map(|application| (application, 1.0))
        .into();
    said.conversations = 4;
    said.delivery = delivery;
    let profile = Profile {
        sizes: Sizes::Fixed(200),
        flows: Flows {
            start: Start::Cold,
            ..Flows::endless(150)
        },
        ipv6_share,
        reply_share: 0.5,
        applications: Some(said),
        ..Profile::new(9)
    };
    Generator::new(&profile).expect("a profile")
}

/// A frame that is no IP.
fn arp() -> Vec<u8> {
    [&[2; 12][..], &[8, 6], &[0; 46]].concat()
}

/// Both ends of a flow in order, and true for TCP.
type Key = ([(u128, u16); 2], bool);

fn key(frame: &[u8]) -> Key {
    let frame = Frame::read(frame).expect("sound");
    let v4 = frame.tuple_v4().map(|it| {
        let wide = it
            .addresses
            .map(|address| 0xffff_0000_0000 | u128::from(address));
        (wide, it.ports)
    });
    let v6 = frame.tuple_v6().map(|it| (it.addresses, it.ports));
    let (addresses, ports) = v4.or(v6).expect("IP");
    let mut ends = [(addresses[0], ports[0]), (addresses[1], ports[1])];
    ends.sort_unstable();
    (ends, frame.protocol() == Some(protocol::TCP))
}

/// What each flow says, and its packets.
struct Sent {
    frames: Vec<Vec<u8>>,
    said: HashMap<Key, (Application, Option<String>)>,
}

fn sent(generator: &Generator, packets: u64) -> Sent {
    let stamps = StampKey::new(1, 1);
    let (mut frames, mut said) = (Vec::new(), HashMap::new());
    for i in 0..packets {
        let mut frame = vec![0; generator.frame_bytes(i)];
        generator.write(i, 0, &stamps, &mut frame);
        let conversation = generator
            .catalogue()
            .expect("applications")
            .of(generator.identity(i).member.flow);
        let name = conversation.server_name().map(str::to_owned);
        said.insert(key(&frame), (conversation.application(), name));
        frames.push(frame);
    }
    Sent { frames, said }
}

fn protocol_of(application: Application) -> Protocol {
    match application {
        Application::Tls12 | Application::Tls13 | Application::Tls13PostQuantum => Protocol::Tls,
        Application::QuicV1 | Application::QuicV1PostQuantum | Application::QuicV2 => {
            Protocol::Quic
        }
        Application::Http => Protocol::Http,
        Application::Dns => Protocol::Dns,
        Application::Ssh => Protocol::Ssh,
        Application::Smb => Protocol::Smb,
        Application::Private => Protocol::Unknown,
    }
}

/// Everything of the program: each flow is recognised as what it says, each packet gets the action of its flow, and outputs are right.
fn everything(manner: Manner, delivery: Delivery, ipv6_share: f64) {
    const POLICY: &str = "tls=hash,http=compress,rule=compress,dns=back,undecided=back,quic=back";
    let sent = sent(&generator(delivery, ipv6_share), 6000);
    let log = Arc::new(Log::new(1000));
    let (hashed, compressed) = (
        Arc::new(Results::new(1, 10_000)),
        Arc::new(Results::new(1, 10_000)),
    );
    let clock = Arc::new(VirtualClock::new(false));
    let recognise = Recognise::new(
        &settings(POLICY),
        Some(&rules(manner)),
        Some(Arc::clone(&log)),
        clock,
    );
    let recognise = recognise.expect("memory");
    let counts = recognise.counts();
    let sha256 = |item: &[u8]| Sha256::digest(item).to_vec();
    let sha256 = engine("sha256", OutputShape::Fixed(32), sha256, manner);
    let lz4 = engine(
        "lz4",
        OutputShape::Variable,
        lz4_flex::block::compress,
        manner,
    );
    let stages: Vec<Box<dyn Stage>> = vec![
        Box::new(recognise),
        Box::new(hash(&sha256, Arc::clone(&hashed)).expect("opens")),
        Box::new(compress(&lz4, Arc::clone(&compressed), 2000).expect("opens")),
    ];
    let mut line = Line::new("test", stages, 8);
    let frames = sent.frames.iter().map(|frame| buf(frame)).collect();
    let outcomes = through(&mut line, frames);
    // All go on as they came, in their order.
    assert_eq!(outcomes.len(), sent.frames.len());
    for (outcome, frame) in outcomes.iter().zip(&sent.frames) {
        assert_eq!(outcome.as_ref().expect("not dropped").0[..], frame[..]);
    }

    // Every flow has had its conversation by now, and is what it said.
    let (decided, beyond) = log.take();
    assert_eq!((decided.len(), beyond), (sent.said.len(), 0));
    let mut by_rule = 0;
    for flow in &decided {
        let mut ends = [0, 1].map(|side| (flow.addresses[side], flow.ports[side]));
        ends.sort_unstable();
        let (application, name) = &sent.said[&(ends, flow.is_tcp)];
        assert_eq!(flow.label.protocol, protocol_of(*application), "{flow:?}");
        let is_private = *application == Application::Private;
        assert_eq!(
            flow.label.evidence == Evidence::Rule,
            is_private,
            "{application:?} {flow:?}"
        );
        by_rule += u64::from(is_private);
        if let (Some(name), false) = (name, is_private) {
            assert_eq!(flow.host, Log::digest(name.as_bytes()), "{application:?}");
        }
    }
    let totals = counts.read();
    assert_eq!(
        (totals.packets, totals.refused, totals.full, totals.others),
        (6000, 0, 0, 0)
    );
    assert_eq!(
        (totals.decided, totals.by_rule, totals.given_up),
        (decided.len() as u64, by_rule, 0)
    );
    assert!(
        by_rule > 5 && totals.rule_items >= by_rule && totals.rule_failed == 0,
        "{totals:?}"
    );
    assert_eq!(totals.actions.iter().sum::<u64>(), totals.packets);

    // What was hashed and compressed are packets of flows with this action, from the verdict on.
    let frames_of = |applications: fn(Application) -> bool| {
        let mut of: HashMap<&[u8], usize> = HashMap::new();
        for frame in &sent.frames {
            if applications(sent.said[&key(frame)].0) {
                *of.entry(frame).or_default() += 1;
            }
        }
        of
    };
    let samples = hashed.take();
    assert_eq!(samples.len() as u64, totals.actions[Action::Hash as usize]);
    let tls = frames_of(|application| protocol_of(application) == Protocol::Tls);
    for sample in &samples {
        assert!(is_sha256(sample));
        assert_eq!(sample.output, Sha256::digest(&sample.input)[..]);
        assert!(tls.contains_key(&sample.input[..]));
    }
    // Of each connection but the packets before its hello: three of the handshake, and what the hello comes in before its last part.
    let count: usize = tls.values().sum();
    assert!(
        samples.len() < count && samples.len() > count / 2,
        "{} of {count}",
        samples.len()
    );

    let samples = compressed.take();
    let counted = compressed.read();
    assert_eq!((counted.items, counted.failed), (samples.len() as u64, 0));
    let payloads: Vec<Vec<u8>> =
        frames_of(|it| matches!(it, Application::Http | Application::Private))
            .into_keys()
            .map(|frame| Frame::read(frame).expect("sound").payload().to_vec())
            .collect();
    for sample in &samples {
        let decoded = lz4_flex::block::decompress(&sample.output, sample.input.len());
        assert_eq!(decoded.expect("a block"), sample.input);
        assert!(payloads.contains(&sample.input));
    }
    assert!(!samples.is_empty());
    let bytes: usize = samples.iter().map(|sample| sample.input.len()).sum();
    assert_eq!(counted.bytes_in, bytes as u64);
}

#[test]
fn flows_are_what_they_say_and_packets_get_their_action() {
    everything(Manner::default(), Delivery::Whole, 0.0);
}

#[test]
fn hellos_in_pieces_and_over_ipv6_are_recognised_too() {
    everything(Manner::default(), Delivery::Segments(90), 0.5);
    everything(Manner::default(), Delivery::Backwards(300), 1.0);
}

#[test]
fn engines_that_finish_late_and_in_any_order_change_nothing() {
    for seed in 0..4 {
        let manner = Manner {
            disorder: Some(seed),
            ..Manner::default()
        };
        everything(manner, Delivery::Whole, 0.3);
    }
}

#[test]
fn a_policy_drops_packets_and_each_is_counted() {
    let sent = sent(&generator(Delivery::Whole, 0.0), 3000);
    let clock = Arc::new(VirtualClock::new(false));
    let recognise = Recognise::new(
        &settings("dns=drop,rule=drop"),
        Some(&rules(Manner::default())),
        None,
        clock,
    );
    let recognise = recognise.expect("memory");
    let counts = recognise.counts();
    let mut line = Line::new("test", vec![Box::new(recognise)], 4);
    let outcomes = through(
        &mut line,
        sent.frames.iter().map(|frame| buf(frame)).collect(),
    );
    let dropped = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(Recognise::BY_POLICY)))
        .count();
    // All packets of DNS, and those of the private protocol from its first message on.
    let said = &sent.said;
    let of = |application| {
        let is = |frame: &&Vec<u8>| said[&key(frame)].0 == application;
        sent.frames.iter().filter(is).count()
    };
    let private_flows = sent
        .said
        .values()
        .filter(|(application, _)| *application == Application::Private)
        .count();
    let right = of(Application::Dns) + of(Application::Private) - 3 * private_flows;
    assert_eq!((dropped, outcomes.len()), (right, 3000));
    assert_eq!(counts.read().actions[Action::Drop as usize], right as u64);
}

/// Flows are added up by what they said, up to a number of names; packets that are sent back leave by the port that they came by, and are otherwise as they were.
#[test]
fn flows_are_added_up_and_packets_sent_back() {
    let sent = sent(&generator(Delivery::Whole, 0.3), 6000);
    let run = |names_max| {
        let tally = Arc::new(Tally::new(names_max));
        let clock = Arc::new(VirtualClock::new(false));
        let recognise = Recognise::new(&settings("tls=back,other=pass"), None, None, clock);
        let recognise = recognise.expect("memory").tallied(Arc::clone(&tally));
        let counts = recognise.counts();
        let stages: Vec<Box<dyn Stage>> = vec![
            Box::new(recognise),
            Box::new(send_back()),
            Box::new(bridge(vec![1, 0], Addresses::Kept)),
        ];
        let mut line = Line::new("test", stages, 4);
        let frames = sent.frames.iter().map(|frame| buf(frame)).collect();
        (through(&mut line, frames), counts.read(), tally)
    };
    let (outcomes, totals, tally) = run(10_000);
    let mut back = 0;
    for (outcome, frame) in outcomes.iter().zip(&sent.frames) {
        let (came, mark) = outcome.as_ref().expect("not dropped");
        let mut right = frame.clone();
        if mark.egress == mark.ingress {
            assert_eq!(protocol_of(sent.said[&key(frame)].0), Protocol::Tls);
            right[..6].copy_from_slice(&frame[6..12]);
            right[6..12].copy_from_slice(&frame[..6]);
            back += 1;
        }
        assert_eq!(came[..], right[..]);
    }
    assert_eq!(back, totals.actions[Action::Back as usize]);
    assert!(back > 0 && totals.actions[Action::Pass as usize] == 6000 - back);

    let mut right: HashMap<(Protocol, Vec<u8>), u64> = HashMap::new();
    for (application, name) in sent.said.values() {
        if *application != Application::Private {
            let name = name.clone().unwrap_or_default().into_bytes();
            *right.entry((protocol_of(*application), name)).or_default() += 1;
        }
    }
    let mut came: HashMap<(Protocol, Vec<u8>), u64> = HashMap::new();
    for kind in tally.read() {
        *came.entry((kind.protocol, kind.name)).or_default() += kind.flows;
    }
    assert_eq!(came, right);
    assert_eq!(tally.beyond(), 0);

    let (.., few) = run(2);
    let (all, named) = (few.read(), right.values().sum::<u64>());
    let names: HashSet<&[u8]> = all.iter().map(|kind| &kind.name[..]).collect();
    assert_eq!(names.iter().filter(|name| !name.is_empty()).count(), 2);
    assert_eq!(all.iter().map(|kind| kind.flows).sum::<u64>(), named);
    assert!(few.beyond() > 0);
}

#[test]
fn an_operator_without_matches_is_no_rules() {
    let sha256 = |item: &[u8]| Sha256::digest(item).to_vec();
    let sha256 = engine("sha256", OutputShape::Fixed(32), sha256, Manner::default());
    let error = RuleEngine::new(sha256).expect_err("no rules");
    let SetupError::Parameter(why) = &error else {
        panic!("{error}");
    };
    assert!(why.starts_with("sha256 as rules"), "{why}");
}

/// A segment of the connection between 10.0.0.1 and 10.0.1.1.
fn tcp(ports: [u16; 2], sequence: u32, is_syn: bool, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(support::HERE, support::THERE)
        .ipv4([10, 0, 0, 1], [10, 0, 1, 1], 9)
        .tcp(ports[0], ports[1], sequence, 1000);
    let builder = match is_syn {
        true => builder.syn(),
        false => builder.ack(1),
    };
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, payload).expect("a Vec takes all");
    frame
}

/// A request whose headers have no end: its flow is decided when it ends, by a sweep of the table or by a SYN that opens another one with the same ends.
#[test]
fn flows_that_end_are_decided_by_what_they_said() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nAccept: x\r\n";
    for turn_ms in [1000, u32::MAX] {
        let (clock, log) = (Arc::new(VirtualClock::new(false)), Arc::new(Log::new(9)));
        let mut settings = settings("");
        settings.timeouts.transitory_ms = 1000;
        settings.timeouts.turn_ms = turn_ms;
        let now: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let recognise = Recognise::new(&settings, None, Some(Arc::clone(&log)), now);
        let recognise = recognise.expect("memory");
        let counts = recognise.counts();
        let mut line = Line::new("test", vec![Box::new(recognise)], 4);
        let before = [
            // Another flow, which the table looks at first.
            support::udp_v4([[10, 0, 0, 9], [10, 0, 1, 1]], [9999, 9998], 5, &[0x91; 30]),
            tcp([1000, 80], 7, true, b""),
            tcp([1000, 80], 8, false, REQUEST),
            tcp([1001, 80], 7, true, b""),
            tcp([1001, 80], 8, false, &[0x91; 30]),
        ];
        through(&mut line, before.map(|frame| buf(&frame)).into());
        assert_eq!((counts.read().decided, counts.read().given_up), (0, 0));
        clock.advance_to(2_000_000_000);
        let after = [1000, 1001].map(|port| buf(&tcp([port, 80], 90_000, true, b"")));
        through(&mut line, after.into());
        let totals = counts.read();
        assert_eq!((totals.began, totals.ended), (5, 2), "{turn_ms}");
        assert_eq!((totals.decided, totals.given_up), (1, 1), "{turn_ms}");
        let (mut decided, _) = log.take();
        decided.sort_by_key(|flow| flow.ports);
        let found: Vec<_> = (decided.iter())
            .map(|flow| (flow.ports, flow.label.protocol, flow.label.evidence))
            .collect();
        // Of what no reader knows the port is left.
        let right = [
            ([1000, 80], Protocol::Http, Evidence::Http),
            ([1001, 80], Protocol::Http, Evidence::Port),
        ];
        assert_eq!(found, right, "{turn_ms}");
    }
}

/// Twenty flows say the word and no more, and a job takes four streams: five jobs have seen all of them.
#[test]
fn streams_that_find_no_room_in_a_job_are_in_the_next_one() {
    let small = Engine {
        packets_max: 2,
        ..word(Manner::default())
    };
    let small = RuleEngine::new(small).expect("supported");
    let clock = Arc::new(VirtualClock::new(false));
    let recognise = Recognise::new(&settings("rule=hash"), Some(&small), None, clock);
    let recognise = recognise.expect("memory");
    let counts = recognise.counts();
    let mut line = Line::new("test", vec![Box::new(recognise)], 4);
    let payload = [&[0x91; 30], WORD].concat();
    let said =
        (0..20).map(|i| support::udp_v4([[10, 0, 0, i], [10, 0, 1, 1]], [9999, 9998], 5, &payload));
    through(&mut line, said.map(|frame| buf(&frame)).collect());
    assert_eq!(counts.read().by_rule, 4);
    for _ in 0..4 {
        through(&mut line, vec![buf(&arp())]);
    }
    let totals = counts.read();
    assert_eq!((totals.by_rule, totals.rule_items), (20, 20));
}

#[test]
fn without_rules_a_private_protocol_stays_unknown() {
    let sent = sent(&generator(Delivery::Whole, 0.0), 9000);
    let log = Arc::new(Log::new(1000));
    let clock = Arc::new(VirtualClock::new(false));
    let recognise = Recognise::new(&settings("other=back"), None, Some(Arc::clone(&log)), clock)
        .expect("memory");
    let mut line = Line::new("test", vec![Box::new(recognise)], 4);
    through(
        &mut line,
        sent.frames.iter().map(|frame| buf(frame)).collect(),
    );
    let (decided, beyond) = log.take();
    assert_eq!((decided.len(), beyond), (sent.said.len(), 0));
    let mut private = 0;
    for flow in decided {
        let mut ends = [0, 1].map(|side| (flow.addresses[side], flow.ports[side]));
        ends.sort_unstable();
        let is_private = sent.said[&(ends, flow.is_tcp)].0 == Application::Private;
        assert_eq!(flow.label.evidence.is_inspection(), !is_private, "{flow:?}");
        private += usize::from(is_private);
    }
    assert!(private > 5, "{private}");
}

/// What is no IP and what has no room for its flow goes on; what is malformed does not.
#[test]
fn packets_without_a_flow_have_their_action_too() {
    let small = Settings {
        flows: 1,
        ..settings("undecided=hash")
    };
    let clock = Arc::new(VirtualClock::new(false));
    let recognise = Recognise::new(&small, None, None, clock).expect("memory");
    let counts = recognise.counts();
    let mut stage: Box<dyn Stage> = Box::new(recognise);
    let mut burst = dpb_net::pipeline::Burst::with_capacity(4);
    let flow =
        |i: u8| support::udp_v4([[10, 0, 0, i], [10, 0, 1, 1]], [9999, 9998], 5, &[0x91; 30]);
    for frame in [flow(1), flow(2), arp(), flow(3)[..30].to_vec()] {
        burst.push(buf(&frame), dpb_net::pipeline::Mark::of(0));
    }
    let mut done = Vec::new();
    stage.offer(&mut VecDeque::from([burst]));
    assert_eq!((stage.poll(&mut done), stage.in_flight()), (1, 0));
    let totals = counts.read();
    assert_eq!(
        (totals.packets, totals.full, totals.others, totals.refused),
        (4, 1, 1, 1)
    );
    assert_eq!(totals.actions, [0, 3, 0, 0, 0]);
    assert_eq!(
        done[0]
            .marks()
            .iter()
            .filter(|mark| mark.dropped.is_some())
            .count(),
        1
    );
}
