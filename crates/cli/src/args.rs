//! What values look like on the command line, the same for every verb.
//!
//! | kind | written |
//! |---|---|
//! | size | `64`, `4KiB` (1024s), `1MB` (1000s) |
//! | list | `1,2,4` |
//! | range | `64..1024`: doubling from the first to at most the last |
//! | duration | `0.2`, `200ms`, `2s`, `1m` |
//! | share | `0.05`, `5%` |
//! | rate | `5000`, `1e6`, `2.5M` (a second) |

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use dpb_core::lift::threads_max;

/// One or more values of a swept parameter, in the order they were given.
///
/// A type of its own, because clap reads a bare `Vec` as a repeated flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> List<T> {
    /// The values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Bytes: `64`, `4KiB`, `1MB`.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "k" | "K" | "M" | "G" | "T" => {
            return Err(format!(
                "`{text}`: write `{number}{}iB` (1024s) or `{number}{}B` (1000s)",
                unit.to_uppercase(),
                unit.to_uppercase()
            ));
        }
        _ => {
            return Err(format!(
                "`{text}` is not a size; sizes look like 64, 4KiB, 1MB"
            ));
        }
    };
    let bytes = if let Ok(whole) = number.parse::<u64>() {
        whole.checked_mul(factor)
    } else {
        let scaled = number
            .parse::<f64>()
            .map_err(|_| format!("`{text}` is not a size; sizes look like 64, 4KiB, 1MB"))?
            * factor as f64;
        (scaled.fract() == 0.0 && scaled < 9.0e15).then_some(scaled as u64)
    };
    bytes.ok_or_else(|| format!("`{text}` is not a whole number of bytes below 2^64"))
}

/// A list of sizes; `64..1024` doubles.
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn sizes(text: &str) -> Result<List<u64>, String> {
    list(text, size)
}

/// A list of counts from 1: `1,2,4` or `1..8` (doubling).
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn counts(text: &str) -> Result<List<u64>, String> {
    list(text, count)
}

/// A count, at least 1.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn count(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("0 is too few; at least 1".into()),
        Ok(n) if n <= u64::from(u32::MAX) => Ok(n),
        Ok(n) => Err(format!("{n} is more than {}", u32::MAX)),
        Err(_) => Err(format!("`{text}` is not a count (1, 2, 3 …)")),
    }
}

/// Threads: a count of at most [`threads_max`].
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn threads(text: &str) -> Result<u64, String> {
    let most = u64::from(threads_max().get());
    let threads = count(text)?;
    (threads <= most)
        .then_some(threads)
        .ok_or_else(|| format!("{threads} threads are too many; at most {most} on this machine"))
}

/// A list of numbers of threads: `1,2,4` or `1..8` (doubling).
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn thread_counts(text: &str) -> Result<List<u64>, String> {
    list(text, threads)
}

/// An agent's address: `host:port`, `[::1]:7400`.
///
/// # Errors
/// A sentence that says what is missing.
pub fn address(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    let is_whole =
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    is_whole
        .then(|| text.to_owned())
        .ok_or_else(|| "it needs a host and a port, as in dpu:7400".to_owned())
}

/// A list of fractions in (0, 1]: `0.001,0.01`.
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn fractions(text: &str) -> Result<List<f64>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        match part.trim().parse::<f64>() {
            Ok(value) if value > 0.0 && value <= 1.0 => values.push(value),
            Ok(value) => return Err(format!("{value} is not above 0 and at most 1")),
            Err(_) => return Err(format!("`{part}` is not a number")),
        }
    }
    Ok(List(values))
}

/// A list of words: `cpu/portable,pool/2`.
///
/// # Errors
/// If a word is empty.
pub fn words(text: &str) -> Result<List<String>, String> {
    let words: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    if words.iter().any(String::is_empty) {
        return Err(format!("`{text}`: a name is missing beside a comma"));
    }
    Ok(List(words))
}

/// Times are below so many seconds, a third of a year.
pub const DURATION_S_MAX: f64 = 1e7;

/// A time above zero: `0.2` (seconds), `200ms`, `2s`, `1m`.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_s = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "`{text}` is not a time; times look like 0.2, 200ms, 2s, 1m"
            ));
        }
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value * unit_s < DURATION_S_MAX => {
            Ok(Duration::from_secs_f64(value * unit_s))
        }
        Ok(value) => Err(format!("{value}{unit} is not a time above zero")),
        Err(_) => Err(format!(
            "`{text}` is not a time; times look like 0.2, 200ms, 2s, 1m"
        )),
    }
}

/// A list of times.
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn durations(text: &str) -> Result<List<Duration>, String> {
    let values: Result<Vec<Duration>, String> =
        text.split(',').map(|part| duration(part.trim())).collect();
    values.map(List)
}

/// A share of something, from 0 to below 1: `0.05`, `5%`.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let wrong = || format!("`{text}` is not a share; shares look like 0.05, 5%");
    let share = number.parse::<f64>().map_err(|_| wrong())? * factor;
    (0.0..1.0)
        .contains(&share)
        .then_some(share)
        .ok_or_else(wrong)
}

/// How much worse something may get: `worse:5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    worse: f64,
}

impl Regression {
    /// Whether something that is surely worse is so by as much; `gain` is below 1 then.
    pub fn is_met(self, gain: f64, is_worse: bool) -> bool {
        is_worse && 1.0 / gain >= 1.0 + self.worse
    }
}

impl FromStr for Regression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let worse = text.strip_prefix("worse:").map(share);
        let wrong = || format!("`{text}` is no limit; limits look like worse:5%");
        Ok(Self {
            worse: worse.ok_or_else(wrong)??,
        })
    }
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} % or more", self.worse * 100.0)
    }
}

/// Events a second, above zero: `5000`, `1e6`, `2.5M`.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        Some('G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value * factor),
        Ok(value) => Err(format!("{value} is not a rate above zero")),
        Err(_) => Err(format!(
            "`{text}` is not a rate; rates look like 5000, 1e6, 2.5M"
        )),
    }
}

/// A list of rates.
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn rates(text: &str) -> Result<List<f64>, String> {
    let values: Result<Vec<f64>, String> = text.split(',').map(|part| rate(part.trim())).collect();
    values.map(List)
}

/// A list of numbers from 0, such as cores: `0,2,4`.
///
/// # Errors
/// A sentence that says which part is wrong.
pub fn numbers(text: &str) -> Result<List<u64>, String> {
    let parse = |part: &str| {
        let number = part.trim().parse::<u32>();
        number
            .map(u64::from)
            .map_err(|_| format!("`{part}` is not a number (0, 1, 2 …)"))
    };
    text.split(',')
        .map(parse)
        .collect::<Result<_, _>>()
        .map(List)
}

/// Comma-separated values and doubling ranges of what `parse` reads.
fn list(text: &str, parse: fn(&str) -> Result<u64, String>) -> Result<List<u64>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        match part.split_once("..") {
            None => values.push(parse(part)?),
            Some((first, last)) => {
                let (first, last) = (parse(first)?, parse(last.trim_start_matches('='))?);
                if first == 0 || first > last {
                    return Err(format!(
                        "`{part}`: a range doubles upwards from a value above zero"
                    ));
                }
                values.extend(
                    std::iter::successors(Some(first), |value| value.checked_mul(2))
                        .take_while(|&value| value <= last),
                );
            }
        }
    }
    Ok(List(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64"), Ok(64));
        assert_eq!(size("4KiB"), Ok(4096));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("0"), Ok(0));
        assert!(size("4K").unwrap_err().contains("4KiB"));
        for wrong in [
            "",
            "B",
            "-1",
            "1.0001KiB",
            "99999999999TB",
            "12 apples",
            "1e3",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_and_ranges_sweep() {
        assert_eq!(sizes("64..1024"), Ok(List(vec![64, 128, 256, 512, 1024])));
        assert_eq!(sizes("64..1000"), Ok(List(vec![64, 128, 256, 512])));
        assert_eq!(
            sizes("1,1KiB..4KiB,7"),
            Ok(List(vec![1, 1024, 2048, 4096, 7]))
        );
        assert_eq!(counts("1,2,4"), Ok(List(vec![1, 2, 4])));
        for wrong in [
            "",
            "1,,2",
            "0..4",
            "8..4",
            "0",
            "-1",
            "x",
            "1..",
            "4294967296",
        ] {
            assert!(counts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn threads_have_a_bound() {
        assert_eq!(thread_counts("1..4"), Ok(List(vec![1, 2, 4])));
        assert_eq!(threads("1024"), Ok(1024));
        for wrong in ["0", "100000", "4294967295"] {
            assert!(threads(wrong).is_err(), "{wrong}");
            assert!(thread_counts(&format!("1,{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn regressions_have_a_size() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0"), Ok(0.0));
        for wrong in ["", "%", "1", "150%", "-1%", "NaN", "five"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        let limit: Regression = "worse:5%".parse().expect("a limit");
        // As fast as 1 / 1.06 of before takes 6 % longer.
        assert!(limit.is_met(1.0 / 1.06, true));
        assert!(!limit.is_met(1.0 / 1.04, true));
        assert!(!limit.is_met(1.0 / 1.06, false));
        assert!("better:5%".parse::<Regression>().is_err());
    }

    #[test]
    fn an_address_has_a_port() {
        for right in ["dpu:7400", "127.0.0.1:1", "[::1]:7400"] {
            assert_eq!(address(right).as_deref(), Ok(right));
        }
        for wrong in ["127.0.0.1", "", ":7400", "dpu:", "dpu:70000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fractions_times_and_rates() {
        assert_eq!(fractions("0.001,1"), Ok(List(vec![0.001, 1.0])));
        for wrong in ["0", "-0.1", "1.5", "NaN", "", "inf"] {
            assert!(fractions(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["0", "-1s", "NaN", "5 parsecs", "", "inf"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rate("2.5M"), Ok(2.5e6));
        assert_eq!(rate("1e6"), Ok(1e6));
        for wrong in ["0", "-5", "NaN", "", "M", "inf"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
