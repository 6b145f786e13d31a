//! Rows of the generator as columns, and where in the generator's parts a row group begins.
//!
//! tpchgen makes any part of a table by itself, but a part of lineitem is so many *orders*. Row groups of exactly so many
//! rows are therefore cut from small parts: [`Cuts`] counts each part's rows (for lineitem from the generator's own stream
//! of line counts, which costs nanoseconds an order) and says in which part a row group begins and how many of its rows come
//! before. A group then depends on nothing but its number, so the file is the same whatever the number of threads.

use std::fmt::Display;
use std::ops::RangeInclusive;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::random::RandomBoundedInt;

use crate::table::encode::{Texts, Values};

/// The name and version of the generator, as dpb's manifest has them.
pub const GENERATOR: &str = "tpchgen 4.0.0";

/// Scale factors that can be asked for.
pub const SCALE_FACTORS: std::ops::RangeInclusive<f64> = 0.001..=10_000.0;

/// The approximate number of rows of a part. Parts are small, since a group generates and drops what lies before it in its first part.
const PART_ROWS: i64 = 1024;

/// The number of rows that a table has for each step of its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// This many steps at any scale factor, one row each.
    Fixed(i64),
    /// This many steps at scale factor 1, so many rows each.
    Scaled(i32, i64),
    /// Each step is an order, which has 1 to 7 rows.
    Lines,
}

impl Steps {
    /// The number of steps, and of the rows of each, for lineitem about.
    fn total(self, scale_factor: f64) -> (i64, i64) {
        match self {
            Self::Fixed(total) => (total, 1),
            Self::Scaled(base, rows) => ((base as f64 * scale_factor) as i64, rows),
            Self::Lines => ((OrderGenerator::SCALE_BASE as f64 * scale_factor) as i64, 4),
        }
    }
}

/// How many rows the generator makes of a table: so many exactly, or for a lineitem that would take seconds to count (above
/// scale factor 10) a range that is certain. `None` for what dpb does not generate.
pub fn row_count(table: &str, scale_factor: f64) -> Option<RangeInclusive<u64>> {
    const COUNTED_MAX: f64 = 10.0;
    if !super::TABLES.contains(&table) || !SCALE_FACTORS.contains(&scale_factor) {
        return None;
    }
    let steps = steps(table);
    let (total, rows_per_step) = steps.total(scale_factor);
    if steps != Steps::Lines {
        let rows = (total * rows_per_step) as u64;
        return Some(rows..=rows);
    }
    if scale_factor <= COUNTED_MAX {
        let mut line_counts = OrderGenerator::create_line_count_random();
        let counts = (0..total).map(|_| {
            let rows = line_counts.next_value() as u64;
            line_counts.row_finished();
            rows
        });
        let rows = counts.sum();
        return Some(rows..=rows);
    }
    // An order has 1 to 7 lines, all alike: a standard deviation of 2. Eight of the sum's are more than chance gives.
    let (mean, off) = (
        total as f64 * rows_per_step as f64,
        16.0 * (total as f64).sqrt(),
    );
    Some((mean - off) as u64..=(mean + off) as u64)
}

/// The place in the generator's parts at which a row group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The index of the row group.
    pub(super) group: u32,
    /// The number of rows of the row group.
    pub(super) rows: usize,
    /// The generator's part (from 1) with its first row.
    part: i32,
    /// The number of rows of that part before the row group.
    skip: usize,
}

/// The row groups of a table, in order.
#[derive(Debug)]
pub(super) struct Cuts {
    steps: Steps,
    total: i64,
    part_count: i32,
    group_rows: usize,
    line_counts: RandomBoundedInt,
    group: u32,
    /// The next row is this part's …
    part: i32,
    /// … row after so many …
    skip: usize,
    /// … of so many.
    part_rows: usize,
}

impl Cuts {
    /// Of a table of [`super::TABLES`], in row groups of `group_rows` rows, the last one shorter.
    pub(super) fn new(table: &str, scale_factor: f64, group_rows: usize) -> Self {
        let steps = steps(table);
        let (total, rows_per_step) = steps.total(scale_factor);
        let part_count = match steps {
            Steps::Fixed(_) => 1,
            _ => (total * rows_per_step / PART_ROWS).clamp(1, i32::MAX as i64) as i32,
        };
        let mut cuts = Self {
            steps,
            total,
            part_count,
            group_rows,
            line_counts: OrderGenerator::create_line_count_random(),
            group: 0,
            part: 1,
            skip: 0,
            part_rows: 0,
        };
        cuts.part_rows = cuts.count_part();
        cuts
    }

    /// The number of parts that [`fill`] asks the generator for.
    pub(super) fn part_count(&self) -> i32 {
        self.part_count
    }

    /// Rows of `self.part`; called once a part, in order.
    fn count_part(&mut self) -> usize {
        let count = self.part_count as i64;
        let last = if self.part as i64 == count {
            self.total % count
        } else {
            0
        };
        let steps = self.total / count + last;
        match self.steps {
            Steps::Fixed(_) => steps as usize,
            Steps::Scaled(_, rows) => (steps * rows) as usize,
            Steps::Lines => {
                let mut rows = 0;
                for _ in 0..steps {
                    rows += self.line_counts.next_value() as usize;
                    self.line_counts.row_finished();
                }
                rows
            }
        }
    }
}

impl Iterator for Cuts {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        let mut cut = Cut {
            group: self.group,
            rows: 0,
            part: self.part,
            skip: self.skip,
        };
        while cut.rows < self.group_rows && self.part <= self.part_count {
            let rows = (self.part_rows - self.skip).min(self.group_rows - cut.rows);
            cut.rows += rows;
            self.skip += rows;
            if self.skip == self.part_rows {
                self.part += 1;
                self.skip = 0;
                self.part_rows = if self.part <= self.part_count {
                    self.count_part()
                } else {
                    0
                };
            }
        }
        self.group += 1;
        (cut.rows > 0).then_some(cut)
    }
}

fn steps(table: &str) -> Steps {
    match table {
        "region" => Steps::Fixed(5),
        "nation" => Steps::Fixed(25),
        "supplier" => Steps::Scaled(10_000, 1),
        "customer" => Steps::Scaled(150_000, 1),
        "part" => Steps::Scaled(200_000, 1),
        "partsupp" => Steps::Scaled(200_000, 4),
        "orders" => Steps::Scaled(OrderGenerator::SCALE_BASE, 1),
        "lineitem" => Steps::Lines,
        _ => panic!("TPC-H has no table {table}"),
    }
}

/// Puts the rows of a row group into `columns`, which lose what they had.
pub(super) fn fill(
    table: &str,
    scale_factor: f64,
    part_count: i32,
    cut: Cut,
    columns: &mut [Values],
) {
    columns.iter_mut().for_each(Values::clear);
    let (mut part, mut skip) = (cut.part, cut.skip);
    while columns[0].len() < cut.rows {
        let rows = PartRows {
            scale_factor,
            part,
            part_count,
            skip,
            take: cut.rows - columns[0].len(),
        };
        fill_part(table, &rows, columns);
        part += 1;
        skip = 0;
    }
}

/// Rows of a part of a table: at most `take`, after its first `skip`.
struct PartRows {
    scale_factor: f64,
    part: i32,
    part_count: i32,
    skip: usize,
    take: usize,
}

/// A function that appends rows of a part of a table to columns.
macro_rules! filler {
    ($table:ident, $generator:ident, |$row:ident, $put:ident| $body:block) => {
        fn $table(rows: &PartRows, columns: &mut [Values]) {
            let generator = $generator::new(rows.scale_factor, rows.part, rows.part_count);
            for $row in generator.iter().skip(rows.skip).take(rows.take) {
                let mut $put = Row(columns.iter_mut());
                $body
            }
        }
    };
}

filler!(region, RegionGenerator, |row, put| {
    put.number(row.r_regionkey);
    put.text(row.r_name);
    put.text(row.r_comment);
});

filler!(nation, NationGenerator, |row, put| {
    put.number(row.n_nationkey);
    put.text(row.n_name);
    put.number(row.n_regionkey);
    put.text(row.n_comment);
});

filler!(supplier, SupplierGenerator, |row, put| {
    put.number(row.s_suppkey);
    put.display(row.s_name);
    put.display(row.s_address);
    put.number(row.s_nationkey);
    put.display(row.s_phone);
    put.number(row.s_acctbal.0);
    put.text(&row.s_comment);
});

filler!(customer, CustomerGenerator, |row, put| {
    put.number(row.c_custkey);
    put.display(row.c_name);
    put.display(row.c_address);
    put.number(row.c_nationkey);
    put.display(row.c_phone);
    put.number(row.c_acctbal.0);
    put.text(row.c_mktsegment);
    put.text(row.c_comment);
});

filler!(part, PartGenerator, |row, put| {
    put.number(row.p_partkey);
    put.display(row.p_name);
    put.display(row.p_mfgr);
    put.display(row.p_brand);
    put.text(row.p_type);
    put.number(row.p_size as i64);
    put.text(row.p_container);
    put.number(row.p_retailprice.0);
    put.text(row.p_comment);
});

filler!(partsupp, PartSuppGenerator, |row, put| {
    put.number(row.ps_partkey);
    put.number(row.ps_suppkey);
    put.number(row.ps_availqty as i64);
    put.number(row.ps_supplycost.0);
    put.text(row.ps_comment);
});

filler!(orders, OrderGenerator, |row, put| {
    put.number(row.o_orderkey);
    put.number(row.o_custkey);
    put.text(row.o_orderstatus.as_str());
    put.number(row.o_totalprice.0);
    put.number(row.o_orderdate.to_unix_epoch() as i64);
    put.text(row.o_orderpriority);
    put.display(row.o_clerk);
    put.number(row.o_shippriority as i64);
    put.text(row.o_comment);
});

filler!(lineitem, LineItemGenerator, |row, put| {
    put.number(row.l_orderkey);
    put.number(row.l_partkey);
    put.number(row.l_suppkey);
    put.number(row.l_linenumber as i64);
    // Whole units; the column is DECIMAL(15,2).
    put.number(row.l_quantity * 100);
    put.number(row.l_extendedprice.0);
    put.number(row.l_discount.0);
    put.number(row.l_tax.0);
    put.text(row.l_returnflag);
    put.text(row.l_linestatus);
    put.number(row.l_shipdate.to_unix_epoch() as i64);
    put.number(row.l_commitdate.to_unix_epoch() as i64);
    put.number(row.l_receiptdate.to_unix_epoch() as i64);
    put.text(row.l_shipinstruct);
    put.text(row.l_shipmode);
    put.text(row.l_comment);
});

fn fill_part(table: &str, rows: &PartRows, columns: &mut [Values]) {
    match table {
        "region" => region(rows, columns),
        "nation" => nation(rows, columns),
        "supplier" => supplier(rows, columns),
        "customer" => customer(rows, columns),
        "part" => part(rows, columns),
        "partsupp" => partsupp(rows, columns),
        "orders" => orders(rows, columns),
        "lineitem" => lineitem(rows, columns),
        _ => panic!("TPC-H has no table {table}"),
    }
}

/// The next value of each column in turn.
struct Row<'a>(std::slice::IterMut<'a, Values>);

impl Row<'_> {
    fn number(&mut self, value: i64) {
        match self.0.next() {
            Some(Values::Numbers(values)) => values.push(value),
            _ => unreachable!("the schema has a number here"),
        }
    }

    fn text(&mut self, text: &str) {
        self.texts().push(text);
    }

    fn display(&mut self, value: impl Display) {
        self.texts().push_display(value);
    }

    fn texts(&mut self) -> &mut Texts {
        match self.0.next() {
            Some(Values::Texts(texts)) => texts,
            _ => unreachable!("the schema has a text here"),
        }
    }
}
