//! Loops around endpoints, as a simulator has one.

use std::path::Path;
use std::thread;
use std::time::Duration;

use dpb_sim::simbricks::{
    Endpoint, Error, LinkParams, Listener, RingShape, Sent, SyncMode, Waiting, connect,
};

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A frame and the time at which it is sent, or at which it was received.
pub(crate) type Timed = (u64, Vec<u8>);

/// Parameters of a side.
pub(crate) fn params(sync: SyncMode, link_latency_ps: u64, sync_interval_ps: u64) -> LinkParams {
    LinkParams {
        sync,
        link_latency_ps,
        sync_interval_ps,
    }
}

/// The listener's and the connecter's end of a link, made at `path`.
pub(crate) fn pair(path: &Path, shape: RingShape, sides: [LinkParams; 2]) -> [Endpoint; 2] {
    let listener = Listener::bind(path, shape, sides[0]).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| connect(path, sides[1], PATIENCE).unwrap());
        [listener.accept(PATIENCE).unwrap(), other.join().unwrap()]
    })
}

/// A frame whose bytes depend on its number and its length.
pub(crate) fn frame(number: usize, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| (number * 31 + at * 7 + bytes) as u8;
    (0..bytes).map(byte).collect()
}

/// A simulator on synchronised links: at each time it hears what has arrived at which link, and says what is sent on which.
pub(crate) trait Model {
    /// The time of its own next event.
    fn next_ps(&self) -> u64;
    /// A frame has arrived.
    fn receive(&mut self, now_ps: u64, timestamp_ps: u64, link: usize, frame: &[u8]);
    /// The next frame to send at that time, and its link.
    fn send(&mut self, now_ps: u64) -> Option<(usize, Vec<u8>)>;
    /// True if it has ended.
    fn has_ended(&self) -> bool;
}

/// Runs `model` in virtual time until it has ended, or nothing can happen any more; then tells the peers so.
pub(crate) fn drive(links: &mut [Endpoint], model: &mut dyn Model) -> Result<(), Error> {
    let mut waiting = Waiting::new(false);
    let mut now_ps = 0;
    while !model.has_ended() {
        for link in &mut *links {
            while !link.out_sync(now_ps)? {
                waiting.pause();
            }
        }
        for (number, link) in links.iter_mut().enumerate() {
            loop {
                if let Some(received) = link.poll(now_ps)? {
                    model.receive(now_ps, received.timestamp_ps, number, received.frame);
                } else if link.input_timestamp_ps() > now_ps {
                    break;
                } else {
                    waiting.pause();
                    continue;
                }
                waiting.end();
            }
        }
        while let Some((number, frame)) = model.send(now_ps) {
            while links[number].send(now_ps, &frame)? == Sent::Full {
                waiting.pause();
            }
        }
        let bounds = links.iter();
        let bounds = bounds.map(|link| link.input_timestamp_ps().min(link.next_sync_ps()));
        now_ps = bounds.chain([model.next_ps()]).min().unwrap();
        if now_ps == u64::MAX {
            // All peers have ended, and nothing is left to happen here.
            break;
        }
    }
    for link in links {
        while link.terminate()? == Sent::Full {
            waiting.pause();
        }
    }
    Ok(())
}

/// A station that sends frames at given times, and takes as many as it expects.
pub(crate) struct Station<'a> {
    pub(crate) to_send: &'a [Timed],
    pub(crate) expected: usize,
    pub(crate) received: Vec<Timed>,
}

impl<'a> Station<'a> {
    pub(crate) fn new(to_send: &'a [Timed], expected: usize) -> Self {
        let received = Vec::new();
        Self {
            to_send,
            expected,
            received,
        }
    }
}

impl Model for Station<'_> {
    fn next_ps(&self) -> u64 {
        self.to_send.first().map_or(u64::MAX, |&(at_ps, _)| at_ps)
    }

    fn receive(&mut self, now_ps: u64, timestamp_ps: u64, _: usize, frame: &[u8]) {
        assert_eq!(
            now_ps, timestamp_ps,
            "received at another time than it came"
        );
        self.received.push((timestamp_ps, frame.to_vec()));
    }

    fn send(&mut self, now_ps: u64) -> Option<(usize, Vec<u8>)> {
        let (&(at_ps, ref frame), rest) = self.to_send.split_first()?;
        assert!(at_ps >= now_ps, "sent too late");
        (at_ps == now_ps).then(|| {
            self.to_send = rest;
            (0, frame.clone())
        })
    }

    fn has_ended(&self) -> bool {
        self.to_send.is_empty() && self.received.len() == self.expected
    }
}

/// Sends and receives as fast as it can, without virtual time: the times of `to_send` are stamps alone.
pub(crate) fn drive_freely(
    link: &mut Endpoint,
    to_send: &[Timed],
    expected: usize,
) -> Result<Vec<Timed>, Error> {
    let mut waiting = Waiting::new(true);
    let mut received = Vec::new();
    let mut to_send = to_send.iter();
    let mut next = to_send.next();
    while next.is_some() || received.len() < expected {
        waiting.pause();
        if let Some((at_ps, frame)) = next
            && link.send(*at_ps, frame)? == Sent::Queued
        {
            next = to_send.next();
            waiting.end();
        }
        if let Some(frame) = link.poll(0)? {
            received.push((frame.timestamp_ps, frame.frame.to_vec()));
            waiting.end();
        }
    }
    while link.terminate()? == Sent::Full {
        waiting.pause();
    }
    Ok(received)
}

/// Polls until there is an error, and returns it.
pub(crate) fn error_of(link: &mut Endpoint, now_ps: u64) -> Error {
    let mut waiting = Waiting::new(true);
    loop {
        match link.poll(now_ps) {
            Ok(_) => waiting.pause(),
            Err(error) => return error,
        }
    }
}
