//! A queue pair and the one window that its requests are about: what a measurement posts through.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;

use super::super::sys;
use super::chain::Chain;
use super::{QueuePair, VerbsError, Window};

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum Kind {
    Read,
    Write,
    /// A write that takes one of the peer's receives and leaves this number in its completion.
    WriteImmediate(u32),
    Send,
}

/// One request about part of the window.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Request {
    pub(in crate::rdma) kind: Kind,
    /// Comes back with its completion.
    pub(in crate::rdma) id: u64,
    pub(in crate::rdma) offset: usize,
    pub(in crate::rdma) len: u32,
    /// The place in the peer's memory of a read or write, and the key of that memory.
    pub(in crate::rdma) remote: (u64, u32),
    pub(in crate::rdma) is_inline: bool,
    pub(in crate::rdma) is_signalled: bool,
}

/// A queue pair with its window; the queue pair goes first.
pub(in crate::rdma) struct RequestQueue {
    queue_pair: QueuePair,
    window: Arc<Window>,
    chain: Chain,
}

impl RequestQueue {
    /// A request queue of a queue pair and a window in its domain; chains are at most `chain_max` long.
    ///
    /// # Panics
    /// If they are of two domains.
    pub(in crate::rdma) fn new(
        queue_pair: QueuePair,
        window: Arc<Window>,
        chain_max: usize,
    ) -> Self {
        assert!(window.is_in(&queue_pair.domain), "of one domain");
        Self {
            queue_pair,
            window,
            chain: Chain::new(chain_max),
        }
    }

    /// The number of its queue pair.
    pub(in crate::rdma) fn number(&self) -> u32 {
        self.queue_pair.number()
    }

    pub(in crate::rdma) fn queue_pair(&mut self) -> &mut QueuePair {
        &mut self.queue_pair
    }

    /// Posts requests as one chain, with one call; no requests, no call.
    ///
    /// # Panics
    /// If there are more than the longest chain has, or one lies outside the window.
    #[inline]
    pub(in crate::rdma) fn post(
        &mut self,
        requests: impl Iterator<Item = Request>,
    ) -> Result<(), VerbsError> {
        self.chain.clear();
        for request in requests {
            let part = part_of(&self.window, request.offset, request.len);
            self.chain.push(request.encode(), part);
        }
        let Some(first) = self.chain.link() else {
            return Ok(());
        };
        // SAFETY: a whole chain, its parts inside the window, which lives longer than the queue pair, and of which there are
        // no references but atomic ones.
        unsafe { self.queue_pair.post_send(first) }
    }

    /// Posts a receive without memory: for a write that leaves a number. A message in its place breaks the connection.
    pub(in crate::rdma) fn post_empty_receive(&mut self, id: u64) -> Result<(), VerbsError> {
        let mut receive = sys::RecvWr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 0,
        };
        // SAFETY: it names no memory; the request itself is copied by the call.
        unsafe { self.queue_pair.post_receive(&raw mut receive) }
    }

    /// Posts room for one message.
    ///
    /// # Panics
    /// If it lies outside the window.
    #[inline]
    pub(in crate::rdma) fn post_receive(
        &mut self,
        id: u64,
        offset: usize,
        len: u32,
    ) -> Result<(), VerbsError> {
        let mut part = part_of(&self.window, offset, len);
        let mut receive = sys::RecvWr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: &raw mut part,
            num_sge: 1,
        };
        // SAFETY: as in `post`; the request itself is copied by the call.
        unsafe { self.queue_pair.post_receive(&raw mut receive) }
    }
}

/// Part of the window, as requests name it.
#[inline]
fn part_of(window: &Window, offset: usize, len: u32) -> sys::Sge {
    let end = offset.checked_add(len as usize);
    assert!(
        end.is_some_and(|end| end <= window.len()),
        "{len} bytes at {offset} of {}",
        window.len()
    );
    sys::Sge {
        addr: window.address(offset),
        length: len,
        lkey: window.lkey(),
    }
}

impl Request {
    #[inline]
    fn encode(&self) -> sys::SendWr {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        sys::SendWr {
            wr_id: self.id,
            opcode: match self.kind {
                Kind::Read => sys::WR_RDMA_READ,
                Kind::Write => sys::WR_RDMA_WRITE,
                Kind::WriteImmediate(_) => sys::WR_RDMA_WRITE_WITH_IMM,
                Kind::Send => sys::WR_SEND,
            },
            send_flags: flag(self.is_signalled, sys::SEND_SIGNALED)
                | flag(self.is_inline, sys::SEND_INLINE),
            imm_data: match self.kind {
                // As it is on the wire.
                Kind::WriteImmediate(number) => number.to_be(),
                _ => 0,
            },
            remote_addr: self.remote.0,
            rkey: self.remote.1,
            ..sys::SendWr::EMPTY
        }
    }
}
