//! Every packet of a trial, and the sum that has to be right.

/// Packets that were dropped, by those who say so: counters of ports and of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Reasons, each with its packets.
    pub reasons: Vec<(String, u64)>,
    /// True if nothing is dropped for another reason: then a packet that is neither delivered nor among these is an error. False for a
    /// system whose counters are not known.
    pub are_complete: bool,
}

impl Drops {
    /// Packets of all reasons.
    pub fn packets(&self) -> u64 {
        self.reasons.iter().map(|(_, packets)| packets).sum()
    }
}

/// What a trial counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that were due.
    pub offered: u64,
    /// Of those, packets that the sending port did not take in time.
    pub refused: u64,
    /// Packets that arrived whole, each counted once.
    pub delivered: u64,
    /// Bytes of their frames.
    pub delivered_bytes: u64,
    /// Whole packets that had arrived before.
    pub duplicates: u64,
    /// Packets of the trial whose stamp or payload had changed.
    pub corrupted: u64,
    /// Packets of others, and of trials before.
    pub foreign: u64,
    /// Whole packets with numbers that were never sent, or that the sending port had refused: the port's or the system's error.
    pub impossible: u64,
    /// All packets that arrived.
    pub received: u64,
    /// Who dropped packets.
    pub drops: Drops,
}

/// An account whose sums are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Packets that were due.
    pub offered: u64,
    /// Packets that were delivered.
    pub delivered: u64,
    /// Packets that were not, whoever lost them: refused, dropped, or delivered with other bytes.
    pub lost: u64,
    /// Of the lost ones, packets that no counter knows of, and that did not arrive corrupted.
    pub unexplained: u64,
}

impl Balance {
    /// The lost packets, as a part of the offered ones; zero if there were none.
    pub fn loss_ratio(&self) -> f64 {
        match self.offered {
            0 => 0.0,
            offered => self.lost as f64 / offered as f64,
        }
    }
}

/// Why an account is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Imbalance {
    /// More was refused and delivered than was offered.
    #[error("{refused} packets refused and {delivered} delivered of {offered} offered")]
    TooMany {
        /// Packets that were due.
        offered: u64,
        /// Packets that the port did not take.
        refused: u64,
        /// Packets that arrived.
        delivered: u64,
    },
    /// Counters say that more was dropped than is missing, or less although they are complete.
    #[error(
        "{missing} packets are missing, of which {corrupted} may have arrived corrupted, and counters of drops say {dropped}: {reasons}"
    )]
    Drops {
        /// Packets that were sent and did not arrive whole.
        missing: u64,
        /// Packets that arrived with other bytes.
        corrupted: u64,
        /// Packets of all reasons.
        dropped: u64,
        /// The reasons.
        reasons: String,
    },
    /// Packets arrived that were not sent.
    #[error("{0} packets arrived whole that were never sent")]
    Impossible(u64),
    /// Packets that arrived are none of what a packet can be.
    #[error(
        "{received} packets arrived, and {sum} are delivered, duplicate, corrupted, foreign or impossible"
    )]
    Received {
        /// Packets that arrived.
        received: u64,
        /// The sum of what they were.
        sum: u64,
    },
}

impl Account {
    /// Adds everything up: offered = refused + delivered + dropped, received = delivered + duplicates + corrupted + foreign.
    ///
    /// A packet that arrived corrupted is missing, or it is a corrupted copy of one that is not: its number cannot be trusted. So of the missing
    /// packets as many as were corrupted may be without a reason.
    ///
    /// # Errors
    /// [`Imbalance`]: then nothing of the trial counts.
    pub fn balance(&self) -> Result<Balance, Imbalance> {
        let Self {
            offered,
            refused,
            delivered,
            corrupted,
            received,
            ..
        } = *self;
        if self.impossible > 0 {
            return Err(Imbalance::Impossible(self.impossible));
        }
        let sum = delivered + self.duplicates + corrupted + self.foreign;
        if received != sum {
            return Err(Imbalance::Received { received, sum });
        }
        let Some(missing) = offered.checked_sub(refused + delivered) else {
            return Err(Imbalance::TooMany {
                offered,
                refused,
                delivered,
            });
        };
        let dropped = self.drops.packets();
        let unexplained = missing.checked_sub(dropped);
        let is_right = |rest: u64| !self.drops.are_complete || rest <= corrupted;
        match unexplained.filter(|rest| is_right(*rest)) {
            Some(rest) => Ok(Balance {
                offered,
                delivered,
                lost: refused + missing,
                unexplained: rest.saturating_sub(corrupted),
            }),
            None => Err(Imbalance::Drops {
                missing,
                corrupted,
                dropped,
                reasons: self.reasons(),
            }),
        }
    }

    fn reasons(&self) -> String {
        let one = |(reason, packets): &(String, u64)| format!("{packets} {reason}");
        let all: Vec<_> = self.drops.reasons.iter().map(one).collect();
        match all.is_empty() {
            true => "none".to_owned(),
            false => all.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            offered: 100,
            refused: 5,
            delivered: 85,
            delivered_bytes: 85 * 60,
            duplicates: 3,
            corrupted: 2,
            foreign: 4,
            impossible: 0,
            received: 94,
            drops: Drops {
                reasons: vec![("no room".to_owned(), 8)],
                are_complete: true,
            },
        }
    }

    #[test]
    fn a_sum_that_is_right() {
        let balance = account().balance().expect("right");
        assert_eq!(
            (balance.delivered, balance.lost, balance.unexplained),
            (85, 15, 0)
        );
        assert!((balance.loss_ratio() - 0.15).abs() < 1e-12);
        assert_eq!(
            Account::default().balance().expect("nothing").loss_ratio(),
            0.0
        );
    }

    #[test]
    fn sums_that_are_wrong() {
        type Spoil = fn(&mut Account);
        let wrong: [(&str, Spoil); 5] = [
            ("never sent", |account| account.impossible = 1),
            ("95 packets arrived", |account| account.received = 95),
            ("5 packets refused and 96", |account| {
                account.delivered = 96;
                account.received = 105;
            }),
            // Ten are missing, two of them corrupted: eight had to be dropped.
            ("say 7: 7 no room", |account| account.drops.reasons[0].1 = 7),
            ("say 11: 11 no room", |account| {
                account.drops.reasons[0].1 = 11
            }),
        ];
        for (why, spoil) in wrong {
            let mut account = account();
            spoil(&mut account);
            let error = account.balance().expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_system_without_counters_may_lose_in_silence() {
        let mut account = account();
        account.drops = Drops::default();
        assert_eq!(account.balance().expect("right").unexplained, 8);
        account.drops.are_complete = true;
        assert!(account.balance().is_err());
    }
}
