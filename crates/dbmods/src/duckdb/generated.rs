//! TPC-H's tables as table functions: generated on threads of their own, handed to DuckDB in the generator's order.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order,
    OrderGenerator, Part, PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator,
    Supplier, SupplierGenerator,
};

use super::layout::physical_columns;
use super::raw::Physical;
use super::source::{Feed, Page, Source};
use crate::tpch;

/// The approximate number of rows that one thread generates at a time.
const ROWS_PER_PART: u64 = 40_000;

/// The number of rows that a thread hands over at once.
const BLOCK_ROWS: usize = 2048;

/// Blocks that a thread may be ahead: a part and a half, so that no thread waits for its turn for long.
const BLOCKS_AHEAD: usize = 32;

/// The rows of `table` at this scale factor, made by so many threads; `None` if TPC-H has no such table. `generated` counts the rows
/// that were handed over.
pub(super) fn table(
    table: &str,
    scale_factor: f64,
    threads: usize,
    generated: Arc<AtomicU64>,
) -> Option<Box<dyn Source>> {
    let parts = tpch::rows_expected(table, scale_factor).div_ceil(ROWS_PER_PART);
    let extent = Extent {
        columns: physical_columns(table)?,
        scale_factor,
        threads: threads.max(1),
        parts: parts.max(1) as usize,
        generated,
    };
    Some(match table {
        "region" => Generated::<Region<'static>>::boxed(extent),
        "nation" => Generated::<Nation<'static>>::boxed(extent),
        "supplier" => Generated::<Supplier>::boxed(extent),
        "customer" => Generated::<Customer<'static>>::boxed(extent),
        "part" => Generated::<Part<'static>>::boxed(extent),
        "partsupp" => Generated::<PartSupp<'static>>::boxed(extent),
        "orders" => Generated::<Order<'static>>::boxed(extent),
        "lineitem" => Generated::<LineItem<'static>>::boxed(extent),
        _ => return None,
    })
}

/// A row of a table.
trait Row: Send + Sized + 'static {
    /// The rows of a part, from 1, of so many.
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self>;

    /// Writes rows column by column, in the order of the table's schema.
    fn write(to: &mut Columns<'_, '_, Self>);
}

/// The columns of a table, how much of it there is, and who makes it.
struct Extent {
    columns: Vec<(&'static str, Physical)>,
    scale_factor: f64,
    threads: usize,
    parts: usize,
    generated: Arc<AtomicU64>,
}

/// A table of rows `R`.
struct Generated<R> {
    extent: Extent,
    rows: PhantomData<fn() -> R>,
}

/// The rows in order: part after part, each from the thread that generates it.
struct InOrder<R> {
    /// One lane a thread; part *p* comes by lane *p* mod their number. An empty block ends a part.
    lanes: Vec<Receiver<Vec<R>>>,
    part: usize,
    parts: usize,
    block: Vec<R>,
    taken: usize,
    generated: Arc<AtomicU64>,
}

impl<R: Row> Generated<R> {
    fn boxed(extent: Extent) -> Box<dyn Source> {
        Box::new(Self {
            extent,
            rows: PhantomData,
        })
    }
}

impl<R: Row> Source for Generated<R> {
    fn columns(&self) -> &[(&'static str, Physical)] {
        &self.extent.columns
    }

    /// One, because this API has no way to say which rows come before which.
    fn threads_max(&self) -> usize {
        1
    }

    fn open(&self) -> Box<dyn Feed> {
        let Extent {
            scale_factor,
            threads,
            parts,
            ref generated,
            ..
        } = self.extent;
        let lanes = (0..threads.min(parts))
            .map(|lane| {
                let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
                // Ends by itself once the receiver is gone.
                thread::spawn(move || {
                    (lane..parts)
                        .step_by(threads)
                        .try_for_each(|part| generate::<R>(scale_factor, part, parts, &sender))
                });
                receiver
            })
            .collect();
        Box::new(InOrder::<R> {
            lanes,
            part: 0,
            parts,
            block: Vec::new(),
            taken: 0,
            generated: Arc::clone(generated),
        })
    }
}

/// Sends a part's rows and an empty block; `None` if nobody listens any more.
fn generate<R: Row>(
    scale_factor: f64,
    part: usize,
    parts: usize,
    to: &SyncSender<Vec<R>>,
) -> Option<()> {
    let mut rows = R::generate(scale_factor, part as i32 + 1, parts as i32);
    loop {
        let block: Vec<R> = rows.by_ref().take(BLOCK_ROWS).collect();
        let is_end = block.is_empty();
        to.send(block).ok()?;
        if is_end {
            return Some(());
        }
    }
}

impl<R: Row> InOrder<R> {
    /// Returns the rows that were not yet handed over; none at the end.
    fn pending(&mut self) -> Result<&[R], String> {
        while self.taken == self.block.len() && self.part < self.parts {
            let lane = &self.lanes[self.part % self.lanes.len()];
            self.block = lane.recv().map_err(|_| "the generator ended early")?;
            self.taken = 0;
            self.part += usize::from(self.block.is_empty());
        }
        Ok(&self.block[self.taken..])
    }
}

impl<R: Row> Feed for InOrder<R> {
    fn fill(&mut self, page: &mut Page<'_>) -> Result<usize, String> {
        let pending = self.pending()?;
        let rows = pending.len().min(page.rows_max());
        R::write(&mut Columns {
            rows: &pending[..rows],
            page,
            at: 0,
        });
        self.taken += rows;
        self.generated.fetch_add(rows as u64, Relaxed);
        Ok(rows)
    }
}

/// A page's columns, filled one after another.
struct Columns<'a, 'p, R> {
    rows: &'a [R],
    page: &'a mut Page<'p>,
    at: usize,
}

impl<R> Columns<'_, '_, R> {
    /// The next column, of keys, or of money in cents.
    fn long(&mut self, value: fn(&R) -> i64) {
        self.page.set(self.at, self.rows.iter().map(value));
        self.at += 1;
    }

    /// The next column, of integers, or of dates in days.
    fn int(&mut self, value: fn(&R) -> i32) {
        self.page.set(self.at, self.rows.iter().map(value));
        self.at += 1;
    }

    /// The next column, of texts that are there.
    fn text(&mut self, value: fn(&R) -> &str) {
        self.page.set_texts(self.at, self.rows.iter().map(value));
        self.at += 1;
    }

    /// The next column, of texts that have to be written.
    fn display<D: Display>(&mut self, value: fn(&R) -> &D) {
        let texts = self.rows.iter().map(|row| value(row).to_string());
        self.page.set_texts(self.at, texts);
        self.at += 1;
    }
}

impl Row for Region<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        RegionGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.r_regionkey);
        to.text(|row| row.r_name);
        to.text(|row| row.r_comment);
    }
}

impl Row for Nation<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        NationGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.n_nationkey);
        to.text(|row| row.n_name);
        to.long(|row| row.n_regionkey);
        to.text(|row| row.n_comment);
    }
}

impl Row for Supplier {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        SupplierGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.s_suppkey);
        to.display(|row| &row.s_name);
        to.display(|row| &row.s_address);
        to.long(|row| row.s_nationkey);
        to.display(|row| &row.s_phone);
        to.long(|row| row.s_acctbal.into_inner());
        to.text(|row| &row.s_comment);
    }
}

impl Row for Customer<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        CustomerGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.c_custkey);
        to.display(|row| &row.c_name);
        to.display(|row| &row.c_address);
        to.long(|row| row.c_nationkey);
        to.display(|row| &row.c_phone);
        to.long(|row| row.c_acctbal.into_inner());
        to.text(|row| row.c_mktsegment);
        to.text(|row| row.c_comment);
    }
}

impl Row for Part<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        PartGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.p_partkey);
        to.display(|row| &row.p_name);
        to.display(|row| &row.p_mfgr);
        to.display(|row| &row.p_brand);
        to.text(|row| row.p_type);
        to.int(|row| row.p_size);
        to.text(|row| row.p_container);
        to.long(|row| row.p_retailprice.into_inner());
        to.text(|row| row.p_comment);
    }
}

impl Row for PartSupp<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        PartSuppGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.ps_partkey);
        to.long(|row| row.ps_suppkey);
        to.int(|row| row.ps_availqty);
        to.long(|row| row.ps_supplycost.into_inner());
        to.text(|row| row.ps_comment);
    }
}

impl Row for Order<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        OrderGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.o_orderkey);
        to.long(|row| row.o_custkey);
        to.text(|row| row.o_orderstatus.as_str());
        to.long(|row| row.o_totalprice.into_inner());
        to.int(|row| row.o_orderdate.to_unix_epoch());
        to.text(|row| row.o_orderpriority);
        to.display(|row| &row.o_clerk);
        to.int(|row| row.o_shippriority);
        to.text(|row| row.o_comment);
    }
}

impl Row for LineItem<'static> {
    fn generate(scale_factor: f64, part: i32, parts: i32) -> impl Iterator<Item = Self> {
        LineItemGenerator::new(scale_factor, part, parts).iter()
    }

    fn write(to: &mut Columns<'_, '_, Self>) {
        to.long(|row| row.l_orderkey);
        to.long(|row| row.l_partkey);
        to.long(|row| row.l_suppkey);
        to.int(|row| row.l_linenumber);
        // Whole units; the column has cents.
        to.long(|row| row.l_quantity * 100);
        to.long(|row| row.l_extendedprice.into_inner());
        to.long(|row| row.l_discount.into_inner());
        to.long(|row| row.l_tax.into_inner());
        to.text(|row| row.l_returnflag);
        to.text(|row| row.l_linestatus);
        to.int(|row| row.l_shipdate.to_unix_epoch());
        to.int(|row| row.l_commitdate.to_unix_epoch());
        to.int(|row| row.l_receiptdate.to_unix_epoch());
        to.text(|row| row.l_shipinstruct);
        to.text(|row| row.l_shipmode);
        to.text(|row| row.l_comment);
    }
}
