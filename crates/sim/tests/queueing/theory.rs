//! The theory of queues (Kleinrock, Queueing Systems, volume 1, 1975, chapters 3 and 5; Reiser and Lavenberg, JACM 27(2), 1980), and confidence
//! intervals. Times are in units of the mean service time, unless a mean is given.

/// The mean waiting time of M/G/1 (Pollaczek and Khinchine), from the mean square of the service time.
pub(crate) fn pollaczek_khinchine(load: f64, second_moment: f64) -> f64 {
    load * second_moment / (2.0 * (1.0 - load))
}

/// The share of customers that M/G/k/k turns away (Erlang B), from the offered load in erlang.
pub(crate) fn erlang_b(offered: f64, servers: usize) -> f64 {
    (1..=servers).fold(1.0, |lost, k| offered * lost / (k as f64 + offered * lost))
}

/// The share of customers that wait in M/M/k (Erlang C), from the load of each server.
pub(crate) fn erlang_c(load: f64, servers: usize) -> f64 {
    let lost = erlang_b(load * servers as f64, servers);
    lost / (1.0 - load * (1.0 - lost))
}

/// The mean waiting time of M/M/k.
pub(crate) fn waiting_of_many_servers(load: f64, servers: usize) -> f64 {
    erlang_c(load, servers) / (servers as f64 * (1.0 - load))
}

/// A queue that has room for so many customers, the one in service among them: M/M/1/N.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounded {
    /// The share of customers who are turned away.
    pub(crate) lost: f64,
    /// The mean waiting time of the others.
    pub(crate) waiting: f64,
}

impl Bounded {
    /// The probabilities of the states are a geometric sequence; Little's law gives the time.
    pub(crate) fn new(load: f64, room: usize) -> Self {
        let weights: Vec<f64> = (0..=room as i32).map(|n| load.powi(n)).collect();
        let sum: f64 = weights.iter().sum();
        let present: f64 = weights
            .iter()
            .enumerate()
            .map(|(n, weight)| n as f64 * weight / sum)
            .sum();
        let lost = weights[room] / sum;
        Self {
            lost,
            waiting: present / (load * (1.0 - lost)) - 1.0,
        }
    }
}

/// A centre of a closed network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Centre {
    /// Visits in each round.
    pub(crate) visits: f64,
    /// The mean service time.
    pub(crate) mean: f64,
    /// Servers.
    pub(crate) servers: usize,
}

/// The exact means of a closed network.
#[derive(Clone, Debug)]
pub(crate) struct MeanValues {
    /// Rounds in a unit of time.
    pub(crate) throughput: f64,
    /// The mean time of a visit to each centre.
    pub(crate) stays: Vec<f64>,
}

impl MeanValues {
    /// Mean value analysis for centres of several servers, by their marginal probabilities. `delay` is the time of a round that customers spend on their
    /// way, where nobody waits.
    pub(crate) fn new(centres: &[Centre], delay: f64, customers: usize) -> Self {
        // The probability of each number of customers at each centre.
        let mut at = vec![vec![0.0; customers + 1]; centres.len()];
        at.iter_mut().for_each(|it| it[0] = 1.0);
        let mut means = Self {
            throughput: 0.0,
            stays: vec![0.0; centres.len()],
        };
        for population in 1..=customers {
            let mut round = delay;
            for (k, centre) in centres.iter().enumerate() {
                let stay = |n: usize| n as f64 * centre.mean / n.min(centre.servers) as f64;
                means.stays[k] = (1..=population).map(|n| stay(n) * at[k][n - 1]).sum();
                round += centre.visits * means.stays[k];
            }
            means.throughput = population as f64 / round;
            for (centre, at) in centres.iter().zip(&mut at) {
                let offered = means.throughput * centre.visits * centre.mean;
                for n in (1..=population).rev() {
                    at[n] = offered / n.min(centre.servers) as f64 * at[n - 1];
                }
                at[0] = 1.0 - at[1..].iter().sum::<f64>();
            }
        }
        means
    }
}

/// Student's t of nine degrees of freedom, 0.05 % on each side: of the printed tables.
const STUDENT_T_9: f64 = 4.781;

/// A mean and half the width of its confidence interval at 99.9 %.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// The mean.
    pub(crate) mean: f64,
    /// Half the width.
    pub(crate) half: f64,
}

impl Interval {
    /// The interval of ten independent samples.
    pub(crate) fn new(samples: [f64; 10]) -> Self {
        let mean = samples.iter().sum::<f64>() / 10.0;
        let squares: f64 = samples.iter().map(|it| (it - mean) * (it - mean)).sum();
        Self {
            mean,
            half: STUDENT_T_9 * (squares / 9.0 / 10.0).sqrt(),
        }
    }

    /// True if this value lies in it.
    pub(crate) fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half
    }
}

fn near(a: f64, b: f64, of: f64) {
    assert!((a - b).abs() <= of, "{a} is not {b}");
}

#[test]
fn the_formulas_of_erlang_give_printed_values() {
    // Tables of Erlang B: 10 servers and 5 erlang, 5 and 2.
    near(erlang_b(5.0, 10), 0.0184, 5e-5);
    near(erlang_b(2.0, 5), 0.0367, 5e-5);
    // One server: the load waits. Two: 2 load^2 / (1 + load).
    near(erlang_c(0.7, 1), 0.7, 1e-12);
    near(erlang_c(0.7, 2), 2.0 * 0.49 / 1.7, 1e-12);
    near(
        waiting_of_many_servers(0.7, 1),
        pollaczek_khinchine(0.7, 2.0),
        1e-12,
    );
}

#[test]
fn a_bounded_queue_becomes_an_unbounded_one() {
    let bounded = Bounded::new(0.5, 60);
    near(bounded.waiting, pollaczek_khinchine(0.5, 2.0), 1e-12);
    // Room for one is Erlang's system of one server.
    near(Bounded::new(0.7, 1).lost, erlang_b(0.7, 1), 1e-12);
    near(Bounded::new(0.7, 1).waiting, 0.0, 1e-12);
}

#[test]
fn mean_values_agree_with_closed_forms() {
    let centre = |servers| Centre {
        visits: 1.0,
        mean: 1.0,
        servers,
    };
    // Three equal centres of one server: N / (N + 2).
    let balanced = MeanValues::new(&[centre(1); 3], 0.0, 7);
    near(balanced.throughput, 7.0 / 9.0, 1e-12);
    near(balanced.stays[1], 3.0, 1e-12);
    // As many servers as customers: nobody waits.
    let free = MeanValues::new(&[centre(5); 2], 3.0, 5);
    near(free.throughput, 1.0, 1e-12);
    // A centre of two servers with customers that think: the machine repairman, whose states are a birth and death process.
    let (customers, thinking) = (6, 4.0);
    let repair = MeanValues::new(&[centre(2)], thinking, customers);
    let mut weights = vec![1.0];
    for n in 1..=customers {
        let born = (customers - n + 1) as f64 / thinking;
        weights.push(weights[n - 1] * born / n.min(2) as f64);
    }
    let sum: f64 = weights.iter().sum();
    let busy: f64 = weights
        .iter()
        .enumerate()
        .map(|(n, weight)| n.min(2) as f64 * weight / sum)
        .sum();
    near(repair.throughput, busy, 1e-12);
}

#[test]
fn an_interval_is_that_of_the_textbook() {
    // Mean 5.5, variance 55 / 6 of the numbers 1 to 10.
    let interval = Interval::new([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    near(interval.mean, 5.5, 1e-12);
    near(interval.half, 4.781 * (55.0f64 / 60.0).sqrt(), 1e-12);
    assert!(interval.contains(1.0) && !interval.contains(0.9));
}
