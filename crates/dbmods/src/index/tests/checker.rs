//! A checker of histories: is every read a read of one state, and of one that its moment allows?
//!
//! Transactions have numbers, which order them, so a state is "the first n transactions". A read of a state must see, of each key, what the last of
//! these that wrote the key left. It must be possible for it to see at least all transactions that had ended when it began, and none that began after
//! it ended. This is snapshot isolation for transactions that write without reading, with the order of real time (strict serialisability of each
//! read).

use std::collections::HashMap;

/// A transaction that was committed.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) number: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Keys and what they were given, the value a number that no other transaction gives; `None` was taken away.
    pub(super) writes: Vec<(u64, Option<u64>)>,
}

/// A read, of one key or of many.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) seen: Vec<(u64, Option<u64>)>,
}

/// States by how many transactions they have: first and last of each range.
type States = Vec<(usize, usize)>;

/// Says what is wrong with the first read or transaction that cannot be.
pub(super) fn check(transactions: &[Transaction], reads: &[Read]) -> Result<(), String> {
    let mut ordered = transactions.to_vec();
    ordered.sort_by_key(|transaction| transaction.number);
    check_order(&ordered)?;
    let mut versions: HashMap<u64, Vec<(usize, Option<u64>)>> = HashMap::new();
    for (at, transaction) in ordered.iter().enumerate() {
        for (key, value) in &transaction.writes {
            let of_key = versions.entry(*key).or_default();
            // The last write of a key in a transaction counts.
            if of_key.last().is_some_and(|(last, _)| *last == at) {
                of_key.pop();
            }
            of_key.push((at, *value));
        }
    }
    for read in reads {
        check_read(read, &ordered, &versions)?;
    }
    Ok(())
}

fn check_order(ordered: &[Transaction]) -> Result<(), String> {
    let mut latest = 0;
    for transaction in ordered {
        if transaction.ended < latest {
            return Err(format!(
                "transaction {} began after a later one",
                transaction.number
            ));
        }
        latest = latest.max(transaction.began);
    }
    match ordered
        .windows(2)
        .find(|pair| pair[0].number == pair[1].number)
    {
        Some(pair) => Err(format!(
            "two transactions have the number {}",
            pair[0].number
        )),
        None => Ok(()),
    }
}

fn check_read(
    read: &Read,
    ordered: &[Transaction],
    versions: &HashMap<u64, Vec<(usize, Option<u64>)>>,
) -> Result<(), String> {
    let ended = (ordered.iter()).rposition(|transaction| transaction.ended < read.began);
    let first = ended.map_or(0, |last| last + 1);
    let future = (ordered.iter()).position(|transaction| transaction.began > read.ended);
    let last = future.unwrap_or(ordered.len());
    let mut states: States = vec![(first, last)];
    let none = Vec::new();
    for (key, value) in &read.seen {
        let of_key = versions.get(key).unwrap_or(&none);
        states = both(&states, &states_with(of_key, *value, ordered.len()));
        if states.is_empty() {
            return Err(format!(
                "a read from {} to {} saw {value:?} of key {key}, which fits no state of {first} to {last} transactions that has what it saw before",
                read.began, read.ended
            ));
        }
    }
    Ok(())
}

/// The states in which a key has this value.
fn states_with(versions: &[(usize, Option<u64>)], value: Option<u64>, all: usize) -> States {
    let mut states = Vec::new();
    let mut from = 0;
    let mut had = None;
    for (at, next) in versions {
        if had == value {
            states.push((from, *at));
        }
        (from, had) = (at + 1, *next);
    }
    if had == value {
        states.push((from, all));
    }
    states
}

fn both(left: &States, right: &States) -> States {
    let mut both = Vec::new();
    for (first, last) in left {
        for (other_first, other_last) in right {
            let (first, last) = (*first.max(other_first), *last.min(other_last));
            if first <= last {
                both.push((first, last));
            }
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(number: u64, began: u64, writes: &[(u64, Option<u64>)]) -> Transaction {
        Transaction {
            number,
            began,
            ended: began + 1,
            writes: writes.to_vec(),
        }
    }

    /// Two keys, both written by three transactions.
    fn three() -> Vec<Transaction> {
        vec![
            transaction(7, 10, &[(1, Some(11)), (2, Some(12))]),
            transaction(8, 20, &[(1, Some(21)), (2, None)]),
            transaction(9, 30, &[(1, Some(31)), (2, Some(32))]),
        ]
    }

    fn saw(began: u64, ended: u64, seen: &[(u64, Option<u64>)]) -> bool {
        let seen = seen.to_vec();
        check(&three(), &[Read { began, ended, seen }]).is_ok()
    }

    #[test]
    fn takes_reads_of_one_state() {
        assert!(saw(0, 1, &[(1, None), (2, None), (3, None)]));
        assert!(saw(12, 15, &[(1, Some(11)), (2, Some(12))]));
        assert!(saw(0, 40, &[(2, None), (1, Some(21))]));
        assert!(saw(25, 40, &[(2, None), (1, Some(21))]));
        assert!(saw(25, 40, &[(2, Some(32)), (1, Some(31))]));
        // One that overlaps a transaction may see it or not.
        assert!(saw(20, 20, &[(1, Some(11))]) && saw(20, 20, &[(1, Some(21))]));
    }

    #[test]
    fn finds_reads_of_two_states() {
        assert!(!saw(0, 40, &[(1, Some(11)), (2, None)]));
        assert!(!saw(0, 40, &[(1, Some(31)), (2, Some(12))]));
        assert!(!saw(0, 40, &[(1, Some(11)), (1, Some(21))]));
    }

    #[test]
    fn finds_reads_of_the_past_and_of_the_future() {
        assert!(!saw(25, 40, &[(1, Some(11))]));
        assert!(!saw(32, 40, &[(2, None)]));
        assert!(!saw(0, 5, &[(1, Some(11))]));
        assert!(!saw(12, 15, &[(2, Some(32))]));
    }

    #[test]
    fn finds_values_that_nobody_wrote() {
        assert!(!saw(0, 40, &[(1, Some(99))]));
        assert!(!saw(0, 40, &[(1, Some(12))]));
        assert!(!saw(0, 40, &[(3, Some(11))]));
    }

    #[test]
    fn finds_transactions_out_of_order() {
        let mut transactions = three();
        transactions[0].number = 10;
        assert!(check(&transactions, &[]).is_err());
        transactions[0].number = 9;
        assert!(check(&transactions, &[]).is_err());
    }
}
