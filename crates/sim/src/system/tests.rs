//! Whole systems: two clients, a switch and a server.

use std::net::Ipv4Addr;
use std::sync::Arc;

use dpb_core::conformance::sample::Sample;
use dpb_core::{Backend, OpSpec, Operator, spec};

use super::*;
use crate::kernel::{ComponentId, Kernel, MICROSECOND_PS, MILLISECOND_PS, Plan, SECOND_PS};
use crate::tcp::Config;

/// Where digests are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Digests {
    Nowhere,
    Hosts,
    Cards,
}

#[derive(Clone, Debug)]
struct Setting {
    digests: Digests,
    framing: Framing,
    faults: WireFaults,
    seed: u64,
    threads: usize,
    /// The application of each client, and of the server.
    applications: (Application, Application),
    host: HostModel,
}

const BULK: (Application, Application) =
    (Application::Send { bytes: 3_000_000 }, Application::Receive);

impl Default for Setting {
    fn default() -> Self {
        Self {
            digests: Digests::Nowhere,
            framing: Framing::Length,
            faults: WireFaults::default(),
            seed: 1,
            threads: 1,
            applications: BULK,
            host: HostModel::default(),
        }
    }
}

struct System {
    kernel: Kernel<Message>,
    hosts: Vec<ComponentId>,
    cards: Vec<ComponentId>,
    switch: ComponentId,
}

fn operator() -> Arc<dyn Operator> {
    let prepared = Sample::new(None).prepare(&OpSpec::from(spec::Crc32c));
    prepared.expect("the sample computes CRC-32C")
}

fn address(host: usize) -> Address {
    Address {
        mac: [2, 0, 0, 0, 0, host as u8 + 1],
        ip: Ipv4Addr::new(10, 0, 0, host as u8 + 1),
        port: 5001,
    }
}

fn protection(setting: &Setting, place: Digests) -> Option<Protection> {
    (setting.digests == place)
        .then(|| Protection::new(operator(), setting.framing).expect("digests of four bytes"))
}

/// Host 0 is the server; the wires from the switch have the faults.
fn system(setting: &Setting) -> System {
    let mut plan = Plan::new();
    let wire = |faults, number| {
        let model = WireModel {
            faults,
            ..WireModel::default()
        };
        Wire::new(model, setting.seed * 100 + number)
    };
    let (mut hosts, mut cards) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let opening = Opening {
            at_ps: number as u64 * MICROSECOND_PS,
            port: 40_000,
            to: address(0),
            application: setting.applications.0,
            config: Config::default(),
        };
        let listening = Listening {
            port: 5001,
            application: setting.applications.1,
            config: Config::default(),
        };
        let host = Host::new(
            setting.host,
            address(number),
            if number == 0 { vec![] } else { vec![opening] },
            if number == 0 { vec![listening] } else { vec![] },
            protection(setting, Digests::Hosts),
        );
        let times = Times::Linear {
            job_ps: 500_000,
            byte_ps: 200,
        };
        let stage = StageModel {
            lanes: 2,
            waiting_max: 64,
            latency_ps: 100_000,
            ..StageModel::new("digest", times)
        };
        let wire = Wire::new(
            WireModel {
                queue_bytes: u64::MAX,
                ..WireModel::default()
            },
            number as u64,
        );
        let protection = protection(setting, Digests::Cards);
        let stages = Vec::from_iter(protection.is_some().then_some(stage));
        let card = Card::new(CardModel::default(), wire, stages, protection);
        hosts.push(plan.add(&format!("host {number}"), 2, host));
        cards.push(plan.add(&format!("card {number}"), 1, card));
    }
    let wires = (0..3).map(|port| wire(setting.faults, port)).collect();
    let switch = plan.add("switch", 1, Switch::new(SwitchModel::default(), wires));
    for number in 0..3 {
        plan.join((hosts[number], 0), (cards[number], card::HOST), 300_000)
            .expect("free ports");
        plan.join(
            (cards[number], card::WIRE),
            (switch, number),
            MICROSECOND_PS,
        )
        .expect("free ports");
    }
    System {
        kernel: plan.build(setting.threads),
        hosts,
        cards,
        switch,
    }
}

impl System {
    fn host(&self, number: usize) -> &Host {
        let host = self.kernel.component(self.hosts[number]);
        host.expect("a host")
    }

    fn card(&self, number: usize) -> &Card {
        let card = self.kernel.component(self.cards[number]);
        card.expect("a card")
    }

    /// Runs until the clients have finished, and then until nothing is under way.
    fn finish(&mut self) {
        for _ in 0..200 {
            let end_ps = self.kernel.now_ps() + 10 * MILLISECOND_PS;
            self.kernel.run_until(end_ps).expect("nothing fails");
            if (0..3).all(|number| self.host(number).has_finished(0)) {
                let end_ps = self.kernel.now_ps() + SECOND_PS;
                self.kernel.run_until(end_ps).expect("nothing fails");
                return;
            }
        }
        panic!(
            "the transfers have not finished in {} ps",
            self.kernel.now_ps()
        );
    }

    /// Everything that is counted, as text.
    fn record(&self) -> String {
        let hosts = (0..3).map(|number| {
            let host = self.host(number);
            let flows: Vec<_> = host
                .flows()
                .iter()
                .map(|it| {
                    (
                        it.opened_ps,
                        it.finished_ps,
                        it.endpoint.delivered_bytes(),
                        *it.endpoint.sender().statistics(),
                    )
                })
                .collect();
            format!(
                "{:?} {:?} {:?} {flows:?}\n",
                host.usage(),
                host.ways(),
                host.protection()
            )
        });
        let cards = (0..3).map(|number| {
            let card = self.card(number);
            let stages: Vec<_> = card.stages().collect();
            format!(
                "{:?} {:?} {:?} {stages:?} {:?}\n",
                card.usage(),
                card.wire_usage(),
                card.dma(),
                card.protection()
            )
        });
        let switch: &Switch = self.kernel.component(self.switch).expect("a switch");
        let wires: Vec<_> = (0..3).map(|port| switch.wire_usage(port)).collect();
        let switch = format!("{:?} {wires:?}", switch.usage());
        hosts.chain(cards).chain([switch]).collect()
    }

    /// Each frame is somewhere: sent and received by cards, wires, switch and hosts agree.
    fn check_conservation(&self) {
        let switch: &Switch = self.kernel.component(self.switch).expect("a switch");
        let mut into_switch = 0;
        for number in 0..3 {
            let (host, card) = (self.host(number).usage(), self.card(number).usage());
            assert_eq!(host.sent, card.from_host);
            let sent = self.card(number).wire_usage();
            assert_eq!((sent.offered, sent.dropped), (card.from_host, 0));
            into_switch += sent.sent - sent.lost + sent.duplicated;
            let out = switch.wire_usage(number).expect("a port");
            assert_eq!(out.offered, out.sent + out.dropped);
            assert_eq!(card.received, out.sent - out.lost + out.duplicated);
            let fates = card.to_host + card.no_descriptor + card.stage_full + card.refused;
            assert_eq!(card.received, fates);
            assert_eq!(host.received, card.to_host);
            let fates =
                host.accepted + host.foreign + host.unwanted + host.sum_wrong + host.refused;
            assert_eq!(host.received, fates);
        }
        let usage = switch.usage();
        assert_eq!(usage.frames, into_switch);
        let offered: u64 = (0..3)
            .filter_map(|port| switch.wire_usage(port))
            .map(|it| it.offered)
            .sum();
        // A flooded frame is offered to two ports.
        assert_eq!(
            offered,
            usage.frames + usage.flooded - usage.turned_back - usage.buffer_full
        );
    }
}

#[test]
fn transfers_arrive_whole() {
    for digests in [Digests::Nowhere, Digests::Hosts, Digests::Cards] {
        for framing in [Framing::Length, Framing::Mark] {
            let mut system = system(&Setting {
                digests,
                framing,
                ..Setting::default()
            });
            system.finish();
            system.check_conservation();
            let server = system.host(0);
            assert_eq!(server.flows().len(), 2);
            for flow in server.flows() {
                assert_eq!(flow.endpoint.delivered_bytes(), 3_000_000);
                assert!(flow.finished_ps.is_some());
            }
            assert_eq!(server.usage().payload_wrong, 0);
            assert_eq!(server.usage().unwanted, 0);
            let legs: u64 = server.ways().legs_ps.iter().sum();
            assert!(legs / server.ways().frames < server.ways().longest_ps);
            let protection = match digests {
                Digests::Nowhere => continue,
                Digests::Hosts => server.protection(),
                Digests::Cards => system.card(0).protection(),
            };
            let protection = protection.expect("there is a protection");
            assert!(protection.right >= 2 * 3_000_000 / 1460, "{protection:?}");
            assert_eq!((protection.wrong, protection.bare), (0, 0));
        }
    }
}

#[test]
fn the_same_on_one_thread_and_on_several() {
    for digests in [Digests::Hosts, Digests::Cards] {
        let faults = WireFaults {
            loss: 0.002,
            flip: 0.001,
            duplicate: 0.001,
        };
        let records = [1, 2, 3, 4].map(|threads| {
            let mut system = system(&Setting {
                digests,
                faults,
                threads,
                // Short, as more threads than cores take turns.
                applications: (Application::Send { bytes: 600_000 }, Application::Receive),
                ..Setting::default()
            });
            assert_eq!(system.kernel.threads(), threads);
            system.finish();
            system.check_conservation();
            system.record()
        });
        for other in &records[1..] {
            assert_eq!(*other, records[0]);
        }
    }
}

#[test]
fn flipped_bits_are_all_found_with_digests_and_none_without() {
    let faults = WireFaults {
        flip: 0.01,
        ..WireFaults::default()
    };
    // Quick enough that no frame finds all buffers full.
    let host = HostModel {
        checksums: false,
        send_ps: 100_000,
        receive_ps: 100_000,
        byte_ps: 10,
        interrupt_ps: 500_000,
        ..HostModel::default()
    };
    for seed in 0..4 {
        let made = |digests| {
            system(&Setting {
                digests,
                faults,
                host,
                seed,
                ..Setting::default()
            })
        };
        let run = |digests| {
            let mut system = made(digests);
            system.finish();
            system.check_conservation();
            assert!((0..3).all(|number| system.card(number).usage().no_descriptor == 0));
            system
        };
        for digests in [Digests::Hosts, Digests::Cards] {
            let system = run(digests);
            for number in 0..3 {
                let switch: &Switch = system.kernel.component(system.switch).expect("a switch");
                let flipped = switch.wire_usage(number).expect("a port").flipped;
                let (host, card) = (system.host(number).usage(), system.card(number).usage());
                assert_eq!(host.payload_wrong, 0);
                let found = card.refused + host.refused;
                match digests {
                    // A frame whose type of Ethernet was flipped is no packet any more: it passes the card, and no connection wants it.
                    Digests::Cards => assert_eq!(found + host.unwanted, flipped),
                    // A host does not look at frames with another address, flipped or flooded.
                    _ => assert!((found..=found + host.foreign).contains(&flipped)),
                }
                assert!(number == 0 || flipped > 0);
            }
        }
        // Without digests and checksums frames get through as they are. Payload is 1448 of 1514 bytes, so most flips are in it, and the application has them. Of the others
        // the host wants no frame whose addresses, ports or protocol are others; the rest changed other headers, and nobody sees it.
        let mut bare = made(Digests::Nowhere);
        // A flipped number of TCP may hold a transfer up for ever.
        let ran = bare.kernel.run_until(SECOND_PS);
        ran.expect("nothing fails");
        let switch: &Switch = bare.kernel.component(bare.switch).expect("a switch");
        let flipped = switch.wire_usage(0).expect("a port").flipped;
        let server = bare.host(0).usage();
        let told = server.payload_wrong + server.unwanted + server.foreign;
        assert!(flipped > 20 && told <= flipped, "{flipped}, {server:?}");
        assert!(
            10 * server.payload_wrong > 8 * flipped,
            "{flipped}, {server:?}"
        );
        assert_eq!(bare.host(0).flows().len(), 2);
    }
}

/// Sends what it holds, and keeps what comes.
struct Hands {
    messages: Vec<Message>,
    came: Vec<Message>,
}

impl Hands {
    fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            came: Vec::new(),
        }
    }
}

impl crate::kernel::Component<Message> for Hands {
    fn start(&mut self, context: &mut crate::kernel::Context<'_, Message>) {
        for message in self.messages.drain(..) {
            context.send(0, message);
        }
    }

    fn receive(&mut self, _: usize, message: Message, _: &mut crate::kernel::Context<'_, Message>) {
        self.came.push(message);
    }
}

/// A frame from outside: addresses, a type, then a hundred bytes of which the first are these.
fn from_outside(kind: [u8; 2], first: u8, bytes: usize) -> Message {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind);
    frame.extend([first, 0, 0, 100]);
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
    frame.resize(14 + 100, 0);
    frame.truncate(bytes);
    Message::Frame(Frame::from_bytes(&frame, 0).expect("a frame"))
}

/// Whatever a packet says of its version and of options, and if it ends too soon: without a digest it does not pass. What is no packet does.
#[test]
fn a_card_refuses_every_packet_without_a_digest() {
    for framing in [Framing::Length, Framing::Mark] {
        let setting = Setting {
            digests: Digests::Cards,
            framing,
            ..Setting::default()
        };
        let packets = [
            from_outside([8, 0], 0x45, 114),
            from_outside([8, 0], 0x47, 114),
            from_outside([8, 0], 0x40, 114),
            from_outside([8, 0], 0x65, 114),
            from_outside([8, 0], 0x45, 20),
            from_outside([8, 0], 0x45, 15),
        ];
        let (arp, ipv6) = (
            from_outside([8, 6], 0, 42),
            from_outside([0x86, 0xdd], 0x60, 114),
        );
        let mut messages = Vec::from(packets);
        messages.extend([arp, ipv6]);
        let mut plan = Plan::new();
        let stage = StageModel::new(
            "digest",
            Times::Linear {
                job_ps: 1,
                byte_ps: 1,
            },
        );
        let card = Card::new(
            CardModel::default(),
            Wire::new(WireModel::default(), 1),
            vec![stage],
            protection(&setting, Digests::Cards),
        );
        let card = plan.add("card", 1, card);
        let wire = plan.add("wire", 1, Hands::new(messages));
        let host = plan.add("host", 1, Hands::new(Vec::new()));
        plan.join((wire, 0), (card, card::WIRE), 1)
            .expect("free ports");
        plan.join((host, 0), (card, card::HOST), 1)
            .expect("free ports");
        let mut kernel = plan.build(1);
        kernel.run_until(MILLISECOND_PS).expect("nothing fails");
        let card: &Card = kernel.component(card).expect("a card");
        let usage = card.usage();
        assert_eq!((usage.refused, usage.to_host), (6, 2), "{framing:?}");
        assert_eq!(card.protection().expect("a protection").bare, 8);
    }
}

/// A segment from a port that nobody has opened a connection from, as a flipped bit makes one.
#[test]
fn only_a_syn_opens_a_connection() {
    for (flags, flows) in [(0x02, 1), (0x10, 0), (0x12, 0), (0x11, 0)] {
        let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 40];
        head.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        head.extend([0x9c, 0x40]);
        head.extend(5001u16.to_be_bytes());
        head.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        let frame = Frame::new(&head, Stream { seed: 0, offset: 0 }, 0, 0);
        let news = Interrupt {
            frames: vec![frame],
            sent: 0,
        };
        let mut plan = Plan::new();
        let listening = Listening {
            port: 5001,
            application: Application::Receive,
            config: Config::default(),
        };
        let host = Host::new(
            HostModel::default(),
            address(0),
            Vec::new(),
            vec![listening],
            None,
        );
        let host = plan.add("host", 1, host);
        let card = plan.add(
            "card",
            1,
            Hands::new(vec![Message::Interrupt(Box::new(news))]),
        );
        plan.join((host, 0), (card, 0), 1).expect("free ports");
        let mut kernel = plan.build(1);
        kernel.run_until(MILLISECOND_PS).expect("nothing fails");
        let host: &Host = kernel.component(host).expect("a host");
        assert_eq!(host.flows().len(), flows, "{flags:#x}");
        assert_eq!(host.usage().unwanted, 1 - flows as u64, "{flags:#x}");
    }
}

#[test]
fn checksums_find_single_flips_of_packets() {
    let faults = WireFaults {
        flip: 0.01,
        ..WireFaults::default()
    };
    let mut system = system(&Setting {
        faults,
        ..Setting::default()
    });
    system.finish();
    let server = system.host(0).usage();
    assert_eq!(server.payload_wrong, 0);
    assert!(server.sum_wrong > 10);
}

#[test]
fn requests_are_answered() {
    let (request_bytes, answer_bytes) = (64, 1000);
    let applications = (
        Application::Ask {
            requests: 500,
            request_bytes,
            answer_bytes,
            pace: Pace::BACK_TO_BACK,
        },
        Application::Answer {
            request_bytes,
            answer_bytes,
        },
    );
    let faults = WireFaults {
        loss: 0.005,
        ..WireFaults::default()
    };
    for faults in [WireFaults::default(), faults] {
        let mut system = system(&Setting {
            applications,
            faults,
            ..Setting::default()
        });
        system.finish();
        system.check_conservation();
        for client in 1..3 {
            let flow = &system.host(client).flows()[0];
            assert_eq!(flow.answers, 500);
            assert_eq!(flow.endpoint.delivered_bytes(), 500 * answer_bytes);
        }
        let answered: u64 = system.host(0).flows().iter().map(|it| it.answers).sum();
        assert_eq!(answered, 1000);
    }
}
