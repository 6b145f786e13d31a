//! perftest's columns, by perftest's rules, from what was measured here.
//!
//! Its rules, as of 4.5 (`print_report_lat`, `print_report_bw`): of n stamps there are n - 1 samples; sorted, the two highest
//! count neither for the average nor for the deviation nor for the median; `t_max` is the lower of the two; quantiles are the
//! samples at ceil(0.99 m) and ceil(0.999 m), counted from zero, of the m that are left. Deviations from the average are cut to
//! whole microseconds before they are squared, so jitter below one counts as none. `MB` are of 2^20 bytes.
//!
//! Times here are in whole nanoseconds, perftest's in cycles; its peak is cut to whole cycles a message, ours is not.

use super::{Bandwidth, Latency, Report};

/// The line between its parts.
pub const RULE: &str =
    "---------------------------------------------------------------------------------------";

/// Titles of [`latency_row`].
pub const LATENCY_TITLES: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
                                  t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";

/// Titles of [`bandwidth_row`].
pub const BANDWIDTH_TITLES: &str =
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";

/// Samples left out of most columns.
const TAIL: usize = 2;
/// The bytes that perftest calls a megabyte.
const MEGABYTE: f64 = 1_048_576.0;

/// Its columns of a latency, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyColumns {
    /// The lowest.
    pub t_min: f64,
    /// The second highest.
    pub t_max: f64,
    /// The median without the two highest.
    pub t_typical: f64,
    /// The mean without the two highest.
    pub t_avg: f64,
    /// Without the two highest, of deviations cut to whole microseconds.
    pub t_stdev: f64,
    /// A percentile, likewise.
    pub p99: f64,
    /// A percentile, likewise.
    pub p999: f64,
}

impl LatencyColumns {
    /// The row from all samples; `None` if there are fewer than three.
    pub fn of(latency: &Latency) -> Option<Self> {
        let samples: Vec<f64> = latency.sorted_ns().iter().map(|ns| ns / 1e3).collect();
        let count = samples.len().checked_sub(TAIL).filter(|&count| count > 0)?;
        let middle = count / 2;
        let t_avg = samples[..count].iter().sum::<f64>() / count as f64;
        let squares = samples[..count]
            .iter()
            .map(|sample| (t_avg - sample).trunc().powi(2));
        let quantile = |part: f64| samples[(part * count as f64).ceil() as usize];
        Some(Self {
            t_min: samples[0],
            t_max: samples[count],
            t_typical: match count % 2 {
                0 => (samples[middle] + samples[middle - 1]) / 2.0,
                _ => samples[middle],
            },
            t_avg,
            t_stdev: (squares.sum::<f64>() / count as f64).sqrt(),
            p99: quantile(0.99),
            p999: quantile(0.999),
        })
    }
}

/// A row under [`LATENCY_TITLES`]; `None` if there are too few samples.
pub fn latency_row(size_bytes: u32, latency: &Latency) -> Option<String> {
    let LatencyColumns {
        t_min,
        t_max,
        t_typical,
        t_avg,
        t_stdev,
        p99,
        p999,
    } = LatencyColumns::of(latency)?;
    let iterations = latency.samples_ns.len() + 1;
    Some(format!(
        " {size_bytes:<7} {iterations}          {t_min:<7.2}        {t_max:<7.2}      {t_typical:<7.2}  \t       \
         {t_avg:<7.2}     \t{t_stdev:<7.2}\t\t{p99:<7.2} \t\t{p999:<7.2}"
    ))
}

/// A row under [`BANDWIDTH_TITLES`].
pub fn bandwidth_row(report: &Report) -> String {
    let Report {
        size_bytes,
        messages,
        peak,
        average,
        million_messages_per_s,
    } = report;
    format!(
        " {size_bytes:<7}    {messages:<10}       {peak:<7.2}            {average:<7.2}\t\t   {million_messages_per_s:<7.6}"
    )
}

impl Report {
    /// The report as perftest would make it; zeros if no time passed.
    pub fn of(bandwidth: &Bandwidth) -> Self {
        let megabytes = |messages_per_s: Option<f64>| {
            messages_per_s.unwrap_or(0.0) * f64::from(bandwidth.size_bytes) / MEGABYTE
        };
        let average = bandwidth.messages_per_s();
        Self {
            size_bytes: bandwidth.size_bytes.into(),
            messages: bandwidth.messages(),
            peak: megabytes(bandwidth.peak_messages_per_s()),
            average: megabytes(average),
            million_messages_per_s: average.unwrap_or(0.0) / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outputs of perftest 4.5 with `-U`: all its samples, in microseconds, and its row.
    const OUTPUTS: [&str; 2] = [
        include_str!("../../../tests/data/rdma/ib_read_lat.txt"),
        include_str!("../../../tests/data/rdma/ib_send_lat.txt"),
    ];

    fn parse(output: &str) -> (Latency, &str) {
        let samples = output.lines().filter_map(|line| {
            let (number, us) = line.split_once(", ")?;
            number.parse::<u32>().ok()?;
            us.trim().parse::<f64>().ok()
        });
        let samples_ns = samples.map(|us| us * 1e3).collect();
        let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let row = output.lines().rfind(is_row).expect("a row");
        (Latency { samples_ns }, row)
    }

    fn columns(row: &str) -> Vec<f64> {
        let words = row.split_whitespace();
        words.map(|word| word.parse().expect("a number")).collect()
    }

    /// perftest prints samples with six digits and columns with two decimals.
    #[test]
    fn rows_are_perftests_own_from_its_own_samples() {
        for output in OUTPUTS {
            let (latency, theirs) = parse(output);
            let size_bytes = columns(theirs)[0] as u32;
            let ours = latency_row(size_bytes, &latency).expect("enough samples");
            let pairs = columns(&ours).into_iter().zip(columns(theirs));
            for (column, (ours, theirs)) in pairs.enumerate() {
                let near = 0.011_f64.max(theirs * 1e-5);
                assert!(
                    (ours - theirs).abs() < near,
                    "column {column}: {ours}, perftest {theirs}"
                );
            }
            assert_eq!(columns(&ours).len(), columns(theirs).len());
        }
    }

    #[test]
    fn too_few_samples_give_no_row() {
        for count in 0..5 {
            let samples_ns = vec![1.0; count];
            let row = latency_row(2, &Latency { samples_ns });
            assert_eq!(row.is_some(), count > TAIL, "{count}");
        }
    }

    #[test]
    fn a_report_counts_in_its_own_units() {
        // Four messages of half a megabyte in a second: two of its megabytes, and at best two messages in a quarter of one.
        let bandwidth = Bandwidth {
            size_bytes: 1 << 19,
            posted_ns: vec![0, 0, 500_000_000, 750_000_000],
            completed_ns: vec![(2, 250_000_000), (4, 1_000_000_000)],
        };
        let report = Report::of(&bandwidth);
        assert_eq!((report.size_bytes, report.messages), (1 << 19, 4));
        assert_eq!((report.average, report.peak), (2.0, 4.0));
        assert_eq!(report.million_messages_per_s, 4e-6);
        assert_eq!(
            columns(&bandwidth_row(&report)),
            [524_288.0, 4.0, 4.0, 2.0, 4e-6]
        );
    }
}
