//! A part of some ports' packets alone: [`Only`].

use dpb_core::JobError;
use dpb_core::packet::u16_at;

use crate::packet::{ETHERNET_BYTES, ether_type};
use crate::pipeline::{Choice, Output, Packet, Part};

/// Does what another part does, for packets of some ports; those of others pass by.
#[derive(Debug)]
pub struct Only<P> {
    part: P,
    ports: Vec<bool>,
    lets_arp_pass: bool,
}

impl<P> Only<P> {
    /// `part`, for packets that came by a port whose number is true in `ports`. With `lets_arp_pass` ARP passes by whatever its port.
    pub fn new(part: P, ports: Vec<bool>, lets_arp_pass: bool) -> Self {
        Self {
            part,
            ports,
            lets_arp_pass,
        }
    }
}

impl<P: Part> Part for Only<P> {
    type Note = P::Note;

    fn is_in_place(&self) -> bool {
        self.part.is_in_place()
    }

    fn needs_order(&self) -> bool {
        self.part.needs_order()
    }

    fn item(&mut self, packet: Packet<'_>, note: &mut P::Note) -> Choice {
        let ingress = usize::from(packet.mark.ingress);
        if self.ports.get(ingress) != Some(&true) || self.lets_arp_pass && is_arp(packet.frame) {
            return Choice::None;
        }
        self.part.item(packet, note)
    }

    fn output(&mut self, packet: Packet<'_>, note: P::Note, output: Result<Output<'_>, JobError>) {
        self.part.output(packet, note, output);
    }
}

fn is_arp(frame: &[u8]) -> bool {
    frame.len() >= ETHERNET_BYTES && u16_at(frame, ETHERNET_BYTES - 2) == ether_type::ARP
}
