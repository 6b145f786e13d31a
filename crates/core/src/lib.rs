//! The seam between what is computed and where, and the words that everything else in dpb speaks.
//!
//! * [`OpSpec`]: *what* is computed, as data.
//! * [`Backend`] → [`Operator`] → [`Queue`]: *where and how*, prepared once, run many times.
//! * [`Stage`]: an operator used by one job at a time, for programs in steps.
//! * [`Family`]: a kind of backends, opened by name and listed for people.
//! * [`Workload`]: what an operator is run on, and what is right for it.
//! * [`Kernel`]: how a CPU implements an operator; its lifts (`Inline`, `Pooled`) carry it to the seam.
//! * [`Buf`] and [`View`]: memory that moves to a device with its job and comes home with the completion.
//! * [`Control`] changes the table of a prepared operator while queues run; [`Versions`] is such a table.
//! * [`Memory`] and [`Buffers`]: what a job reads and what it writes; [`Items`]: where in them its items and outputs lie.
//!
//! The crate is the standard library alone. Measurement lives behind the feature `measure`, the suite that
//! every backend runs behind `conformance`.

pub mod batch;
pub mod buf;
pub mod chain;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod control;
pub mod cpu_level;
pub mod cpu_vendor;
pub mod error;
pub mod evidence;
pub mod family;
pub mod file;
#[cfg(feature = "huge-pages")]
pub mod huge;
pub mod in_place;
pub mod items;
mod layout;
pub mod lift;
#[cfg(feature = "measure")]
pub mod measure;
pub mod memory;
pub mod patience;
pub mod prefetch;
mod printable;
pub mod properties;
pub mod random;
mod records;
pub mod rules;
pub mod seam;
pub mod sessions;
pub mod slots;
pub mod spec;
pub mod stage;
mod sync;
pub mod versions;
pub mod workload;

pub use batch::{Batch, BatchIter};
pub use buf::{Buf, Region, View};
pub use chain::{Chain, StageByStage};
pub use clock::{Clock, ClockKind, Timer, VirtualClock, WallClock};
pub use control::{ChangeError, Control};
pub use error::{JobError, NotInPlace, SetupError, Unsupported};
pub use evidence::Evidence;
pub use family::{Families, Family, Finding, Listed, OpenError};
pub use in_place::{InPlace, Overlay, Overlays};
pub use items::{Items, Offsets, Span, Stride};
pub use layout::Picks;
pub use lift::{Inline, Pool, Pooled};
pub use memory::{Buffers, Memory, Place};
pub use printable::printable;
pub use properties::{Executor, Inner, MadeOf, Properties};
pub use records::records;
pub use seam::{Backend, Completion, Job, JobParts, Kernel, Limits, Operator, OutputShape, Queue};
pub use slots::{BatchOut, SlotIter, Slots};
pub use spec::{
    ArithmeticForm, ArithmeticOperation, ArithmeticType, BlockLoss, ChecksumForm, ChecksumLayers,
    CollationLocale, CopyMode, CrcName, Curve, DeflateFormat, DeflateTrailer, Direction,
    ErasureCode, FragmentsKept, HashTuple, HmacHash, IpFamily, Material, OpSpec, ParameterValue,
    RsaPadding, SegmentationMode, SignatureScheme, Spec, UnsupportedRules,
};
pub use stage::{Outputs, Stage, StageError};
pub use versions::{Versioned, Versions};
pub use workload::{Exact, Input, Right, Workload};
