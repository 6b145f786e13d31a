//! A burst at once: what comes whole out of it lies in the slot, mostly without having been anywhere else.
//!
//! Fragments mostly come one behind another, so the datagram that would be next is put together where it will lie: the
//! **front**. If another one is whole before it, the front makes room and goes on in the table's buffer.

use dpb_core::JobError;

use super::key::{Key, Piece};
use super::table::{Place, Table};
use super::{Dropped, Read, Reassembler};
use crate::network::packet::{Burst, PacketError};

/// The datagrams that became whole in a burst, one after another. A burst that cannot be cut into packets is refused, and so is one whose
/// datagrams do not fit the slot; invalid packets are dropped. Datagrams that are not whole stay in the table.
pub(super) fn run(
    reassembler: &mut Reassembler,
    item: &[u8],
    slot: &mut [u8],
) -> Result<u32, JobError> {
    let mut output = Output {
        slot,
        len: 0,
        front: None,
    };
    for packet in Burst::new(item) {
        match Read::parse(packet.map_err(PacketError::refusal)?) {
            Ok(Read::Packet(packet)) => {
                output.make_room(&mut reassembler.table);
                output.append(packet)?;
            }
            Ok(Read::Fragment(piece)) => output.add(reassembler, &piece)?,
            Err(_) => {}
        }
    }
    output.make_room(&mut reassembler.table);
    Ok(output.len as u32)
}

/// The output of a burst so far.
struct Output<'a> {
    slot: &'a mut [u8],
    /// Bytes of datagrams that are whole.
    len: usize,
    /// The datagram that is put together behind the finished ones.
    front: Option<Front>,
}

/// A datagram whose first fragment came first.
#[derive(Clone, Copy)]
struct Front {
    at: u32,
    key: Key,
    headers_bytes: usize,
}

impl Output<'_> {
    fn add(&mut self, reassembler: &mut Reassembler, piece: &Piece<'_>) -> Result<(), JobError> {
        let Reassembler {
            limits,
            table,
            now_ns,
        } = reassembler;
        if piece.is_whole() {
            self.make_room(table);
            let whole = table.alone(piece);
            return self.append(table.bytes(whole));
        }
        let at = table.find_or_make(piece, *now_ns);
        // It may have had to go, to make room in the table.
        self.front
            .take_if(|front| !table.holds(front.at, &front.key));
        let room = self.slot.len() - self.len;
        let has_room = |headers_bytes: usize| headers_bytes + piece.end() <= room;
        let is_first = piece.start == 0 && table.is_new(at) && has_room(piece.headers.len());
        if self.front.is_none() && is_first {
            self.front = Some(Front {
                at,
                key: piece.key,
                headers_bytes: piece.headers.len(),
            });
        }
        if let Some(front) = self.front.filter(|front| front.at == at) {
            if has_room(front.headers_bytes) {
                let place = self.place(front);
                match table.add_in(at, place, piece, limits.fragments_max) {
                    Ok(None) | Err(Dropped::Duplicate) => return Ok(()),
                    Ok(Some(whole)) => {
                        table.release(at);
                        self.len += whole.len();
                    }
                    Err(_) => {}
                }
                self.front = None;
                return Ok(());
            }
            self.make_room(table);
        }
        if let Ok(Some(whole)) = table.add(at, piece, limits.fragments_max) {
            table.release(at);
            self.make_room(table);
            self.append(table.bytes(whole))?;
        }
        Ok(())
    }

    /// Sends the front to its own buffer.
    fn make_room(&mut self, table: &mut Table) {
        if let Some(front) = self.front.take() {
            table.take_home(front.at, &self.place(front));
        }
    }

    fn append(&mut self, datagram: &[u8]) -> Result<(), JobError> {
        let room = self.slot[self.len..].get_mut(..datagram.len());
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(datagram);
        self.len += datagram.len();
        Ok(())
    }

    /// The place of the front.
    fn place(&mut self, front: Front) -> Place<'_> {
        Place {
            bytes: &mut self.slot[self.len..],
            base: front.headers_bytes,
        }
    }
}
