//! The way of a frame through a system: when it began, and how long each part of it took.

/// The causes for which a frame's time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leg {
    /// From the first transmission of a payload to the one that arrived: earlier ones were lost, or taken for lost.
    Retransmission,
    /// Waiting for a core of a host.
    HostQueue,
    /// The network stack of a host, and what the host computes for the frame.
    HostWork,
    /// The way of a doorbell or an interrupt between host and card.
    Bus,
    /// Waiting for a DMA transfer of the card, or for a memory that the card's stages share.
    DmaQueue,
    /// DMA between host and card, and the card's memory.
    Dma,
    /// Waiting in the card for an interrupt to be raised.
    Interrupt,
    /// Waiting for an engine or a core of the card.
    EngineQueue,
    /// The service of an engine or a core of the card.
    EngineWork,
    /// Behind the service of an engine: the way to the next stage, and waiting for frames that came before.
    Hop,
    /// Waiting for a wire.
    WireQueue,
    /// Serialisation: the frame's bits go onto the wire.
    Wire,
    /// Propagation: the way of a bit along the wire.
    Propagation,
    /// The inside of a switch.
    Switch,
}

impl Leg {
    /// All legs.
    pub const ALL: [Self; 14] = [
        Self::Retransmission,
        Self::HostQueue,
        Self::HostWork,
        Self::Bus,
        Self::DmaQueue,
        Self::Dma,
        Self::Interrupt,
        Self::EngineQueue,
        Self::EngineWork,
        Self::Hop,
        Self::WireQueue,
        Self::Wire,
        Self::Propagation,
        Self::Switch,
    ];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retransmission => "retransmission",
            Self::HostQueue => "host_queue",
            Self::HostWork => "host_work",
            Self::Bus => "bus",
            Self::DmaQueue => "dma_queue",
            Self::Dma => "dma",
            Self::Interrupt => "interrupt",
            Self::EngineQueue => "engine_queue",
            Self::EngineWork => "engine_work",
            Self::Hop => "hop",
            Self::WireQueue => "wire_queue",
            Self::Wire => "wire",
            Self::Propagation => "propagation",
            Self::Switch => "switch",
        }
    }

    /// True if a frame waits for a server that others use.
    pub const fn is_queue(self) -> bool {
        matches!(
            self,
            Self::HostQueue | Self::DmaQueue | Self::EngineQueue | Self::WireQueue
        )
    }
}

/// The number of a part of a system, such as the cores of a host, or a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u16);

/// A stretch of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The part in which the frame was.
    pub place: Place,
    /// Its occupation there.
    pub leg: Leg,
    /// The time that this took, in picoseconds.
    pub took_ps: u64,
}

/// The stretches of a frame that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hops {
    number: u64,
    hops: Vec<Hop>,
}

/// The way of a frame: when it began, and how long each leg took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// The time at which the frame came to be, in picoseconds; of a payload that was sent again, the first time.
    pub born_ps: u64,
    /// The flow that the frame belongs to ([`flow_number`]); zero if nobody keeps account of it.
    pub flow: u32,
    counted_ps: u64,
    legs_ps: [u64; Leg::ALL.len()],
    hops: Option<Box<Hops>>,
}

/// The number of a flow by the last two bytes of the address at which it begins, and its port there.
pub fn flow_number(ip: std::net::Ipv4Addr, port: u16) -> u32 {
    u32::from(ip) << 16 | u32::from(port)
}

/// Set in the number of a flow of datagrams for their answers.
pub const ANSWER: u32 = 1 << 31;

impl Journey {
    /// A way that begins now.
    pub fn begin(now_ps: u64) -> Self {
        Self {
            born_ps: now_ps,
            counted_ps: now_ps,
            ..Self::default()
        }
    }

    /// Keeps each stretch from now on, of a frame with this number.
    pub fn watch(&mut self, number: u64) {
        let hops = Vec::with_capacity(HOPS);
        self.hops = Some(Box::new(Hops { number, hops }));
    }

    /// The number of a frame that is watched.
    pub fn number(&self) -> Option<u64> {
        self.hops.as_ref().map(|it| it.number)
    }

    /// Counts the time since the last call for this leg, in this part; gives the time of the last call.
    #[inline]
    pub fn pass(&mut self, place: Place, leg: Leg, now_ps: u64) -> u64 {
        let from_ps = self.counted_ps;
        let took_ps = now_ps - from_ps;
        self.count(leg, now_ps);
        if let Some(watched) = &mut self.hops
            && took_ps > 0
        {
            watched.hops.push(Hop {
                place,
                leg,
                took_ps,
            });
        }
        from_ps
    }

    /// As [`Journey::pass`], of a frame that is not watched.
    #[inline]
    pub fn count(&mut self, leg: Leg, now_ps: u64) {
        self.legs_ps[leg as usize] += now_ps - self.counted_ps;
        self.counted_ps = now_ps;
    }

    /// The time of a leg so far, in picoseconds.
    pub fn leg_ps(&self, leg: Leg) -> u64 {
        self.legs_ps[leg as usize]
    }

    /// The stretches so far, in order; none if the frame is not watched.
    pub fn hops(&self) -> &[Hop] {
        self.hops.as_ref().map_or(&[], |it| &it.hops)
    }

    /// The time up to which its time is counted, in picoseconds.
    pub fn counted_ps(&self) -> u64 {
        self.counted_ps
    }

    /// The time that is counted so far, in picoseconds: the sum of all legs.
    pub fn total_ps(&self) -> u64 {
        self.counted_ps - self.born_ps
    }
}

/// Stretches of a frame between two hosts with cards and a switch between them: room for as many is made at once.
const HOPS: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_and_stretches_add_up() {
        let mut journey = Journey::begin(100);
        journey.watch(7);
        assert_eq!(journey.pass(Place(1), Leg::HostWork, 150), 100);
        journey.pass(Place(2), Leg::Wire, 400);
        journey.pass(Place(2), Leg::Propagation, 400);
        journey.pass(Place(3), Leg::HostWork, 410);
        assert_eq!(journey.leg_ps(Leg::HostWork), 60);
        let legs: u64 = Leg::ALL.iter().map(|&leg| journey.leg_ps(leg)).sum();
        let hops: u64 = journey.hops().iter().map(|it| it.took_ps).sum();
        assert_eq!((legs, hops), (310, 310));
        assert_eq!(journey.total_ps(), 310);
        assert_eq!(journey.hops().len(), 3);
        assert_eq!(journey.number(), Some(7));
    }

    #[test]
    fn legs_are_in_the_order_of_their_numbers() {
        for (number, leg) in Leg::ALL.into_iter().enumerate() {
            assert_eq!(leg as usize, number);
        }
    }
}
