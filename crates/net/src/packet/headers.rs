//! A burst of frames, read in one pass into columns.

use std::net::IpAddr;
use std::ops::Deref;

use dpb_core::packet::{TCP, UDP};
use dpb_core::prefetch::prefetch;

use super::ends::Ends;
use super::facts::{Facts, Marks, Verdict};
use super::layers::Layers;
use super::plain::{self, Ordered, Plain};
use super::{Places, Refusal, Start, Tunnel, ether_type};
use crate::flow::{Direction, Seen, Tuple};

/// Frames ahead of the one that is read whose start is asked for. A line from memory takes as long as a dozen frames.
const AHEAD: usize = 12;

/// The headers of a burst of frames, in columns: of each the same thing of all frames. Row *i* is frame *i*. See [the module](super) for what is read.
///
/// Columns keep their memory from burst to burst.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    frames: usize,
    /// These are as long as the longest burst so far; rows behind `frames` are of bursts before.
    facts: Vec<Facts>,
    places: Vec<Places>,
    /// The lower and the higher end: address above port, as numbers. Of IPv6 the address is a row of [`Lists::wide`] instead, in the lower one.
    ends: Vec<[u64; 2]>,
    lists: Lists,
}

/// What only some frames have, in the order of their rows.
#[derive(Clone, Debug, Default)]
struct Lists {
    /// The lower and the higher address of each packet of IPv6.
    wide: Vec<[u128; 2]>,
    ipv4: Vec<u32>,
    ipv6: Vec<u32>,
    tunnels: Vec<(u32, Tunnel)>,
}

/// What a row has in the columns.
struct Cells<'a> {
    facts: &'a mut Facts,
    places: &'a mut Places,
    ends: &'a mut [u64; 2],
}

impl Headers {
    /// Of no frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `frames`, Ethernet without check sequences, instead of what was there before.
    ///
    /// # Panics
    /// If there are 2^32 frames or more.
    pub fn read<B: Deref<Target = [u8]>>(&mut self, frames: &[B]) {
        self.begin(frames.len());
        for frame in frames.iter().take(AHEAD) {
            prefetch(frame, 0);
        }
        let (mut cells, lists) = self.cells();
        for (row, frame) in frames.iter().enumerate() {
            if let Some(ahead) = frames.get(row + AHEAD) {
                prefetch(ahead, 0);
            }
            let Some(cells) = cells.next() else { return };
            lists.read_frame(row, frame, cells);
        }
    }

    /// Reads the inside of those of `outer`'s packets that are tunnels, instead of what was there before; `frames` are the ones that `outer` has
    /// read. Row *i* is the inside of frame *i*; its places are from the start of the frame.
    ///
    /// # Panics
    /// If there are 2^32 frames or more.
    pub fn read_inner<B: Deref<Target = [u8]>>(&mut self, frames: &[B], outer: &Self) {
        self.begin(frames.len());
        self.facts[..frames.len()].fill(Facts::ABSENT);
        self.places[..frames.len()].fill(Places::default());
        let (mut cells, lists) = self.cells();
        let mut next = 0;
        for (row, tunnel) in &outer.lists.tunnels {
            let row = *row as usize;
            let places = outer.places[row];
            let Some(cells) = cells.nth(row - next) else {
                return;
            };
            next = row + 1;
            let end = usize::from(places.payload) + usize::from(places.payload_bytes);
            // Other frames than those that were read have no inside.
            let bytes = frames.get(row).and_then(|frame| frame.get(..end));
            if let Some(bytes) = bytes {
                lists.read_inside(row, bytes, *tunnel, cells);
            }
        }
    }

    fn begin(&mut self, frames: usize) {
        assert!(u32::try_from(frames).is_ok(), "a burst of {frames} frames");
        self.frames = frames;
        if self.facts.len() < frames {
            self.facts.resize(frames, Facts::ABSENT);
            self.places.resize(frames, Places::default());
            self.ends.resize(frames, [0; 2]);
        }
        let Lists {
            wide,
            ipv4,
            ipv6,
            tunnels,
        } = &mut self.lists;
        for list in [ipv4, ipv6] {
            list.clear();
            list.reserve(frames);
        }
        wide.clear();
        tunnels.clear();
    }

    /// The rows of this burst, in order, and the lists. Apart, so that columns are not looked up anew for each row.
    fn cells(&mut self) -> (impl Iterator<Item = Cells<'_>>, &mut Lists) {
        let facts = self.facts[..self.frames].iter_mut();
        let places = self.places[..self.frames].iter_mut();
        let ends = self.ends[..self.frames].iter_mut();
        let cells = facts
            .zip(places)
            .zip(ends)
            .map(|((facts, places), ends)| Cells {
                facts,
                places,
                ends,
            });
        (cells, &mut self.lists)
    }

    /// The number of frames.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// What is known of each.
    #[inline]
    pub fn facts(&self) -> &[Facts] {
        &self.facts[..self.frames]
    }

    /// Where the parts of each lie; zero of frames that were refused.
    #[inline]
    pub fn places(&self) -> &[Places] {
        &self.places[..self.frames]
    }

    /// The rows of IPv4, in order.
    #[inline]
    pub fn ipv4(&self) -> &[u32] {
        &self.lists.ipv4
    }

    /// The rows of IPv6, in order.
    #[inline]
    pub fn ipv6(&self) -> &[u32] {
        &self.lists.ipv6
    }

    /// The rows of tunnels, in order, with the tunnel of each.
    pub fn tunnels(&self) -> &[(u32, Tunnel)] {
        &self.lists.tunnels
    }

    /// The addresses of a row, the source's first; `None` if it is no IP packet.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn addresses(&self, row: usize) -> Option<[IpAddr; 2]> {
        let v4 = |tuple: Tuple<u32>| tuple.addresses.map(|address| IpAddr::V4(address.into()));
        let v6 = |tuple: Tuple<u128>| tuple.addresses.map(|address| IpAddr::V6(address.into()));
        (self.tuple_v4(row).map(v4)).or_else(|| self.tuple_v6(row).map(v6))
    }

    /// The five-tuple of a row of IPv4, as it stands in the headers. Fragments have no ports in it.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn tuple_v4(&self, row: usize) -> Option<Tuple<u32>> {
        let facts = self.facts()[row];
        let tuple = up_v4(self.ends[row], facts.protocol);
        (facts.verdict == Verdict::Ipv4).then(|| turned(tuple, facts.direction()))
    }

    /// The same of a row of IPv6.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn tuple_v6(&self, row: usize) -> Option<Tuple<u128>> {
        let facts = self.facts()[row];
        let is_there = facts.verdict == Verdict::Ipv6;
        is_there.then(|| {
            turned(
                self.up_v6(self.ends[row], facts.protocol),
                facts.direction(),
            )
        })
    }

    /// Appends what a table of flows takes of each row of IPv4, in the order of [`Headers::ipv4`]: its key, bytes of the frame, TCP's flags.
    pub fn seen_v4(&self, seen: &mut Vec<Seen<2>>) {
        seen.reserve(self.lists.ipv4.len());
        for row in &self.lists.ipv4 {
            let facts = self.facts[*row as usize];
            // The ends are in order, so this way around costs no branch.
            let (key, _) = up_v4(self.ends[*row as usize], facts.protocol).key();
            seen.push(Seen {
                key,
                direction: facts.direction(),
                bytes: facts.bytes,
                flags: facts.flags(),
            });
        }
    }

    /// The same of each row of IPv6, in the order of [`Headers::ipv6`].
    pub fn seen_v6(&self, seen: &mut Vec<Seen<5>>) {
        seen.reserve(self.lists.ipv6.len());
        for row in &self.lists.ipv6 {
            let facts = self.facts[*row as usize];
            let (key, _) = self.up_v6(self.ends[*row as usize], facts.protocol).key();
            seen.push(Seen {
                key,
                direction: facts.direction(),
                bytes: facts.bytes,
                flags: facts.flags(),
            });
        }
    }

    /// Appends what receive-side scaling hashes of each row of IPv4, in the order of [`Headers::ipv4`]: addresses and ports as they stand in the packet, 12
    /// bytes. Ports are zero but for whole packets of TCP and UDP. Toeplitz's hash of zeroes is zero, so this hashes like the addresses
    /// alone.
    pub fn hash_input_v4(&self, input: &mut Vec<u8>) {
        input.reserve(self.lists.ipv4.len() * 12);
        for row in &self.lists.ipv4 {
            let facts = self.facts[*row as usize];
            let tuple = turned(
                up_v4(self.ends[*row as usize], facts.protocol),
                facts.direction(),
            );
            let [source, destination] = tuple.addresses;
            let words = [source, destination, hashed_ports(&facts, tuple.ports)];
            input.extend_from_slice(words.map(u32::to_be_bytes).as_flattened());
        }
    }

    /// The same of each row of IPv6, in the order of [`Headers::ipv6`]: 36 bytes.
    pub fn hash_input_v6(&self, input: &mut Vec<u8>) {
        input.reserve(self.lists.ipv6.len() * 36);
        for row in &self.lists.ipv6 {
            let facts = self.facts[*row as usize];
            let up = self.up_v6(self.ends[*row as usize], facts.protocol);
            let tuple = turned(up, facts.direction());
            input.extend_from_slice(tuple.addresses.map(u128::to_be_bytes).as_flattened());
            input.extend_from_slice(&hashed_ports(&facts, tuple.ports).to_be_bytes());
        }
    }

    #[inline(always)]
    fn up_v6(&self, [low, high]: [u64; 2], protocol: u8) -> Tuple<u128> {
        Tuple {
            addresses: self.lists.wide[(low >> 16) as usize],
            ports: [low as u16, high as u16],
            protocol,
        }
    }
}

impl Lists {
    #[inline(always)]
    fn read_frame(&mut self, row: usize, frame: &[u8], cells: Cells<'_>) {
        match plain::link(frame) {
            Some((ether_type::IPV4, l3)) => match plain::v4(frame, l3) {
                Some(plain) => self.put_v4(row, plain, cells),
                None => self.read_careful(row, frame, 0, Start::Ethernet, cells),
            },
            Some((ether_type::IPV6, l3)) => match plain::v6(frame, l3) {
                Some(plain) => self.put_v6(row, plain, cells),
                None => self.read_careful(row, frame, 0, Start::Ethernet, cells),
            },
            _ => self.read_careful(row, frame, 0, Start::Ethernet, cells),
        }
    }

    #[inline(always)]
    fn put_v4(&mut self, row: usize, (plain, ends): (Plain, [u64; 2]), cells: Cells<'_>) {
        *cells.facts = plain.facts;
        *cells.places = plain.places;
        *cells.ends = ends;
        self.ipv4.push(row as u32);
    }

    #[inline(always)]
    fn put_v6(&mut self, row: usize, (plain, ends): (Plain, Ordered<u128>), cells: Cells<'_>) {
        *cells.facts = plain.facts;
        *cells.places = plain.places;
        *cells.ends = self.put_wide(row, ends);
    }

    /// What stands in a row for these.
    #[inline(always)]
    fn put_wide(&mut self, row: usize, ends: Ordered<u128>) -> [u64; 2] {
        let place = (self.wide.len() as u64) << 16;
        self.wide.push([ends.low.0, ends.high.0]);
        self.ipv6.push(row as u32);
        [place | u64::from(ends.low.1), u64::from(ends.high.1)]
    }

    /// Any frame, or packet, that starts at `at` of `bytes` and ends with them.
    #[cold]
    #[inline(never)]
    fn read_careful(
        &mut self,
        row: usize,
        bytes: &[u8],
        at: usize,
        start: Start,
        cells: Cells<'_>,
    ) {
        let len = u32::try_from(bytes.len() - at);
        let layers = match len {
            Ok(_) => Layers::read(bytes, at, start),
            Err(_) => Err(Refusal::TooLong),
        };
        let len = len.unwrap_or(u32::MAX);
        let layers = match layers {
            Ok(layers) => layers,
            Err(refusal) => {
                *cells.facts = Facts::new(Verdict::Refused(refusal), len);
                *cells.places = Places::default();
                return;
            }
        };
        let mut marks = Marks::default()
            .and_if(Marks::TRANSPORT, layers.has_transport)
            .and_if(Marks::TAGGED, layers.tag_count > 0)
            .and_if(Marks::OPTIONS, layers.has_options)
            .and_if(Marks::FRAGMENT, layers.fragment.is_some())
            .and_if(Marks::TUNNEL, layers.tunnel.is_some())
            .and_if(Marks::AUTHENTICATED, layers.is_authenticated)
            .and_if(Marks::ROUTED, layers.is_routed_on);
        let verdict = match layers.ends(bytes) {
            None => Verdict::Other,
            Some(Ends::V4(addresses)) => {
                let ends = ordered(addresses, layers.ports);
                marks = marks.and_if(Marks::REVERSED, ends.is_reversed);
                let word = |(address, port): (u32, u16)| u64::from(address) << 16 | u64::from(port);
                *cells.ends = [word(ends.low), word(ends.high)];
                self.ipv4.push(row as u32);
                Verdict::Ipv4
            }
            Some(Ends::V6(addresses)) => {
                let ends = ordered(addresses, layers.ports);
                marks = marks.and_if(Marks::REVERSED, ends.is_reversed);
                *cells.ends = self.put_wide(row, ends);
                Verdict::Ipv6
            }
        };
        *cells.facts = Facts {
            protocol: layers.protocol,
            tcp_flags: layers.tcp_flags.unwrap_or(0),
            marks,
            ..Facts::new(verdict, len)
        };
        *cells.places = layers.places;
        if let Some(tunnel) = layers.tunnel {
            self.tunnels.push((row as u32, tunnel));
        }
    }

    /// The inside of a tunnel; `bytes` end where it does.
    #[inline]
    fn read_inside(&mut self, row: usize, bytes: &[u8], tunnel: Tunnel, cells: Cells<'_>) {
        let at = usize::from(tunnel.at);
        let Some(inside) = bytes.get(at..) else {
            return;
        };
        let kind = match tunnel.start {
            Start::Ethernet => plain::link(inside),
            Start::Ipv4 => Some((ether_type::IPV4, 0)),
            Start::Ipv6 => Some((ether_type::IPV6, 0)),
        };
        // Beyond this a place could be too far.
        let is_near = bytes.len() <= usize::from(u16::MAX);
        let moved = |mut plain: Plain| {
            let Places {
                l3, l4, payload, ..
            } = &mut plain.places;
            for place in [l3, l4, payload] {
                *place += tunnel.at;
            }
            plain
        };
        match kind.filter(|_| is_near) {
            Some((ether_type::IPV4, l3)) => {
                if let Some((plain, ends)) = plain::v4(inside, l3) {
                    return self.put_v4(row, (moved(plain), ends), cells);
                }
            }
            Some((ether_type::IPV6, l3)) => {
                if let Some((plain, ends)) = plain::v6(inside, l3) {
                    return self.put_v6(row, (moved(plain), ends), cells);
                }
            }
            _ => {}
        }
        self.read_careful(row, bytes, at, tunnel.start, cells);
    }
}

/// The tuple of a packet of [`Direction::Up`].
#[inline(always)]
fn up_v4([low, high]: [u64; 2], protocol: u8) -> Tuple<u32> {
    Tuple {
        addresses: [(low >> 16) as u32, (high >> 16) as u32],
        ports: [low as u16, high as u16],
        protocol,
    }
}

#[inline(always)]
fn turned<A: Copy>(tuple: Tuple<A>, direction: Direction) -> Tuple<A> {
    let ([low, high], [low_port, high_port]) = (tuple.addresses, tuple.ports);
    match direction {
        Direction::Up => tuple,
        Direction::Down => Tuple {
            addresses: [high, low],
            ports: [high_port, low_port],
            ..tuple
        },
    }
}

#[inline(always)]
fn hashed_ports(facts: &Facts, [source, destination]: [u16; 2]) -> u32 {
    let is_hashed = matches!(facts.protocol, TCP | UDP) && facts.marks.has(Marks::TRANSPORT);
    match is_hashed {
        true => u32::from(source) << 16 | u32::from(destination),
        false => 0,
    }
}

fn ordered<A: Ord + Copy>([from, to]: [A; 2], [source, destination]: [u16; 2]) -> Ordered<A> {
    plain::ordered((from, source), (to, destination))
}
