//! Packets in, verdicts out.

mod candidates;
mod conversation;
mod datagram;
mod desk;
mod outcome;
mod resolutions;
mod settings;
mod state;

use std::sync::Arc;

pub use candidates::Candidate;
pub use outcome::{GiveUp, Outcome, Packet, Segment, Stats};
pub use settings::{Limits, Settings};

use conversation::{Conversation, Step};
use datagram::Collected;
use desk::Desk;
use resolutions::Resolutions;
use state::States;

use super::stream::{Inserted, LONG_BYTES, Pool};
use super::verdict::{Opened, Progress};
use super::{Applications, Evidence, Mark, NameSource, Protocol};
use crate::flow::{Direction, Flags};

/// Recognises the flows of one shard. See [the module](super).
pub struct Recognizer {
    desk: Desk,
    pool: Pool,
    states: States,
    names: Resolutions,
    applications: Arc<Applications>,
    /// States with bytes for rules.
    fresh: Vec<u32>,
}

impl Recognizer {
    /// A recognizer whose memory is all there.
    pub fn new(settings: Settings, applications: Arc<Applications>) -> Self {
        let limits = settings.limits;
        let undecided_max = limits.undecided_max.clamp(1, 1 << 24);
        Self {
            desk: Desk::new(settings),
            pool: Pool::new(undecided_max, undecided_max.div_ceil(4)),
            states: States::new(undecided_max),
            names: Resolutions::new(&limits, settings.seed),
            applications,
            fresh: Vec::with_capacity(undecided_max as usize),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        self.desk.stats
    }

    /// The applications that verdicts name.
    pub fn applications(&self) -> &Applications {
        &self.applications
    }

    /// Flows of which something is held.
    pub fn undecided(&self) -> usize {
        self.states.len()
    }

    /// Looks at a packet of the flow whose mark this is. `now_ms` never goes back; it may wrap around.
    #[inline]
    pub fn packet(&mut self, mark: &mut Mark, packet: &Packet<'_>, now_ms: u32) -> Outcome<'_> {
        if let Some(label) = mark.label() {
            self.desk.stats.known += 1;
            if label.protocol == Protocol::Dns {
                self.learn(packet, now_ms);
            }
            return Outcome::Known(label);
        }
        self.desk.stats.inspected += 1;
        match packet.segment {
            Some(segment) => self.segment(mark, packet, segment, now_ms),
            None => self.datagram(mark, packet, now_ms),
        }
    }

    /// A flow is over: what is held of it is looked at for the last time, and let go. So it is decided by what it said, or given up. `None` if it was decided before, or
    /// nothing is known of it.
    pub fn end(&mut self, mark: &mut Mark, now_ms: u32) -> Option<Outcome<'_>> {
        let Progress::Undecided { place, turn } = mark.progress() else {
            return None;
        };
        if !self.states.has(place, turn) {
            *mark = Mark::default();
            return None;
        }
        Some(self.finish(mark, place, GiveUp::Ended, now_ms))
    }

    fn segment(
        &mut self,
        mark: &mut Mark,
        packet: &Packet<'_>,
        segment: Segment,
        now_ms: u32,
    ) -> Outcome<'_> {
        let direction = packet.direction as usize;
        let Segment { flags, sequence } = segment;
        let has_syn = flags.has(Flags::SYN);
        // A SYN takes a number of its own, before what it may carry (RFC 7413).
        let sequence = sequence.wrapping_add(u32::from(has_syn));
        let mut opened = match mark.progress() {
            Progress::Undecided { place, turn } => {
                return match self.states.has(place, turn) {
                    true => self.continued(mark, place, packet, sequence, flags, now_ms),
                    false => self.reclaimed(mark, packet, now_ms),
                };
            }
            Progress::Opened(opened) => opened,
            _ => Opened {
                initiator: packet.direction as u8,
                ..Opened::default()
            },
        };
        if has_syn {
            opened.initiator = match flags.has(Flags::ACK) {
                true => packet.direction.reverse() as u8,
                false => packet.direction as u8,
            };
            opened.next[direction] = Some(sequence);
            *mark = Mark::of(Progress::Opened(opened));
        }
        if packet.payload.is_empty() {
            return Outcome::Inspect;
        }
        let expected = opened.next_near(packet.direction, sequence);
        if expected.is_none_or(|expected| expected == sequence) {
            // The start of its direction: most flows are decided here, where their bytes lie.
            let mut bytes: [&[u8]; 2] = [&[]; 2];
            bytes[direction] = packet.payload;
            let mut over = [false; 2];
            over[direction] = flags.has(Flags::FIN) && !self.desk.settings.has_rules;
            let talk = Conversation {
                bytes,
                over,
                foreign: [false; 2],
                initiator: usize::from(opened.initiator),
                ports: by_direction(packet.ports, packet.direction),
            };
            self.desk.verdict.clear();
            if conversation::examine(&mut self.desk, &talk) == Step::Found {
                let server = packet.addresses[usize::from(talk.initiator == direction)];
                if self.desk.verdict.label.protocol == Protocol::Dns {
                    self.learn(packet, now_ms);
                }
                self.desk.stats.at_once += 1;
                return self.decide(mark, server, 1, now_ms);
            }
        }
        let Some(place) = self.state(packet, now_ms) else {
            return self.refuse(mark, packet, now_ms);
        };
        let state = &mut self.states[place];
        state.opened = opened;
        state.initiator = opened.initiator;
        *mark = Mark::of(Progress::Undecided {
            place,
            turn: state.turn,
        });
        self.continued(mark, place, packet, sequence, flags, now_ms)
    }

    /// A packet of a flow of which there is a state.
    fn continued(
        &mut self,
        mark: &mut Mark,
        place: u32,
        packet: &Packet<'_>,
        sequence: u32,
        flags: Flags,
        now_ms: u32,
    ) -> Outcome<'_> {
        let direction = packet.direction as usize;
        let has_rules = self.desk.settings.has_rules;
        let state = &mut self.states[place];
        state.last_ms = now_ms;
        let stream = &mut state.streams[direction];
        if !stream.has_base && (flags.has(Flags::SYN) || !packet.payload.is_empty()) {
            let expected = state.opened.next_near(packet.direction, sequence);
            let start = flags.has(Flags::SYN).then_some(sequence).or(expected);
            stream.has_base = true;
            stream.is_base_sure = start.is_some();
            stream.base = start.unwrap_or(sequence);
        }
        // A reset counts if its number is near what the receiver expects (RFC 9293, 3.5.2); others are made to make flows forgotten.
        let offset = sequence.wrapping_sub(stream.base) as i32;
        if flags.has(Flags::RST) {
            let is_near = !stream.has_base || (-1..=1 << 16).contains(&offset);
            return match is_near {
                true => self.finish(mark, place, GiveUp::Ended, now_ms),
                false => Outcome::Inspect,
            };
        }
        let mut inserted = Inserted::Known;
        if !packet.payload.is_empty() {
            state.packets = state.packets.saturating_add(1);
            if !stream.is_base_sure && offset < 0 {
                // What was taken for the start was not.
                stream.is_foreign = false;
            }
            if !stream.is_foreign || has_rules {
                inserted = stream.segment(&mut self.pool, sequence, packet.payload);
            }
            if inserted == Inserted::Dropped {
                self.desk.stats.dropped += 1;
            }
        }
        let stream = &mut state.streams[direction];
        // One that lies before the start is old, or made to end what goes on.
        let offset = sequence.wrapping_sub(stream.base) as i32;
        if flags.has(Flags::FIN) && stream.has_base && offset >= 0 {
            let end = (offset as usize).saturating_add(packet.payload.len());
            stream.end = Some(end.min(LONG_BYTES) as u16);
        }
        let (front, is_over) = (stream.filled.front(), stream.is_over());
        let has_news = inserted == Inserted::Grown && !stream.is_foreign;
        let is_enough = front >= usize::from(stream.wanted) && stream.read.is_due(front, is_over);
        let is_read = stream.read.is_last(is_over) || has_news && is_enough;
        if is_read {
            stream.read.look(front, is_over);
        }
        if has_rules && stream.shown.is_due(front, is_over) {
            state.list(place, &mut self.fresh);
        }
        if is_read {
            self.desk.verdict.clear();
            match self.examine(place, false) {
                Step::Found => {
                    if self.desk.verdict.label.protocol == Protocol::Dns {
                        let said = self.states[place].streams[direction].bytes(&self.pool);
                        self.desk.stats.names += self.names.hear(packet, said, now_ms);
                    }
                    return self.release(mark, place, now_ms);
                }
                Step::Wait(wait) => {
                    let state = &mut self.states[place];
                    state.likely = wait.likely;
                    for (direction, stream) in state.streams.iter_mut().enumerate() {
                        stream.wanted = wait.wanted[direction].min(LONG_BYTES) as u16;
                        stream.is_foreign = wait.foreign[direction];
                    }
                }
            }
        }
        let state = &mut self.states[place];
        // What a reader waits for is bounded by its bytes, not by packets.
        let is_wanted = has_news && !state.streams[direction].is_foreign;
        if !is_wanted && !packet.payload.is_empty() {
            state.idle_packets += 1;
        }
        let [up, down] = &state.streams;
        let is_over = up.is_over() && down.is_over();
        let is_foreign = up.is_foreign && down.is_foreign && !has_rules;
        let is_limit = state.idle_packets >= self.desk.settings.limits.packets_max;
        match () {
            () if is_foreign => self.finish(mark, place, GiveUp::Foreign, now_ms),
            () if is_over || is_limit => self.finish(mark, place, GiveUp::Limit, now_ms),
            () => Outcome::Inspect,
        }
    }

    /// Has the readers look at what is held of a connection.
    fn examine(&mut self, place: u32, is_last: bool) -> Step {
        self.desk.stats.readings += 1;
        let state = &self.states[place];
        let [up, down] = &state.streams;
        let talk = Conversation {
            bytes: [up.bytes(&self.pool), down.bytes(&self.pool)],
            over: [is_last || up.is_over(), is_last || down.is_over()],
            foreign: match is_last {
                true => [false; 2],
                false => [up.is_foreign, down.is_foreign],
            },
            initiator: usize::from(state.initiator),
            ports: state.ports,
        };
        conversation::examine(&mut self.desk, &talk)
    }

    fn datagram(&mut self, mark: &mut Mark, packet: &Packet<'_>, now_ms: u32) -> Outcome<'_> {
        let place = match mark.progress() {
            Progress::Undecided { place, turn } => match self.states.has(place, turn) {
                true => Some(place),
                false => return self.reclaimed(mark, packet, now_ms),
            },
            _ => None,
        };
        let mut collected = Collected::default();
        let mut initiator = packet.direction as u8;
        let mut packets = 0;
        if let Some(place) = place {
            let state = &self.states[place];
            collected = state.collected;
            (initiator, packets) = (state.initiator, state.packets);
            let held = self.pool.room(state.streams[0].block);
            (self.desk.assembly.room()).copy_from(&held, collected.filled.end());
        }
        self.desk.verdict.clear();
        let direction = packet.direction as usize;
        let step = datagram::examine(&mut self.desk, packet, &mut collected);
        if step == datagram::Step::Found {
            let server = packet.addresses[usize::from(usize::from(initiator) == direction)];
            if self.desk.verdict.label.protocol == Protocol::Dns {
                self.learn(packet, now_ms);
            }
            return match place {
                Some(place) => {
                    let state = &mut self.states[place];
                    state.packets = state.packets.saturating_add(1);
                    self.release(mark, place, now_ms)
                }
                None => {
                    self.desk.stats.at_once += 1;
                    self.decide(mark, server, packets + 1, now_ms)
                }
            };
        }
        let place = match place {
            Some(place) => place,
            None => {
                let Some(place) = self.state(packet, now_ms) else {
                    return self.refuse(mark, packet, now_ms);
                };
                let turn = self.states[place].turn;
                *mark = Mark::of(Progress::Undecided { place, turn });
                place
            }
        };
        self.collect(place, packet, collected, now_ms);
        let state = &self.states[place];
        let limits = self.desk.settings.limits;
        // A hello in pieces may take more datagrams than a guess.
        let is_limit = match collected.is_waiting() {
            true => state.packets >= limits.datagrams_max.saturating_mul(4),
            false => state.packets >= limits.datagrams_max,
        };
        match is_limit {
            true => self.finish(mark, place, GiveUp::Limit, now_ms),
            false => Outcome::Inspect,
        }
    }

    /// Keeps what a datagram left.
    fn collect(&mut self, place: u32, packet: &Packet<'_>, collected: Collected, now_ms: u32) {
        let state = &mut self.states[place];
        state.last_ms = now_ms;
        state.packets = state.packets.saturating_add(1);
        state.collected = collected;
        state.likely = collected.likely;
        let end = collected.filled.end();
        if end > 0 {
            let [stream, _] = &mut state.streams;
            // Which of its bytes are there is in `collected`.
            stream.filled = Default::default();
            if !stream.keep(&mut self.pool, &mut self.desk.assembly, end) {
                // No block is long enough: what is held cannot become whole.
                state.collected.filled = Default::default();
                self.desk.stats.dropped += 1;
            }
        } else if self.desk.settings.has_rules && !collected.is_waiting() {
            let stream = &mut state.streams[packet.direction as usize];
            let front = stream.filled.front();
            stream.insert(&mut self.pool, front, packet.payload);
            if stream.shown.is_due(stream.filled.front(), stream.is_over()) {
                state.list(place, &mut self.fresh);
            }
        }
    }

    /// A state for the flow of this packet, if there is room for one.
    fn state(&mut self, packet: &Packet<'_>, now_ms: u32) -> Option<u32> {
        let idle_ms = self.desk.settings.limits.idle_ms;
        let place = self.states.take(&mut self.pool, now_ms, idle_ms)?;
        let state = &mut self.states[place];
        state.flow = packet.flow;
        state.initiator = packet.direction as u8;
        state.ports = by_direction(packet.ports, packet.direction);
        state.addresses = by_direction(packet.addresses, packet.direction);
        state.is_tcp = packet.segment.is_some();
        Some(place)
    }

    /// The readers know no more: what is held is looked at as it is; then names of addresses and ports count.
    fn finish(&mut self, mark: &mut Mark, place: u32, why: GiveUp, now_ms: u32) -> Outcome<'_> {
        self.desk.verdict.clear();
        let (is_tcp, likely) = (self.states[place].is_tcp, self.states[place].likely);
        if is_tcp && self.examine(place, true) == Step::Found {
            return self.release(mark, place, now_ms);
        }
        if likely != Protocol::Unknown {
            self.desk.verdict.found(likely, Evidence::Bytes);
            return self.release(mark, place, now_ms);
        }
        let state = &self.states[place];
        let server = usize::from(1 - state.initiator);
        let (address, port) = (state.addresses[server], state.ports[server]);
        let client_port = state.ports[1 - server];
        let packets = state.packets;
        self.states.give(&mut self.pool, place);
        self.guess(mark, is_tcp, [port, client_port], address, packets, now_ms);
        self.desk.stats.given_up += 1;
        Outcome::GaveUp(why, &self.desk.verdict)
    }

    /// A state's flow is decided.
    fn release(&mut self, mark: &mut Mark, place: u32, now_ms: u32) -> Outcome<'_> {
        let state = &self.states[place];
        let server = state.addresses[usize::from(1 - state.initiator)];
        let packets = state.packets;
        self.states.give(&mut self.pool, place);
        self.decide(mark, server, packets, now_ms)
    }

    fn decide(&mut self, mark: &mut Mark, server: u128, packets: u16, now_ms: u32) -> Outcome<'_> {
        self.desk.stats.verdicts += 1;
        self.conclude(mark, server, packets, now_ms);
        Outcome::Verdict(&self.desk.verdict)
    }

    /// Adds what the name says, and the name that DNS gave the server if there is no other.
    fn conclude(&mut self, mark: &mut Mark, server: u128, packets: u16, now_ms: u32) {
        let verdict = &mut self.desk.verdict;
        verdict.packets = packets;
        if verdict.host.is_empty()
            && let Some(name) = self.names.name(server, now_ms)
        {
            verdict.named(name, NameSource::DnsAnswer);
        }
        if !verdict.host.is_empty() && verdict.label.application.is_none() {
            verdict.label.application = self.applications.of(verdict.host.as_bytes());
        }
        *mark = Mark::of(Progress::Decided(verdict.label));
    }

    /// A verdict without inspection.
    fn guess(
        &mut self,
        mark: &mut Mark,
        is_tcp: bool,
        ports: [u16; 2],
        server: u128,
        packets: u16,
        now_ms: u32,
    ) {
        let guesses = ports.map(|port| Protocol::by_port(is_tcp, port));
        let guess = guesses.into_iter().find(|one| *one != Protocol::Unknown);
        let is_named = self.names.name(server, now_ms).is_some();
        let evidence = match (is_named, guess) {
            (true, _) => Evidence::Name,
            (false, Some(_)) => Evidence::Port,
            (false, None) => Evidence::None,
        };
        let verdict = &mut self.desk.verdict;
        verdict.found(guess.unwrap_or(Protocol::Unknown), evidence);
        self.conclude(mark, server, packets, now_ms);
    }

    fn refuse(&mut self, mark: &mut Mark, packet: &Packet<'_>, now_ms: u32) -> Outcome<'_> {
        self.desk.stats.refused += 1;
        self.guess_by_packet(mark, packet, now_ms);
        Outcome::GaveUp(GiveUp::NoRoom, &self.desk.verdict)
    }

    fn reclaimed(&mut self, mark: &mut Mark, packet: &Packet<'_>, now_ms: u32) -> Outcome<'_> {
        self.desk.stats.reclaimed += 1;
        self.guess_by_packet(mark, packet, now_ms);
        Outcome::GaveUp(GiveUp::Reclaimed, &self.desk.verdict)
    }

    /// Of a flow without a state it is not known who began; the lower port is taken for the server's.
    fn guess_by_packet(&mut self, mark: &mut Mark, packet: &Packet<'_>, now_ms: u32) {
        self.desk.stats.given_up += 1;
        self.desk.verdict.clear();
        let [source, destination] = packet.ports;
        let server = usize::from(destination <= source);
        let ports = [packet.ports[server], packet.ports[1 - server]];
        let is_tcp = packet.segment.is_some();
        self.guess(mark, is_tcp, ports, packet.addresses[server], 0, now_ms);
    }

    /// Remembers what a packet of DNS asks or answers.
    fn learn(&mut self, packet: &Packet<'_>, now_ms: u32) {
        self.desk.stats.names += self.names.hear(packet, packet.payload, now_ms);
    }
}

/// What a packet says of source and destination, by the directions whose source is meant.
fn by_direction<T: Copy>([source, destination]: [T; 2], direction: Direction) -> [T; 2] {
    match direction {
        Direction::Up => [source, destination],
        Direction::Down => [destination, source],
    }
}
