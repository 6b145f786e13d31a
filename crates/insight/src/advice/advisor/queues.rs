//! Whatever waits: a link that all jobs share, lanes that are busy, cores that wait for an offload.

use dpb_core::Executor;

use super::{Planned, Refusal};
use crate::advice::application::{Design, Profile};
use crate::advice::interval::Estimate;
use crate::advice::load::Load;
use crate::advice::replay::{Circle, Replay, Services, Transfer};
use crate::advice::service::{Bound, LANES_MAX};

/// Jobs of a replay, and its seeds.
const REPLAYED: usize = 100_000;
const SEEDS: [u64; 3] = [1, 2, 3];

/// Lanes of a side: what is known of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// There are at least so many.
    least: u64,
    /// There are so many and no more; `false` if any number of them may be there.
    is_exact: bool,
}

impl Lanes {
    /// The most lanes that may be there; `None` for any number.
    fn most(self) -> Option<u64> {
        self.is_exact.then_some(self.least)
    }

    /// The assumption about a number that is not known.
    pub(super) fn assumption(self, backend: &str) -> Option<String> {
        (!self.is_exact).then(|| {
            format!(
                "how many jobs {backend} serves at once is not known: its figures are those of {}, the intervals reach to one lane for each job",
                match self.least {
                    1 => "one lane".to_owned(),
                    lanes => format!("{lanes} lanes"),
                }
            )
        })
    }
}

/// Times to draw from, and what serves them.
struct Queue {
    services: Services,
    lanes: Lanes,
    /// The time of a job in a lane.
    time: Estimate,
    transfer: Transfer,
}

impl Queue {
    /// Services at the ends of the interval and at the value: the shortest times with the most lanes, the value with the least, the longest with the least.
    fn ends(&self) -> [(f64, Option<u64>); 3] {
        let least = Some(self.lanes.least);
        [
            (self.time.low / self.time.value, self.lanes.most()),
            (1.0, least),
            (self.time.high / self.time.value, least),
        ]
    }

    /// The estimate whose ends `of` makes of a factor on the services and of lanes; where times have no end, neither has it.
    fn estimate(&self, endless: f64, of: impl Fn(&Services, Option<u64>) -> f64) -> Estimate {
        let ends = self.ends().map(|(factor, lanes)| match factor.is_finite() {
            true => of(&self.services.scaled(factor), lanes),
            false => endless,
        });
        Estimate {
            value: ends[1],
            low: ends[0].min(ends[2]).min(ends[1]),
            high: ends[0].max(ends[2]).max(ends[1]),
        }
    }
}

impl Planned<'_> {
    /// The backend of a side.
    pub(super) fn name(&self, side: usize) -> &str {
        &[&self.advisor.host, &self.advisor.device][side].backend
    }

    /// The time by job of a side as its records have it, without what the question adds.
    pub(super) fn by_model(&self, side: usize, load: &Load) -> Result<(Estimate, Bound), Refusal> {
        let predictor = [&self.advisor.host_time, &self.advisor.device_time][side];
        let time = predictor
            .at(load)
            .map_err(|why| Refusal(format!("{}: {why}", self.name(side))))?;
        let bound = match predictor.service() {
            Some(service) => service.closed_loop_ns(load).1,
            None => Bound::InFlight,
        };
        Ok((time, bound))
    }

    /// The link that the question puts before the device.
    fn transfer(&self, side: usize, load: &Load) -> Result<Transfer, Refusal> {
        let Some((bytes_per_s, round_trip_ns)) = self.question.transfer.filter(|_| side == 1)
        else {
            return Ok(Transfer::default());
        };
        let Some(bytes_out) = self.advisor.device.bytes_out(load) else {
            return Err(Refusal(format!(
                "{}: its records do not count the bytes of results, which have to come back over the link",
                self.name(side)
            )));
        };
        Ok(Transfer {
            in_ns: load.job_bytes() * 1e9 / bytes_per_s,
            out_ns: bytes_out * 1e9 / bytes_per_s,
            round_trip_ns,
        })
    }

    /// A time by job with the link's bounds beside its own: jobs in flight are on their way for a part of their time, and the link carries one after the
    /// other.
    pub(super) fn over_the_link(
        &self,
        side: usize,
        load: &Load,
        own: (Estimate, Bound),
    ) -> Result<(Estimate, Bound), Refusal> {
        let transfer = self.transfer(side, load)?;
        if transfer == Transfer::default() {
            return Ok(own);
        }
        let alone = self.by_model(side, &load.alone())?.0;
        let jobs = load.in_flight() as f64;
        let in_flight = alone.map(|ns| (ns + transfer.alone_ns()) / jobs);
        let wire = Estimate::exact(transfer.gap_ns());
        let (mut time, mut bound) = own;
        for (limit, of) in [(in_flight, Bound::InFlight), (wire, Bound::Bytes)] {
            if limit.value > time.value {
                bound = of;
            }
            time = time.max(&limit);
        }
        Ok((time, bound))
    }

    /// The time by job at the deepest measured queue: nothing faster of the device is known. None of software on the cores that submit, of which there are
    /// as many as there are of these.
    fn deepest_ns(&self, batch: u64, size: u64) -> Result<Option<Estimate>, Refusal> {
        let device = &self.advisor.device;
        if self.is_on_the_submitting_cores() {
            return Ok(None);
        }
        let (depth, threads) = device.deepest();
        let load = Load {
            batch,
            size,
            depth,
            threads,
        };
        let own = self.by_model(1, &load)?;
        Ok(Some(self.over_the_link(1, &load, own)?.0))
    }

    fn is_on_the_submitting_cores(&self) -> bool {
        let super::Advisor { host, device, .. } = self.advisor;
        device.executor == Executor::Caller && device.machine == host.machine
    }

    /// Jobs that the device does a second, at most.
    pub(super) fn most_jobs_per_s(&self, batch: u64, size: u64) -> Result<Estimate, Refusal> {
        Ok(rate(self.deepest_ns(batch, size)?))
    }

    /// Offloads of a profile that the device does a second, at most.
    pub(super) fn most_offloads_per_s(&self, profile: &Profile) -> Result<Estimate, Refusal> {
        if self.is_on_the_submitting_cores() {
            return Ok(rate(None));
        }
        let mean = profile.mean(|size| {
            let time = self.deepest_ns(profile.batch, size)?;
            Ok(time.unwrap_or(Estimate::exact(0.0)))
        })?;
        Ok(rate(Some(mean)))
    }

    /// The number of jobs that a side serves at once.
    pub(super) fn lanes(&self, side: usize) -> Lanes {
        let own = [&self.advisor.host, &self.advisor.device][side];
        let (depth, threads) = own.deepest();
        let exactly = |lanes: u64| Lanes {
            least: lanes.max(1),
            is_exact: true,
        };
        if own.executor == Executor::Caller {
            return exactly(threads);
        }
        let predictor = [&self.advisor.host_time, &self.advisor.device_time][side];
        let at_least = |least: u64| Lanes {
            least,
            is_exact: false,
        };
        match predictor.service() {
            Some(service) => match service.lanes {
                Some(lanes) => exactly(lanes),
                // None of the numbers that were tried fits: more were busy. Where lanes share something, that may have hidden them.
                None if service.shared_byte_ns == 0.0 => {
                    at_least(depth.saturating_mul(threads).min(LANES_MAX + 1))
                }
                None => at_least(1),
            },
            None => at_least(1),
        }
    }

    /// Times to draw from at a load, and what serves them.
    fn queue(&self, side: usize, load: &Load) -> Result<Queue, Refusal> {
        let own = [&self.advisor.host, &self.advisor.device][side];
        let alone = load.alone();
        let with_times = own
            .points
            .iter()
            .filter(|point| point.load.in_flight() == 1 && !point.latencies.is_empty());
        let apart = |load: &Load| {
            let by = |one: u64, other: u64| (one as f64 / other as f64).ln().abs();
            by(load.size, alone.size) + by(load.batch, alone.batch)
        };
        let nearest = with_times.min_by(|a, b| apart(&a.load).total_cmp(&apart(&b.load)));
        let Some(point) = nearest else {
            return Err(Refusal(format!(
                "{}: no record has the times of single jobs, one in flight (dpb op --depth 1 --latency)",
                own.backend
            )));
        };
        let recorded = Services::of_base64(&point.latencies).map_err(|why| {
            let ids = point.ids.join(", ");
            Refusal(format!("record {ids}: its histogram: {why}"))
        })?;
        let (time, _) = self.by_model(side, &alone)?;
        let factor = time.value / recorded.mean_ns();
        Ok(Queue {
            services: recorded.scaled(factor),
            lanes: self.lanes(side),
            time,
            transfer: self.transfer(side, &alone)?,
        })
    }

    /// The replayed 99th percentile: its interval is that of the service, of the lanes where they are not known, and of the seeds. Infinite where the lanes
    /// cannot keep up.
    pub(super) fn tail(
        &self,
        side: usize,
        load: &Load,
        jobs_per_s: f64,
    ) -> Result<Estimate, Refusal> {
        let queue = self.queue(side, load)?;
        let by_seed = SEEDS.map(|seed| {
            queue.estimate(f64::INFINITY, |services, lanes| {
                let replay = Replay {
                    jobs_per_s,
                    lanes,
                    transfer: queue.transfer,
                    jobs: REPLAYED,
                    seed,
                };
                let tail = replay.of(services);
                tail.map_or(f64::INFINITY, |tail| tail.p99_ns)
            })
        });
        let sorted = |of: fn(&Estimate) -> f64| {
            let mut ends = by_seed.map(|estimate| of(&estimate));
            ends.sort_unstable_by(f64::total_cmp);
            ends
        };
        Ok(Estimate {
            value: sorted(|it| it.value)[1],
            low: sorted(|it| it.low)[0],
            high: sorted(|it| it.high)[2],
        })
    }

    /// The highest rate of a side at which the 99th percentile is within the limit, in words.
    pub(super) fn highest_rate(
        &self,
        side: usize,
        load: &Load,
        limit_ns: f64,
    ) -> Result<String, Refusal> {
        let queue = self.queue(side, load)?;
        let rate = queue.estimate(0.0, |services, lanes| {
            let replay = Replay {
                jobs_per_s: 1.0,
                lanes,
                transfer: queue.transfer,
                jobs: REPLAYED / 4,
                seed: SEEDS[0],
            };
            replay.highest_rate(services, limit_ns)
        });
        Ok(format!(
            "{}: {:.0} jobs of {} B a second ({:.0} to {})",
            self.name(side),
            rate.value,
            load.size,
            rate.low,
            match rate.high.is_finite() {
                true => format!("{:.0}", rate.high),
                false => "open".to_owned(),
            }
        ))
    }

    /// The speed-up of the whole application, over its sizes. A core that waits for its offload also waits for a lane; and no application is faster than the
    /// device does its offloads.
    pub(super) fn speed_up(&self, profile: &Profile) -> Result<Estimate, Refusal> {
        let load = |size: u64| one_offload(profile, size);
        let host = profile.mean(|size| Ok(self.time(0, &load(size))?.0))?;
        profile.agrees(&host).map_err(Refusal)?;
        let whole = profile.mean(|size| Ok(self.time(1, &load(size))?.0))?;
        let on_host = match profile.design {
            Design::Sync => {
                let waited = self.waited(profile)?;
                Estimate {
                    value: whole.value + waited.value,
                    low: whole.low + waited.low,
                    high: whole.high + waited.high,
                }
            }
            _ => profile.mean(|size| self.cost(1, &load(size)))?,
        };
        let of = |end: fn(&Estimate) -> f64| profile.speed_up(end(&on_host), end(&on_host));
        let by_cores = Estimate {
            value: of(|it| it.value),
            low: of(|it| it.high),
            high: of(|it| it.low),
        };
        let most = self.most_offloads_per_s(profile)?;
        Ok(by_cores.min(&most.map(|per_s| per_s / profile.offloads_per_s)))
    }

    /// The time that an offload waits for a lane while its core waits for it: as many are under way as there are cores.
    fn waited(&self, profile: &Profile) -> Result<Estimate, Refusal> {
        let customers = profile.cores.ceil() as u64;
        let lanes = self.lanes(1);
        if self.is_on_the_submitting_cores() || lanes.least >= customers {
            return Ok(Estimate::exact(0.0));
        }
        let mut kinds = Vec::new();
        let mut transfer_ns = 0.0;
        let time = profile.mean(|size| Ok(self.by_model(1, &one_offload(profile, size))?.0))?;
        for &(size, share) in &profile.sizes {
            let queue = self.queue(1, &one_offload(profile, size))?;
            transfer_ns += share * queue.transfer.alone_ns();
            kinds.push((queue.services, share));
        }
        let queue = Queue {
            services: Services::mixed(&kinds),
            lanes,
            time,
            transfer: Transfer::default(),
        };
        let pause_ns = (1.0 - profile.share) * profile.cores * 1e9 / profile.offloads_per_s;
        Ok(queue.estimate(f64::INFINITY, |services, lanes| {
            let Some(lanes) = lanes else {
                return 0.0;
            };
            let circle = Circle {
                customers,
                think_ns: pause_ns + transfer_ns,
                lanes,
                jobs: REPLAYED,
                seed: SEEDS[0],
            };
            circle.waited_ns(services)
        }))
    }
}

/// The load of one offload of a profile, with no other under way.
fn one_offload(profile: &Profile, size: u64) -> Load {
    Load {
        batch: profile.batch,
        size,
        depth: 1,
        threads: 1,
    }
}

/// Jobs a second of a time by job; without one any number.
fn rate(time: Option<Estimate>) -> Estimate {
    match time {
        Some(time) => time.map(|ns| 1e9 / ns),
        None => Estimate::exact(f64::INFINITY),
    }
}
