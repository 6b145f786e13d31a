//! The blocks of instructions that the emulator's plugin recorded, and the stretches that are put together from them.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result};

/// Two blocks are one stretch if this share of the executions of either is one behind the other.
const TOGETHER: f64 = 0.9;
/// Instructions of a stretch, at most: more than any core has in flight, and llvm-mca takes some microseconds for each.
const LONGEST: usize = 1024;
/// Hexadecimal digits of an instruction.
pub(super) const DIGITS: usize = 8;

/// Instructions from one branch, or one limit of the emulator's, to the next.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    number: u64,
    times: u64,
    symbol: String,
    code: String,
    /// Blocks that came behind it, and how often each did.
    next: Vec<(u64, u64)>,
}

/// Blocks that are executed one behind the other: a loop's body, or what leads from one loop to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The function that its hottest block is in, as the emulator calls it.
    pub(super) symbol: String,
    /// The instructions, [`DIGITS`] each.
    pub(super) code: String,
    /// Executed instructions in all.
    pub(super) executed: u64,
}

impl Stretch {
    /// Instructions of one execution.
    pub(super) fn instructions(&self) -> usize {
        self.code.len() / DIGITS
    }

    /// Executions: of its blocks, those that are left early have more than those behind them.
    pub(super) fn times(&self) -> f64 {
        self.executed as f64 / self.instructions() as f64
    }
}

impl Block {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let times = words.next()?.parse().ok()?;
        let symbol = words.next()?.to_owned();
        let code = words.next()?.to_owned();
        let next = words.map(|word| {
            let (number, times) = word.split_once(':')?;
            Some((number.parse().ok()?, times.parse().ok()?))
        });
        let next = next.collect::<Option<_>>()?;
        let is_whole = !code.is_empty() && code.len().is_multiple_of(DIGITS);
        is_whole.then_some(Self {
            number,
            times,
            symbol,
            code,
            next,
        })
    }

    fn executed(&self) -> u64 {
        self.times * (self.code.len() / DIGITS) as u64
    }
}

/// The stretches of what the plugin wrote, the one with the most executed instructions first.
///
/// # Errors
/// A line that is not the plugin's.
pub(super) fn stretches(recorded: &str) -> Result<Vec<Stretch>> {
    let parse = |line| Block::parse(line).with_context(|| format!("no block: {line}"));
    let blocks: Vec<Block> = recorded.lines().map(parse).collect::<Result<_>>()?;
    Ok(Parts::new(blocks).stretches())
}

/// Blocks and what leads from one to another.
struct Parts {
    blocks: Vec<Block>,
    /// By block: blocks that almost always come behind it, and only behind it.
    after: BTreeMap<usize, usize>,
    before: BTreeMap<usize, usize>,
}

impl Parts {
    fn new(mut blocks: Vec<Block>) -> Self {
        blocks.sort_by_key(|block| (std::cmp::Reverse(block.executed()), block.number));
        let at: BTreeMap<u64, usize> = blocks.iter().map(|block| block.number).zip(0..).collect();
        let (mut after, mut before) = (BTreeMap::new(), BTreeMap::new());
        for (from, block) in blocks.iter().enumerate() {
            for (number, times) in &block.next {
                let Some(&to) = at.get(number) else {
                    continue;
                };
                let most = block.times.max(blocks[to].times);
                if *times as f64 >= TOGETHER * most as f64 {
                    after.insert(from, to);
                    before.insert(to, from);
                }
            }
        }
        Self {
            blocks,
            after,
            before,
        }
    }

    fn stretches(&self) -> Vec<Stretch> {
        let mut is_taken = vec![false; self.blocks.len()];
        let mut stretches = Vec::new();
        for seed in 0..self.blocks.len() {
            if is_taken[seed] {
                continue;
            }
            is_taken[seed] = true;
            let mut members = VecDeque::from([seed]);
            let mut instructions = self.instructions(seed);
            let mut fits = |at: usize| {
                let is_free = !is_taken[at] && instructions + self.instructions(at) <= LONGEST;
                if is_free {
                    is_taken[at] = true;
                    instructions += self.instructions(at);
                }
                is_free
            };
            let mut last = seed;
            while let Some(&next) = self.after.get(&last) {
                if !fits(next) {
                    break;
                }
                members.push_back(next);
                last = next;
            }
            let mut first = seed;
            while let Some(&previous) = self.before.get(&first) {
                if !fits(previous) {
                    break;
                }
                members.push_front(previous);
                first = previous;
            }
            let of = |at: &usize| &self.blocks[*at];
            stretches.push(Stretch {
                symbol: self.blocks[seed].symbol.clone(),
                code: members.iter().map(|at| of(at).code.as_str()).collect(),
                executed: members.iter().map(|at| of(at).executed()).sum(),
            });
        }
        stretches.sort_by_key(|stretch| std::cmp::Reverse(stretch.executed));
        stretches
    }

    fn instructions(&self, at: usize) -> usize {
        self.blocks[at].code.len() / DIGITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of two blocks that is left from its first one, in a loop of its own with what leads to it and from it.
    const RECORDED: &str = "\
7 1000 inner 0000000100000002 8:990 9:10
8 990 inner 00000003 7:990
9 10 outer 00000004 6:9
6 10 outer 00000005 7:10
5 1 start 00000006 6:1
";

    #[test]
    fn blocks_behind_each_other_are_one_stretch_and_loops_are_apart() {
        let stretches = stretches(RECORDED).expect("blocks");
        let short: Vec<(&str, &str, u64)> = stretches
            .iter()
            .map(|it| (it.symbol.as_str(), it.code.as_str(), it.executed))
            .collect();
        assert_eq!(
            short,
            [
                ("inner", "000000010000000200000003", 2990),
                ("outer", "0000000400000005", 20),
                ("start", "00000006", 1),
            ]
        );
        assert_eq!(stretches[0].instructions(), 3);
        assert!((stretches[0].times() - 996.67).abs() < 0.01);
    }

    #[test]
    fn a_line_that_was_cut_off_is_refused() {
        assert!(stretches("7 1000 inner 000000010000000 8:990").is_err());
        assert!(stretches("7 1000 inner").is_err());
        assert!(stretches("7 1000 inner 00000001 8").is_err());
    }
}
