//! Servers in virtual time: so many jobs at a time, first come, first served.

use std::collections::VecDeque;

/// A station with a number of servers and one queue. Times of jobs are known when they come, so that the station needs no event of its own: it says at
/// once when a job begins and ends.
#[derive(Clone, Debug)]
pub struct Server {
    /// The times at which the lanes are free.
    free_ps: Vec<u64>,
    waiting: Waiting,
    waiting_max: usize,
    usage: Usage,
}

/// Jobs that wait, by the times at which they will begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(VecDeque<u64>);

impl Waiting {
    /// The number of jobs that wait now.
    #[inline]
    pub(super) fn count(&mut self, now_ps: u64) -> usize {
        while self.0.front().is_some_and(|&begin_ps| begin_ps <= now_ps) {
            self.0.pop_front();
        }
        self.0.len()
    }

    /// A job waits that will begin at this time, no earlier than those before it.
    pub(super) fn push(&mut self, begin_ps: u64) {
        self.0.push_back(begin_ps);
    }

    /// The time at which the first of those will begin that waited when they were last counted.
    pub(super) fn first_ps(&self) -> Option<u64> {
        self.0.front().copied()
    }
}

/// The use of a station over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Jobs that were served, or will be.
    pub jobs: u64,
    /// Jobs that were refused because the queue was full.
    pub refused: u64,
    /// The time of service of all jobs together, in picoseconds.
    pub busy_ps: u64,
    /// The time of waiting of all jobs together, in picoseconds.
    pub waited_ps: u64,
    /// The longest queue that a job found, without jobs in service.
    pub waiting_max: usize,
}

/// The times at which a job is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The begin of the service.
    pub begin_ps: u64,
    /// The end of the service.
    pub end_ps: u64,
}

impl Server {
    /// A station of so many servers, in front of which so many jobs may wait.
    ///
    /// # Panics
    /// If it has no server.
    pub fn new(lanes: usize, waiting_max: usize) -> Self {
        assert!(lanes > 0, "a station has a server");
        Self {
            free_ps: vec![0; lanes],
            waiting: Waiting::default(),
            waiting_max,
            usage: Usage::default(),
        }
    }

    /// A job comes that needs a server for `cost_ps`. Jobs come in the order of time. `None` if the queue is full.
    #[inline]
    pub fn serve(&mut self, now_ps: u64, cost_ps: u64) -> Option<Service> {
        let waiting = self.waiting.count(now_ps);
        self.usage.waiting_max = self.usage.waiting_max.max(waiting);
        // Lanes are few: a search is quicker than a heap. Of equal ones the first, so that the choice is the same everywhere.
        let lane = (0..self.free_ps.len()).min_by_key(|&lane| self.free_ps[lane])?;
        let begin_ps = self.free_ps[lane].max(now_ps);
        if begin_ps > now_ps {
            if waiting >= self.waiting_max {
                self.usage.refused += 1;
                return None;
            }
            self.waiting.push(begin_ps);
        }
        let end_ps = begin_ps + cost_ps;
        self.free_ps[lane] = end_ps;
        self.usage.jobs += 1;
        self.usage.busy_ps += cost_ps;
        self.usage.waited_ps += begin_ps - now_ps;
        Some(Service { begin_ps, end_ps })
    }

    /// The number of servers.
    pub fn lanes(&self) -> usize {
        self.free_ps.len()
    }

    /// The time at which a server is free next.
    pub fn free_ps(&self) -> u64 {
        self.free_ps.iter().copied().min().unwrap_or(0)
    }

    /// Its use so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

impl Usage {
    /// The share of the time of all servers that was service, over a run of this length.
    pub fn utilisation(&self, lanes: usize, run_ps: u64) -> f64 {
        match run_ps {
            0 => 0.0,
            run_ps => self.busy_ps as f64 / (run_ps as f64 * lanes as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_for_the_server_that_is_free_first() {
        let mut server = Server::new(2, 1);
        let serve = |server: &mut Server, now_ps, cost_ps| {
            server
                .serve(now_ps, cost_ps)
                .map(|it| (it.begin_ps, it.end_ps))
        };
        assert_eq!(serve(&mut server, 0, 10), Some((0, 10)));
        assert_eq!(serve(&mut server, 0, 4), Some((0, 4)));
        assert_eq!(serve(&mut server, 1, 5), Some((4, 9)));
        assert_eq!(serve(&mut server, 2, 5), None);
        assert_eq!(serve(&mut server, 4, 1), Some((9, 10)));
        let usage = server.usage();
        assert_eq!((usage.jobs, usage.refused), (4, 1));
        assert_eq!((usage.busy_ps, usage.waited_ps), (20, 3 + 5));
        assert_eq!(usage.waiting_max, 1);
        assert_eq!(usage.utilisation(2, 10), 1.0);
    }
}
