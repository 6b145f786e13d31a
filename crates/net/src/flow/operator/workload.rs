//! Packets for a flow table that reports, and which of its flows they are of.

use std::collections::HashMap;

use dpb_core::random::SplitMix64;
use dpb_core::{JobError, OpSpec, Right, Workload};

use super::super::{Flags, Tuple};
use super::{Address, FlowAddresses, FlowTable, Missing, Verdict, flow_of, write_item};

/// Packets of a [`FlowTable`] that reports: half of them of its flows. What is right is said by a map of the standard library.
#[derive(Debug)]
pub struct FlowTableWorkload {
    spec: OpSpec,
    table: FlowTable,
    /// The number of each flow, by its two ends in order and its protocol.
    numbers: HashMap<Vec<u8>, u32>,
}

impl FlowTableWorkload {
    /// For `table`.
    ///
    /// # Panics
    /// If it does not report: then what comes of a packet depends on those before.
    pub fn new(table: FlowTable) -> Self {
        assert_eq!(table.missing, Missing::Report, "it has no memory");
        let mut numbers = HashMap::new();
        for i in 0..table.flows {
            let mut item = Vec::new();
            match table.addresses {
                FlowAddresses::V4 => write_flow::<u32, 2>(&mut item, table.seed, i),
                FlowAddresses::V6 => write_flow::<u128, 5>(&mut item, table.seed, i),
            }
            let number = numbers.len() as u32;
            numbers.entry(in_order(&item)).or_insert(number);
        }
        Self {
            spec: table.into(),
            table,
            numbers,
        }
    }
}

/// An item with flow number `i`.
fn write_flow<A: Address<N>, const N: usize>(item: &mut Vec<u8>, seed: u64, i: u32) {
    write_item::<A, N>(item, &flow_of(seed, i), Flags::ACK, 64, 0);
}

/// As `item` and each packet of its flow have it: both ends, the lower one first, and the protocol.
fn in_order(item: &[u8]) -> Vec<u8> {
    let address_bytes = (item.len() - 12) / 2;
    let (addresses, rest) = item.split_at(2 * address_bytes);
    let end = |i: usize| {
        let address = &addresses[i * address_bytes..][..address_bytes];
        [address, &rest[2 * i..][..2]].concat()
    };
    let mut ends = [end(0), end(1)];
    ends.sort();
    [&ends.concat(), &rest[4..5]].concat()
}

impl Workload for FlowTableWorkload {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        "std's HashMap"
    }

    /// A packet that the bytes choose: of one of the flows, in either direction, or of none.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let mut random = SplitMix64::new(plain.iter().fold(plain.len() as u64, mix));
        let of_flow = self.table.flows > 0 && random.below(2) == 0;
        let (seed, i) = match of_flow {
            true => (
                self.table.seed,
                random.below(self.table.flows as usize) as u32,
            ),
            false => (random.next_u64(), 0),
        };
        let is_back = random.below(2) == 1;
        let (bytes, time_ms) = (plain.len() as u16, random.next_u64() as u32);
        let mut item = Vec::new();
        match self.table.addresses {
            FlowAddresses::V4 => {
                let tuple = turned(flow_of::<u32, 2>(seed, i), is_back);
                write_item::<u32, 2>(&mut item, &tuple, Flags::ACK, bytes, time_ms);
            }
            FlowAddresses::V6 => {
                let tuple = turned(flow_of::<u128, 5>(seed, i), is_back);
                write_item::<u128, 5>(&mut item, &tuple, Flags::ACK, bytes, time_ms);
            }
        }
        Ok(item)
    }

    fn describe(&self, _plain: &str) -> String {
        "packets, half of them of known flows".to_owned()
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        if item.len() != self.table.item_bytes() {
            return Right::Refused(JobError::Malformed);
        }
        let (verdict, number) = match self.numbers.get(&in_order(item)) {
            Some(number) => (Verdict::Known, *number),
            None => (Verdict::Missing, u32::MAX),
        };
        Right::Only([(verdict as u32).to_le_bytes(), number.to_le_bytes()].concat())
    }
}

fn turned<A: Copy>(tuple: Tuple<A>, is_back: bool) -> Tuple<A> {
    match is_back {
        true => Tuple {
            addresses: [tuple.addresses[1], tuple.addresses[0]],
            ports: [tuple.ports[1], tuple.ports[0]],
            ..tuple
        },
        false => tuple,
    }
}
