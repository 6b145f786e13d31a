//! The same kernels, called by hand: what the seam is compared with.

use std::ops::Range;

use anyhow::{Context, Result};
use dpb_core::{Batch, BatchOut, Buf, InPlace, Items, JobError, Span};
use dpb_operators::cpu::Cpu;
use dpb_operators::direct::Direct;
use dpb_operators::network::checksum::Verdict;
use dpb_operators::registry;

use crate::{
    BURST, DESTINATION, NONCE_BYTES, OPERATORS, PACKET_AT, Program, ROOM_BEHIND, TUPLE, span,
};

/// The kernels of `cpu/best`, each with the lists that it needs.
pub struct ByHand {
    verify: Kernel,
    hash: Kernel,
    route: Kernel,
    encrypt: Kernel,
    accepted: Vec<u32>,
}

struct Kernel {
    kernel: Box<dyn Direct>,
    items: Vec<Span>,
    slots: Vec<Span>,
    outputs: Vec<u8>,
    output_bytes: u32,
    outcomes: Vec<Result<u32, JobError>>,
}

impl ByHand {
    /// The kernels of `program`, with its keys and routes.
    ///
    /// # Errors
    /// If this CPU has no code for one of them.
    pub fn new(program: &Program) -> Result<Self> {
        let cpu = Cpu::best();
        let mut kernels = program
            .stages()
            .into_iter()
            .zip(OPERATORS)
            .map(|(stage, of)| {
                let spec = stage.operator().spec();
                let entry = registry::of(spec)?;
                let kernel = entry.direct(spec, cpu.path(entry, spec)?)?;
                anyhow::Ok(Kernel {
                    kernel,
                    items: Vec::with_capacity(BURST),
                    slots: Vec::with_capacity(BURST),
                    outputs: vec![0; BURST * of.output_bytes as usize],
                    output_bytes: of.output_bytes,
                    outcomes: Vec::with_capacity(BURST),
                })
            });
        let mut next = || kernels.next().context("four of them")?;
        Ok(Self {
            verify: next()?,
            hash: next()?,
            route: next()?,
            encrypt: next()?,
            accepted: Vec::with_capacity(BURST),
        })
    }

    /// Does with a burst what [`Program::run`] does: the hashes and the hops.
    ///
    /// # Errors
    /// If a kernel refuses a packet.
    pub fn run(&mut self, packets: &mut [Buf]) -> Result<(&[u8], &[u8])> {
        let Self {
            verify,
            hash,
            route,
            encrypt,
            accepted,
        } = self;
        let all = 0..packets.len() as u32;
        verify.reads(packets, all, |packet| PACKET_AT..packet.len() - ROOM_BEHIND)?;
        accepted.clear();
        let verdicts = verify.outputs.iter().zip(0..);
        accepted.extend(
            verdicts
                .filter(|(byte, _)| Verdict(**byte).is_accepted())
                .map(|(_, i)| i),
        );
        hash.reads(packets, accepted.iter().copied(), |_| TUPLE)?;
        route.reads(packets, accepted.iter().copied(), |_| DESTINATION)?;
        encrypt.changes(packets, accepted.iter().copied(), |packet| {
            PACKET_AT - NONCE_BYTES..packet.len() - ROOM_BEHIND
        })?;
        let bytes = accepted.len() * 4;
        Ok((&hash.outputs[..bytes], &route.outputs[..bytes]))
    }
}

impl Kernel {
    fn reads(
        &mut self,
        packets: &[Buf],
        which: impl ExactSizeIterator<Item = u32>,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<()> {
        let slots = Items::fixed(self.output_bytes, which.len() as u32);
        self.items.clear();
        let spans = which.map(|i| span(i, part(&packets[i as usize])));
        self.items.extend(spans);
        self.outcomes.clear();
        let items = Items::Spans(std::mem::take(&mut self.items));
        let batch = Batch::of(packets, &items)?;
        let out = BatchOut::new(&mut self.outputs, &slots, &mut self.outcomes)?;
        self.kernel.run(batch, out)?;
        self.items = items.into_spans();
        self.check()
    }

    fn changes(
        &mut self,
        packets: &mut [Buf],
        which: impl ExactSizeIterator<Item = u32> + Clone,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<()> {
        self.items.clear();
        self.slots.clear();
        for i in which {
            let packet = &packets[i as usize];
            self.items.push(span(i, part(packet)));
            self.slots
                .push(span(i, part(packet).start + NONCE_BYTES..packet.len()));
        }
        self.outcomes.clear();
        let [items, slots] = [&mut self.items, &mut self.slots].map(std::mem::take);
        let [items, slots] = [items, slots].map(Items::Spans);
        let work = InPlace::of(packets, [&items, &slots], NONCE_BYTES, &mut self.outcomes)?;
        self.kernel.run_in_place(work)?;
        (self.items, self.slots) = (items.into_spans(), slots.into_spans());
        self.check()
    }

    /// Checks that no item was refused.
    fn check(&self) -> Result<()> {
        for outcome in &self.outcomes {
            outcome.context("refused")?;
        }
        Ok(())
    }
}
