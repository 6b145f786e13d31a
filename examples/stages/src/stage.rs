//! One operator of the program, and its oracle.

use std::mem::take;
use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use dpb_core::{Backend, Buf, Buffers, Operator, Span, Workload};
use dpb_operators::registry;

use crate::{BURST, span};

/// An operator that the program uses.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The operator's name, as `dpb list operators` has it.
    pub name: &'static str,
    /// The operator's parameters, as for `dpb op`.
    pub parameters: &'static str,
    /// Bytes of each output; none where packets are changed in place.
    pub output_bytes: u32,
}

/// One operator, which reads or changes a part of each packet.
pub struct Stage {
    of: Use,
    stage: dpb_core::Stage,
    oracle: Box<dyn Workload>,
    is_checked: bool,
    items: Vec<Span>,
    slots: Vec<Span>,
}

impl Stage {
    /// The operator on `backend`.
    ///
    /// # Errors
    /// If there is no such operator, or the backend does not have it.
    pub fn new(backend: &dyn Backend, of: Use) -> Result<Self> {
        let entry = registry::find(of.name).context("no such operator")?;
        let spec = entry.spec(of.parameters)?;
        let operator = backend.prepare(&spec)?;
        let alloc = |len| backend.alloc(len);
        Ok(Self {
            of,
            stage: dpb_core::Stage::new(operator, BURST, of.output_bytes, alloc)?,
            oracle: entry.workload(&spec)?,
            is_checked: false,
            items: Vec::with_capacity(BURST),
            slots: Vec::with_capacity(BURST),
        })
    }

    /// The operator, to call the same kernel by hand.
    pub fn operator(&self) -> &dyn Operator {
        self.stage.operator()
    }

    /// Has the operator's oracle judge every output from now on, or not.
    pub fn check(&mut self, is_on: bool) {
        self.is_checked = is_on;
    }

    /// Reads a part of each of the packets `which`, where it lies. Gives the outputs, one behind another.
    ///
    /// # Errors
    /// If the job cannot be carried out or, where that is checked, an output is wrong.
    pub fn reads(
        &mut self,
        packets: &mut Vec<Buf>,
        which: impl Iterator<Item = u32>,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<&[u8]> {
        let (name, slot_bytes) = (self.of.name, self.of.output_bytes as usize);
        self.items.clear();
        let items = which.map(|i| span(i, part(&packets[i as usize])));
        self.items.extend(items);
        let mut lent = Buffers::Many(take(packets));
        let outputs = self.stage.run_over(&mut lent, &self.items);
        *packets = lent.into_vec();
        let outputs = outputs.context(name)?;
        if self.is_checked {
            for (item, output) in self.items.iter().zip(outputs.iter()) {
                let judged = self.oracle.check(bytes(packets, item), output, slot_bytes);
                judged.map_err(|why| anyhow!("{name}: {why}"))?;
            }
        }
        outputs.bytes().context("outputs of one length")
    }

    /// Writes over a part of each of the packets `which`. The output may fill all that is behind the part.
    ///
    /// # Errors
    /// If the job cannot be carried out, an item is refused or, where that is checked, wrong; if the operator does not work in place here.
    pub fn changes(
        &mut self,
        packets: &mut Vec<Buf>,
        which: impl Iterator<Item = u32>,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<()> {
        let name = self.of.name;
        let offset = self.stage.operator().in_place();
        let offset = offset.with_context(|| format!("{name} does not work in place here"))?;
        self.items.clear();
        self.slots.clear();
        for i in which {
            let packet = &packets[i as usize];
            let part = part(packet);
            self.slots.push(span(i, part.start + offset..packet.len()));
            self.items.push(span(i, part));
        }
        let before: Vec<Vec<u8>> = match self.is_checked {
            true => (self.items.iter())
                .map(|item| bytes(packets, item).to_vec())
                .collect(),
            false => Vec::new(),
        };
        let mut lent = Buffers::Many(take(packets));
        let lens = self.stage.run_in_place(&mut lent, &self.items, &self.slots);
        *packets = lent.into_vec();
        for (i, len) in lens.context(name)?.enumerate() {
            let len = len.with_context(|| format!("{name}: item {i}"))?;
            if let Some(item) = before.get(i) {
                let slot = bytes(packets, &self.slots[i]);
                let judged = self.oracle.check(item, Ok(&slot[..len]), slot.len());
                judged.map_err(|why| anyhow!("{name}: {why}"))?;
            }
        }
        Ok(())
    }
}

/// The bytes of a part of a packet.
fn bytes<'a>(packets: &'a [Buf], part: &Span) -> &'a [u8] {
    &packets[part.buf as usize][part.start as usize..][..part.len as usize]
}
