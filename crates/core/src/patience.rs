//! Waiting for a device, but not for ever.

use std::time::Duration;

use crate::Clock;
#[cfg(any(feature = "conformance", feature = "measure"))]
pub(crate) use leaked::leak;

/// How long nothing has happened. Reads the clock only while nothing does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    since_ns: Option<u64>,
}

impl Silence {
    /// By `clock`, since this was first asked after the last [`Silence::end`].
    pub fn lasts(&mut self, clock: &dyn Clock) -> Duration {
        let now_ns = clock.now_ns();
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        Duration::from_nanos(now_ns.saturating_sub(since_ns))
    }

    /// Something has happened.
    pub fn end(&mut self) {
        self.since_ns = None;
    }
}

#[cfg(any(feature = "conformance", feature = "measure"))]
mod leaked {
    use std::collections::VecDeque;

    use crate::{Completion, Job, Queue};

    /// Leaves `queue` and what it holds where they are, for good. Dropping it would wait for its device, and taking memory back
    /// that the device may still write to would be worse.
    pub(crate) fn leak(queue: &mut Box<dyn Queue>) {
        std::mem::forget(std::mem::replace(queue, Box::new(Gone)));
    }

    /// In the place of a queue that was leaked.
    struct Gone;

    impl Queue for Gone {
        fn in_flight(&self) -> usize {
            0
        }

        fn submit(&mut self, _: &mut VecDeque<Job>) -> usize {
            0
        }

        fn poll(&mut self, _: &mut Vec<Completion>) -> usize {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualClock;

    #[test]
    fn silence_lasts_from_the_first_look_to_the_next_sign() {
        let clock = VirtualClock::new(false);
        let mut silence = Silence::default();
        clock.advance_to(70);
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
        clock.advance_to(100);
        assert_eq!(silence.lasts(&clock), Duration::from_nanos(30));
        silence.end();
        clock.advance_to(150);
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
    }
}
