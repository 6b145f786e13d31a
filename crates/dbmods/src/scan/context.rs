//! The row group that is scanned: its chunks, and the vectors of its current block.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::ScanError;
use super::dag::{Dag, Exact, Node, NodeId, float, power_of_ten, to_double_by};
use super::interval::{Interval, intervals};
use super::kernels::{Kernels, Lanes, Numbers, Packed};
use crate::table::cache::Cache;
use crate::table::chunk::{BLOCK_ROWS, BlockMeta, Chunk};
use crate::table::segment::{ChunkMeta, Segment};

/// The current row group and the vectors of its current block.
pub(super) struct Context {
    kernels: &'static Kernels,
    dag: Arc<Dag>,
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    group: usize,
    chunks: Vec<Option<Arc<Chunk>>>,
    pub(super) bytes_read: u64,
    intervals: Vec<Option<Interval>>,
    lanes: Box<Lanes>,
    /// Raises with every block; a vector with an older stamp is stale.
    pub(super) stamp: u64,
    columns: Vec<Vector>,
    nodes: Vec<Vector>,
}

#[derive(Default)]
struct Vector {
    stamp: u64,
    values: Option<Box<Aligned>>,
}

/// Numbers that begin where a cache line does. Elsewhere each access of 64 bytes touches two lines: Q1's aggregate takes 1.2 times as long.
#[repr(align(64))]
struct Aligned(Numbers);

impl Context {
    /// Of nodes and columns of a segment, before the first row group.
    pub(super) fn new(
        kernels: &'static Kernels,
        dag: Arc<Dag>,
        segment: Arc<Segment>,
        cache: Arc<Cache>,
    ) -> Self {
        let columns = segment.schema().columns.len();
        Self {
            group: 0,
            chunks: vec![None; columns],
            bytes_read: 0,
            intervals: Vec::new(),
            lanes: Lanes::new(),
            stamp: 0,
            columns: (0..columns).map(|_| Vector::default()).collect(),
            nodes: dag.nodes().iter().map(|_| Vector::default()).collect(),
            kernels,
            dag,
            segment,
            cache,
        }
    }

    /// Goes to row group `group`.
    pub(super) fn open(&mut self, group: usize) {
        self.group = group;
        self.stamp += 1;
        self.chunks.fill(None);
        let metas = &self.segment.groups()[group].chunks;
        intervals(&self.dag, metas, &mut self.intervals);
    }

    /// The row group's number.
    pub(super) fn group(&self) -> usize {
        self.group
    }

    /// Rows of the row group.
    pub(super) fn rows(&self) -> usize {
        self.segment.groups()[self.group].rows as usize
    }

    /// The footer's entry of a column of the row group.
    pub(super) fn meta(&self, column: usize) -> &ChunkMeta {
        &self.segment.groups()[self.group].chunks[column]
    }

    /// The instruction set's kernels.
    pub(super) fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Makes the chunk of `column` present.
    pub(super) fn load(&mut self, column: usize) -> Result<&Arc<Chunk>, ScanError> {
        if self.chunks[column].is_none() {
            let chunk = self.segment.chunk(self.group, column, &self.cache)?;
            self.bytes_read += chunk.bytes().len() as u64;
            self.chunks[column] = Some(chunk);
        }
        self.chunk(column)
    }

    /// The chunk of `column`, which [`Context::load`] has made present.
    pub(super) fn chunk(&self, column: usize) -> Result<&Arc<Chunk>, ScanError> {
        self.chunks[column]
            .as_ref()
            .ok_or(ScanError::Internal("a chunk was used before it was loaded"))
    }

    /// A block's directory entry.
    pub(super) fn block(&self, column: usize, block: usize) -> Result<&BlockMeta, ScanError> {
        Ok(&self.chunk(column)?.blocks()[block])
    }

    /// The smallest and largest value that a node can have in this row group; `None` beyond 128 bits.
    pub(super) fn interval(&self, node: NodeId) -> Option<Interval> {
        self.intervals[node]
    }

    /// Makes a column's block present as integers (dictionary: positions).
    pub(super) fn unpack(&mut self, column: usize, block: usize) -> Result<(), ScanError> {
        self.load(column)?;
        if self.columns[column].stamp == self.stamp {
            return Ok(());
        }
        let mut values = self.columns[column].take();
        let kernels = self.kernels;
        let (chunk, lanes) = self.chunk_and_lanes(column)?;
        let meta = &chunk.blocks()[block];
        match packed(chunk, block) {
            Some(packed) => kernels.numbers(packed, meta.min, chunk.unit(), lanes, &mut values),
            None => values.fill(meta.min),
        }
        self.columns[column].put(self.stamp, values);
        Ok(())
    }

    /// The values that [`Context::unpack`] has made present.
    pub(super) fn column(&self, column: usize) -> Result<&Numbers, ScanError> {
        self.columns[column].get(self.stamp)
    }

    /// The chunk of `column`, which [`Context::load`] has made present, and scratch for unpacking it.
    pub(super) fn chunk_and_lanes(
        &mut self,
        column: usize,
    ) -> Result<(&Chunk, &mut Lanes), ScanError> {
        match &self.chunks[column] {
            Some(chunk) => Ok((chunk, &mut self.lanes)),
            None => Err(ScanError::Internal("a chunk was used before it was loaded")),
        }
    }

    /// Makes a node's values present for all rows of the block: integers modulo 2^64, doubles as bits. Not for doubles
    /// that [`Context::may_overflow`]: a row that nobody asks for must not fail.
    pub(super) fn evaluate(&mut self, node: NodeId, block: usize) -> Result<(), ScanError> {
        let kernels = self.kernels;
        match self.dag.nodes()[node] {
            Node::Column(column) => return self.unpack(column, block),
            _ if self.nodes[node].stamp == self.stamp => return Ok(()),
            Node::Constant(value) => self.fill(node, value as i64),
            Node::Double(bits) => self.fill(node, bits as i64),
            Node::Exact(op, left, right) => {
                self.evaluate(left, block)?;
                self.evaluate(right, block)?;
                let mut out = self.nodes[node].take();
                let (left, right) = (self.values(left)?, self.values(right)?);
                match op {
                    Exact::Add | Exact::AddDays => kernels.add(left, right, &mut out),
                    Exact::Subtract | Exact::SubtractDays => {
                        kernels.subtract(left, right, &mut out)
                    }
                    Exact::Multiply => kernels.multiply(left, right, &mut out),
                }
                self.nodes[node].put(self.stamp, out);
            }
            Node::ToDouble(of, scale) => {
                let power = power_of_ten(scale)?;
                let mut out = self.nodes[node].take();
                if self.is_narrow(of) {
                    self.evaluate(of, block)?;
                    for (out, value) in out.iter_mut().zip(self.values(of)?) {
                        *out = to_double_by(i128::from(*value), power).to_bits() as i64;
                    }
                } else {
                    self.unpack_columns(of, block)?;
                    for (row, out) in out.iter_mut().enumerate() {
                        *out = to_double_by(self.wide(of, row)?, power).to_bits() as i64;
                    }
                }
                self.nodes[node].put(self.stamp, out);
            }
            Node::Float(op, left, right) => {
                self.evaluate(left, block)?;
                self.evaluate(right, block)?;
                let mut out = self.nodes[node].take();
                let sides = self.values(left)?.iter().zip(self.values(right)?);
                for (out, (left, right)) in out.iter_mut().zip(sides) {
                    let (left, right) =
                        (f64::from_bits(*left as u64), f64::from_bits(*right as u64));
                    *out = float(op, left, right).to_bits() as i64;
                }
                self.nodes[node].put(self.stamp, out);
            }
        }
        Ok(())
    }

    /// The values that [`Context::evaluate`] has made present.
    pub(super) fn values(&self, node: NodeId) -> Result<&Numbers, ScanError> {
        match self.dag.nodes()[node] {
            Node::Column(column) => self.column(column),
            _ => self.nodes[node].get(self.stamp),
        }
    }

    /// Returns true if every value of the node fits 64 bits in this row group, so that arithmetic modulo 2^64 gives it.
    pub(super) fn is_narrow(&self, node: NodeId) -> bool {
        self.intervals[node].is_some_and(|interval| interval.is_narrow())
    }

    /// Returns true if computing the node can overflow in this row group.
    pub(super) fn may_overflow(&self, node: NodeId) -> bool {
        match self.dag.nodes()[node] {
            Node::Column(_) | Node::Constant(_) | Node::Double(_) => false,
            Node::Exact(..) => self.intervals[node].is_none(),
            Node::ToDouble(of, _) => self.may_overflow(of),
            Node::Float(_, left, right) => self.may_overflow(left) || self.may_overflow(right),
        }
    }

    /// Returns true if the sum of a block's values fits 64 bits too.
    pub(super) fn fits_sum(&self, node: NodeId) -> bool {
        self.intervals[node].is_some_and(|interval| interval.times(BLOCK_ROWS as i128).is_narrow())
    }

    /// An integer node's value for a row, whether it fits 64 bits or not.
    pub(super) fn exact(&self, node: NodeId, row: usize) -> Result<i128, ScanError> {
        if self.is_narrow(node) {
            Ok(i128::from(self.values(node)?[row]))
        } else {
            self.wide(node, row)
        }
    }

    /// Makes the columns present that a node reads.
    pub(super) fn unpack_columns(&mut self, node: NodeId, block: usize) -> Result<(), ScanError> {
        match self.dag.nodes()[node] {
            Node::Column(column) => self.unpack(column, block),
            Node::Exact(_, left, right) | Node::Float(_, left, right) => {
                self.unpack_columns(left, block)?;
                self.unpack_columns(right, block)
            }
            Node::ToDouble(of, _) => self.unpack_columns(of, block),
            Node::Constant(_) | Node::Double(_) => Ok(()),
        }
    }

    /// A node's exact value for a row, for those that do not fit 64 bits. Needs [`Context::unpack_columns`].
    pub(super) fn wide(&self, node: NodeId, row: usize) -> Result<i128, ScanError> {
        match self.dag.nodes()[node] {
            Node::Column(column) => Ok(i128::from(self.column(column)?[row])),
            Node::Constant(value) => Ok(value),
            Node::Exact(op, left, right) => op.apply(self.wide(left, row)?, self.wide(right, row)?),
            Node::Double(_) | Node::ToDouble(..) | Node::Float(..) => {
                Err(ScanError::Internal("a double among exact numbers"))
            }
        }
    }

    /// A double node's value for a row, computed for that row alone. Needs [`Context::unpack_columns`].
    pub(super) fn wide_double(&self, node: NodeId, row: usize) -> Result<f64, ScanError> {
        match self.dag.nodes()[node] {
            Node::Double(bits) => Ok(f64::from_bits(bits)),
            Node::ToDouble(of, scale) => {
                Ok(to_double_by(self.wide(of, row)?, power_of_ten(scale)?))
            }
            Node::Float(op, left, right) => Ok(float(
                op,
                self.wide_double(left, row)?,
                self.wide_double(right, row)?,
            )),
            Node::Column(_) | Node::Constant(_) | Node::Exact(..) => {
                Err(ScanError::Internal("an exact number among doubles"))
            }
        }
    }

    /// A constant, kept for the whole scan once it is there.
    fn fill(&mut self, node: NodeId, value: i64) {
        let vector = &mut self.nodes[node];
        if vector.values.is_none() {
            let mut values = vector.take();
            values.fill(value);
            vector.values = Some(values);
        }
        vector.stamp = self.stamp;
    }
}

impl Deref for Aligned {
    type Target = Numbers;

    fn deref(&self) -> &Numbers {
        &self.0
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut Numbers {
        &mut self.0
    }
}

impl Vector {
    fn take(&mut self) -> Box<Aligned> {
        self.values
            .take()
            .unwrap_or_else(|| Box::new(Aligned([0; BLOCK_ROWS])))
    }

    fn put(&mut self, stamp: u64, values: Box<Aligned>) {
        self.stamp = stamp;
        self.values = Some(values);
    }

    fn get(&self, stamp: u64) -> Result<&Numbers, ScanError> {
        match &self.values {
            Some(values) if self.stamp == stamp => Ok(values),
            _ => Err(ScanError::Internal(
                "a vector was used before it was computed",
            )),
        }
    }
}

/// A block's packed values; `None` if all are the smallest one (width 0).
pub(super) fn packed(chunk: &Chunk, block: usize) -> Option<Packed<'_>> {
    let meta = &chunk.blocks()[block];
    Packed::new(chunk.payload(block), meta.lane_bits, meta.width)
}
