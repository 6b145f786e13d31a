//! Queues on the kernel: a source of customers, stations of servers, and a sink.

use dpb_core::random::SplitMix64;
use dpb_sim::kernel::{Component, Context, MILLISECOND_PS};
use dpb_sim::system::{Server, Usage};

/// The mean service time of open queues, and the unit of all times in comparisons. A million picoseconds would do; with a thousand million, what rounding
/// does is far below what a comparison can see.
pub(crate) const UNIT_PS: u64 = MILLISECOND_PS;

/// The distribution of a service time, of which the mean is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    /// Always one.
    Constant,
    /// Exponential.
    Exponential,
    /// One of two lengths.
    TwoPoint,
    /// Exponential, with one of two means.
    Hyperexponential,
}

impl Times {
    /// The two cases of the mixtures: their probability and their mean.
    const TWO_POINT: [(f64, f64); 2] = [(0.9, 0.5), (0.1, 5.5)];
    const HYPEREXPONENTIAL: [(f64, f64); 2] = [(0.8, 0.5), (0.2, 3.0)];

    fn draw(self, random: &mut SplitMix64) -> f64 {
        let case = |cases: [(f64, f64); 2], random: &mut SplitMix64| {
            let is_first = random.unit() <= cases[0].0;
            cases[usize::from(!is_first)].1
        };
        match self {
            Self::Constant => 1.0,
            Self::Exponential => exponential(random),
            Self::TwoPoint => case(Self::TWO_POINT, random),
            Self::Hyperexponential => {
                let mean = case(Self::HYPEREXPONENTIAL, random);
                mean * exponential(random)
            }
        }
    }

    /// The mean of the squares.
    pub(crate) fn second_moment(self) -> f64 {
        let mixed =
            |cases: [(f64, f64); 2]| cases.iter().map(|(p, mean)| p * mean * mean).sum::<f64>();
        match self {
            Self::Constant => 1.0,
            Self::Exponential => 2.0,
            Self::TwoPoint => mixed(Self::TWO_POINT),
            Self::Hyperexponential => 2.0 * mixed(Self::HYPEREXPONENTIAL),
        }
    }
}

/// Exponentially distributed with mean one. The logarithm is `libm`'s, so that each machine draws the same numbers.
fn exponential(random: &mut SplitMix64) -> f64 {
    -libm::log(random.unit())
}

/// A number of units in picoseconds.
pub(crate) fn picoseconds(units: f64) -> u64 {
    (units * UNIT_PS as f64).round() as u64
}

/// A customer.
#[derive(Debug)]
pub(crate) struct Customer {
    sent_ps: u64,
}

/// What was seen of customers that came after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Customers.
    pub(crate) customers: u64,
    /// The time that they waited, in picoseconds.
    pub(crate) waited_ps: u64,
    /// The time that they stayed, in picoseconds.
    pub(crate) stayed_ps: u64,
    /// Customers who were turned away; the other fields do not count them.
    pub(crate) lost: u64,
}

/// The port of a source and of a sink.
pub(crate) const ONLY: usize = 0;

/// A Poisson source of a number of customers.
#[derive(Debug)]
pub(crate) struct Source {
    /// The mean gap, in units.
    pub(crate) gap: f64,
    /// Customers that are still to be sent.
    pub(crate) left: u64,
    /// Its random numbers.
    pub(crate) random: SplitMix64,
}

impl Source {
    fn wait(&mut self, context: &mut Context<'_, Customer>) {
        if self.left > 0 {
            self.left -= 1;
            let gap_ps = picoseconds(self.gap * exponential(&mut self.random));
            context.wake_at(context.now_ps() + gap_ps, 0);
        }
    }
}

impl Component<Customer> for Source {
    fn start(&mut self, context: &mut Context<'_, Customer>) {
        self.wait(context);
    }

    fn receive(&mut self, _port: usize, _customer: Customer, context: &mut Context<'_, Customer>) {
        context.fail("nobody goes back to the source");
    }

    fn wake(&mut self, _token: u64, context: &mut Context<'_, Customer>) {
        let sent_ps = context.now_ps();
        context.send(ONLY, Customer { sent_ps });
        self.wait(context);
    }
}

/// The parameters of a station.
#[derive(Clone, Debug)]
pub(crate) struct StationPlan {
    /// Servers.
    pub(crate) servers: usize,
    /// Customers that may wait.
    pub(crate) waiting_max: usize,
    /// The distribution of service times.
    pub(crate) times: Times,
    /// Their mean, in units.
    pub(crate) mean: f64,
    /// The ports at which customers leave, each with its probability.
    pub(crate) routes: Vec<(usize, f64)>,
    /// Customers that are there from the beginning.
    pub(crate) initial: usize,
    /// The length of the warm-up.
    pub(crate) warm_ps: u64,
}

/// A station of servers.
#[derive(Debug)]
pub(crate) struct Station {
    plan: StationPlan,
    server: Server,
    random: SplitMix64,
    /// Customers who wait or are served, at the place that their timer names.
    present: Vec<Option<Customer>>,
    spare: Vec<usize>,
    tally: Tally,
}

impl Station {
    /// An empty station.
    pub(crate) fn new(plan: StationPlan, random: SplitMix64) -> Self {
        Self {
            server: Server::new(plan.servers, plan.waiting_max),
            plan,
            random,
            present: Vec::new(),
            spare: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// What it saw of customers who came after the warm-up.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// The use of the servers, with the warm-up.
    pub(crate) fn usage(&self) -> Usage {
        self.server.usage()
    }

    fn admit(&mut self, customer: Customer, context: &mut Context<'_, Customer>) {
        let now_ps = context.now_ps();
        let cost_ps = picoseconds(self.plan.mean * self.plan.times.draw(&mut self.random));
        let service = self.server.serve(now_ps, cost_ps);
        let is_counted = now_ps >= self.plan.warm_ps;
        let Some(service) = service else {
            self.tally.lost += u64::from(is_counted);
            return;
        };
        if is_counted {
            self.tally.customers += 1;
            self.tally.waited_ps += service.begin_ps - now_ps;
            self.tally.stayed_ps += service.end_ps - now_ps;
        }
        let place = self.spare.pop().unwrap_or(self.present.len());
        match self.present.get_mut(place) {
            Some(empty) => *empty = Some(customer),
            None => self.present.push(Some(customer)),
        }
        context.wake_at(service.end_ps, place as u64);
    }

    fn route(&mut self) -> usize {
        let mut left = self.random.unit();
        let (last, others) = self.plan.routes.split_last().expect("a way out");
        for &(port, probability) in others {
            left -= probability;
            if left <= 0.0 {
                return port;
            }
        }
        last.0
    }
}

impl Component<Customer> for Station {
    fn start(&mut self, context: &mut Context<'_, Customer>) {
        for _ in 0..self.plan.initial {
            self.admit(Customer { sent_ps: 0 }, context);
        }
    }

    fn receive(&mut self, _port: usize, customer: Customer, context: &mut Context<'_, Customer>) {
        self.admit(customer, context);
    }

    fn wake(&mut self, token: u64, context: &mut Context<'_, Customer>) {
        let place = token as usize;
        let customer = self.present[place].take().expect("a timer each");
        self.spare.push(place);
        let port = self.route();
        context.send(port, customer);
    }
}

/// The end of the customers' way.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// The length of the warm-up.
    pub(crate) warm_ps: u64,
    /// The time of the way from the source on which nobody waits.
    pub(crate) way_ps: u64,
    /// Customers who came, with those of the warm-up.
    pub(crate) arrived: u64,
    /// What it saw of customers who were sent after the warm-up: how long they were under way, without the channels' time.
    pub(crate) tally: Tally,
}

impl Component<Customer> for Sink {
    fn receive(&mut self, _port: usize, customer: Customer, context: &mut Context<'_, Customer>) {
        self.arrived += 1;
        if customer.sent_ps >= self.warm_ps {
            self.tally.customers += 1;
            self.tally.stayed_ps += context.now_ps() - customer.sent_ps - self.way_ps;
        }
    }
}
