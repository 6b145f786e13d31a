//! Sending by a host's cores: segments of connections, datagrams of sources, answers of services.

use crate::kernel::Context;

use super::{Core, Host};
use crate::system::frame::{Frame, HEAD_BYTES_MAX, Stream};
use crate::system::headers;
use crate::system::journey::{Leg, flow_number};
use crate::system::message::Message;

/// A frame that a core begins to send, and the time that this takes.
pub(super) type Begun = (Box<Frame>, u64);

impl Host {
    /// The next segment of the connection that has taken frames, once it is to answer: then it sends all that it may, before more is taken.
    pub(super) fn begin_answer(
        &mut self,
        core: usize,
        context: &mut Context<'_, Message>,
    ) -> Option<Begun> {
        let (flow, frames) = self.cores[core].unanswered?;
        if frames < self.model.merge {
            let next = self.cores[core].arrived.front();
            let next = next.and_then(|frame| self.flow_of(frame));
            if next == Some(flow) {
                return None;
            }
        }
        let segment = self.begin_segment(flow, context);
        if segment.is_none() {
            self.cores[core].unanswered = None;
        }
        segment
    }

    /// The next segment of the core's connections, or the next of its datagrams, in turns.
    pub(super) fn begin_send(
        &mut self,
        core: usize,
        context: &mut Context<'_, Message>,
    ) -> Option<Begun> {
        let Core {
            flows,
            sources,
            services,
            turn,
            ..
        } = &self.cores[core];
        let (turn, flows) = (*turn, flows.len());
        let count = flows + sources.len() + services.len();
        for step in 0..count {
            let at = (turn + step) % count;
            let begun = match at.checked_sub(flows) {
                None => self.begin_segment(self.cores[core].flows[at], context),
                Some(at) => self.begin_datagram(core, at, context),
            };
            if begun.is_some() {
                self.cores[core].turn = at + 1;
                return begun;
            }
        }
        None
    }

    /// The next segment of a connection, and its cost, if there is one and the ring has room.
    fn begin_segment(
        &mut self,
        number: usize,
        context: &mut Context<'_, Message>,
    ) -> Option<Begun> {
        if self.in_ring >= self.model.ring {
            return None;
        }
        let now_ps = context.now_ps();
        let flow = &mut self.flows[number];
        let segment = flow.endpoint.next_segment(now_ps)?;
        let payload_bytes = segment.payload_len;
        let mut head = [0; HEAD_BYTES_MAX];
        let bytes = headers::write(&flow.own, &flow.peer, &segment, flow.numbers, &mut head);
        let stream = Stream {
            seed: flow.seed,
            offset: segment.stream_offset(),
        };
        let born_ps = match self.keeps && payload_bytes > 0 {
            true => flow.first_sent_ps(stream.offset, payload_bytes, now_ps),
            false => now_ps,
        };
        let head = &head[..bytes];
        let mut frame = Frame::over(spent(context), head, stream, payload_bytes, born_ps);
        frame.journey.flow = flow_number(flow.own.ip, flow.own.port);
        if self.keeps {
            self.watch.begin(&mut frame);
            self.watch.pass(&mut frame, 0, Leg::Retransmission, now_ps);
        }
        let begun = self.begin_frame(frame, payload_bytes, context);
        self.arm(number, context);
        Some(begun)
    }

    /// The next datagram of one of the core's sources, or of its services behind them, if there is one and the ring has room.
    fn begin_datagram(
        &mut self,
        core: usize,
        at: usize,
        context: &mut Context<'_, Message>,
    ) -> Option<Begun> {
        if self.in_ring >= self.model.ring {
            return None;
        }
        let Core {
            sources, services, ..
        } = &self.cores[core];
        let datagram = match at.checked_sub(sources.len()) {
            None => self.sources[sources[at]].pop(),
            Some(at) => self.services[services[at]].pop(),
        }?;
        let now_ps = context.now_ps();
        let mut frame = datagram.frame(spent(context));
        self.watch.begin(&mut frame);
        self.usage.waited_ps += now_ps - frame.journey.counted_ps();
        self.watch.goes(0, now_ps);
        self.watch.pass(&mut frame, 0, Leg::HostQueue, now_ps);
        Some(self.begin_frame(frame, datagram.bytes, context))
    }

    /// Takes a descriptor for a frame and protects it, if the host does that; says what it costs.
    fn begin_frame(
        &mut self,
        mut frame: Box<Frame>,
        payload_bytes: u32,
        context: &mut Context<'_, Message>,
    ) -> Begun {
        self.in_ring += 1;
        let mut cost_ps = self.model.send_ps + u64::from(payload_bytes) * self.model.byte_ps;
        if let Some(protection) = &mut self.protection {
            match protection.protect(&mut frame, context.local()) {
                Ok(bytes) => cost_ps += self.digest_cost_ps(bytes),
                Err(wrong) => context.fail(wrong),
            }
        }
        (frame, cost_ps)
    }
}

/// A frame that nobody needs any more, if the kernel has one.
fn spent(context: &mut Context<'_, Message>) -> Option<Box<Frame>> {
    match context.reuse() {
        Some(Message::Frame(frame)) => Some(frame),
        _ => None,
    }
}
