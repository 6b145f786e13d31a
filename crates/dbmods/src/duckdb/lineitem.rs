//! TPC-H's `lineitem` as a table function: generated on threads of its own, handed to DuckDB in the generator's order.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tpchgen::generators::{LineItem, LineItemGenerator};

use super::raw::Physical;
use super::source::{Feed, Page, Source};

/// Orders at scale factor 1 (TPC-H, clause 4.2.5.1); each has one to seven lines, four on average.
pub(super) const ORDERS: f64 = 1_500_000.0;

/// Orders that one thread generates at a time.
const ORDERS_PER_PART: f64 = 10_000.0;

/// The number of rows that a thread hands over at once.
const BLOCK_ROWS: usize = 2048;

/// Blocks that a thread may be ahead: a part and a half, so that no thread waits for its turn for long.
const BLOCKS_AHEAD: usize = 32;

const MONEY: Physical = Physical::Decimal {
    precision: 15,
    scale: 2,
    bytes: 8,
};

/// The columns of `lineitem`.
const COLUMNS: [(&str, Physical); 16] = [
    ("l_orderkey", Physical::I64),
    ("l_partkey", Physical::I64),
    ("l_suppkey", Physical::I64),
    ("l_linenumber", Physical::I32),
    ("l_quantity", MONEY),
    ("l_extendedprice", MONEY),
    ("l_discount", MONEY),
    ("l_tax", MONEY),
    ("l_returnflag", Physical::Text),
    ("l_linestatus", Physical::Text),
    ("l_shipdate", Physical::Date),
    ("l_commitdate", Physical::Date),
    ("l_receiptdate", Physical::Date),
    ("l_shipinstruct", Physical::Text),
    ("l_shipmode", Physical::Text),
    ("l_comment", Physical::Text),
];

/// A statement that makes the table from what `source` gives.
pub(super) fn create_table(source: &str) -> String {
    format!("CREATE TABLE lineitem AS SELECT * FROM {source}")
}

/// `lineitem` at one scale factor.
pub(super) struct Lineitem {
    scale_factor: f64,
    threads: usize,
    generated: Arc<AtomicU64>,
}

/// The rows in order: part after part, each from the thread that generates it.
struct InOrder {
    /// One lane a thread; part *p* comes by lane *p* mod their number. An empty block ends a part.
    lanes: Vec<Receiver<Block>>,
    part: usize,
    parts: usize,
    block: Block,
    taken: usize,
    generated: Arc<AtomicU64>,
}

type Block = Vec<LineItem<'static>>;

impl Lineitem {
    /// `generated` counts the rows that were handed over.
    pub(super) fn new(scale_factor: f64, threads: usize, generated: Arc<AtomicU64>) -> Self {
        Self {
            scale_factor,
            threads: threads.max(1),
            generated,
        }
    }
}

impl Source for Lineitem {
    fn columns(&self) -> &[(&'static str, Physical)] {
        &COLUMNS
    }

    /// One, because this API has no way to say which rows come before which.
    fn threads_max(&self) -> usize {
        1
    }

    fn open(&self) -> Box<dyn Feed> {
        let parts = (self.scale_factor * ORDERS / ORDERS_PER_PART)
            .ceil()
            .max(1.0) as usize;
        let lanes = (0..self.threads.min(parts))
            .map(|lane| {
                let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
                let (scale_factor, threads) = (self.scale_factor, self.threads);
                // Ends by itself once the receiver is gone.
                thread::spawn(move || {
                    (lane..parts)
                        .step_by(threads)
                        .try_for_each(|part| generate(scale_factor, part, parts, &sender))
                });
                receiver
            })
            .collect();
        Box::new(InOrder {
            lanes,
            part: 0,
            parts,
            block: Block::new(),
            taken: 0,
            generated: Arc::clone(&self.generated),
        })
    }
}

/// Sends a part's rows and an empty block; `None` if nobody listens any more.
fn generate(scale_factor: f64, part: usize, parts: usize, to: &SyncSender<Block>) -> Option<()> {
    let mut rows = LineItemGenerator::new(scale_factor, part as i32 + 1, parts as i32).iter();
    loop {
        let block: Block = rows.by_ref().take(BLOCK_ROWS).collect();
        let is_end = block.is_empty();
        to.send(block).ok()?;
        if is_end {
            return Some(());
        }
    }
}

impl InOrder {
    /// Returns the rows that were not yet handed over; none at the end.
    fn pending(&mut self) -> Result<&[LineItem<'static>], String> {
        while self.taken == self.block.len() && self.part < self.parts {
            let lane = &self.lanes[self.part % self.lanes.len()];
            self.block = lane
                .recv()
                .map_err(|_| "the generator of lineitem ended early")?;
            self.taken = 0;
            self.part += usize::from(self.block.is_empty());
        }
        Ok(&self.block[self.taken..])
    }
}

impl Feed for InOrder {
    fn fill(&mut self, page: &mut Page<'_>) -> Result<usize, String> {
        let pending = self.pending()?;
        let lines = &pending[..pending.len().min(page.rows_max())];
        write(lines, page);
        let rows = lines.len();
        self.taken += rows;
        self.generated.fetch_add(rows as u64, Relaxed);
        Ok(rows)
    }
}

/// Writes `lines` column by column, in the order of [`COLUMNS`].
fn write(lines: &[LineItem<'static>], page: &mut Page<'_>) {
    let mut longs = |i, value: fn(&LineItem<'_>) -> i64| page.set(i, lines.iter().map(value));
    longs(0, |line| line.l_orderkey);
    longs(1, |line| line.l_partkey);
    longs(2, |line| line.l_suppkey);
    longs(4, |line| line.l_quantity * 100);
    longs(5, |line| line.l_extendedprice.into_inner());
    longs(6, |line| line.l_discount.into_inner());
    longs(7, |line| line.l_tax.into_inner());
    let mut ints = |i, value: fn(&LineItem<'_>) -> i32| page.set(i, lines.iter().map(value));
    ints(3, |line| line.l_linenumber);
    ints(10, |line| line.l_shipdate.to_unix_epoch());
    ints(11, |line| line.l_commitdate.to_unix_epoch());
    ints(12, |line| line.l_receiptdate.to_unix_epoch());
    page.set_texts(8, lines.iter().map(|line| line.l_returnflag));
    page.set_texts(9, lines.iter().map(|line| line.l_linestatus));
    page.set_texts(13, lines.iter().map(|line| line.l_shipinstruct));
    page.set_texts(14, lines.iter().map(|line| line.l_shipmode));
    page.set_texts(15, lines.iter().map(|line| line.l_comment));
}
