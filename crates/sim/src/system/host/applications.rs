//! The work of applications over their connections.

use crate::kernel::Context;

use super::{Application, Host, REQUEST};
use crate::system::message::Message;

impl Host {
    /// Lets a connection's application do what it can.
    pub(super) fn advance(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        let flow = &mut self.flows[number];
        let delivered_bytes = flow.endpoint.delivered_bytes();
        match flow.application {
            Application::Send { .. } => {}
            Application::Receive => {}
            Application::Ask {
                requests,
                request_bytes,
                answer_bytes,
                ..
            } => {
                let Some(asking) = &mut flow.asking else {
                    return;
                };
                while flow.answers < requests
                    && delivered_bytes - flow.consumed_bytes >= answer_bytes
                {
                    flow.consumed_bytes += answer_bytes;
                    flow.answers += 1;
                    match asking.answered(now_ps) {
                        Some(at_ps) if at_ps > now_ps => {
                            context.wake_at(at_ps, REQUEST + number as u64);
                        }
                        Some(_) => {
                            asking.ask(now_ps);
                            flow.endpoint.offer(request_bytes);
                        }
                        None => {}
                    }
                }
                if flow.answers == requests && !flow.is_closing {
                    flow.finished_ps = Some(now_ps);
                    flow.is_closing = true;
                    flow.endpoint.close();
                }
            }
            Application::Answer {
                request_bytes,
                answer_bytes,
            } => {
                while delivered_bytes - flow.consumed_bytes >= request_bytes {
                    flow.consumed_bytes += request_bytes;
                    flow.answers += 1;
                    flow.endpoint.offer(answer_bytes);
                }
            }
        }
        if flow.endpoint.peer_has_closed() && !flow.is_closing {
            flow.is_closing = true;
            flow.endpoint.close();
        }
        let is_done = match flow.application {
            Application::Send { bytes } => flow.endpoint.sender().acknowledged_bytes() >= bytes,
            Application::Receive | Application::Answer { .. } => flow.endpoint.peer_has_closed(),
            Application::Ask { .. } => false,
        };
        if is_done && flow.finished_ps.is_none() {
            flow.finished_ps = Some(now_ps);
        }
    }

    /// Makes a connection's next request, and sets the timer of the one behind it if its time is known.
    pub(super) fn ask(&mut self, number: usize, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        let flow = &mut self.flows[number];
        if let (Application::Ask { request_bytes, .. }, Some(asking)) =
            (flow.application, &mut flow.asking)
        {
            let next_ps = asking.ask(now_ps);
            flow.endpoint.offer(request_bytes);
            if let Some(next_ps) = next_ps {
                context.wake_at(next_ps, REQUEST + number as u64);
            }
        }
        self.work(number % self.cores.len(), context);
    }
}
