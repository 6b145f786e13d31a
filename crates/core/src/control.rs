//! The handle by which a prepared operator's table is changed while queues run.

use std::fmt;

/// Changes the table of a prepared operator: its routes, rules or sessions. [`crate::Operator::control`] gives one.
///
/// It is not the data path. Calls may allocate and wait, and any thread may make them. All handles of one operator are the same
/// handle: they share one list of changes that are not committed yet. Operators that were prepared apart have tables apart, even if
/// they were prepared from the same spec.
///
/// **Visibility.** Changes are in no job before [`Control::commit`] is called, and in every job that is submitted after it has
/// returned. A job that was submitted earlier sees the table before the commit or after it.
///
/// **One version.** A job sees one version of the table for all its items. Versions come in order: a job that starts after another one has
/// ended sees the same version or a later one, on whatever queue. For a [`Chain`](crate::Chain) this holds stage by stage.
///
/// **Memory.** A version that no job sees any more is reused or freed with a later change. [`crate::Versions`] keeps two tables, whatever the number of
/// commits, once the first change has come. Version zero may be a third one: an open queue keeps it until its next job after the first commit. Tables
/// of keys have no third one ([`crate::Versions::seated`]). Changes are kept until they were made in both tables, and so is what they take out.
///
/// **Waiting.** A call may wait for jobs that are running, never for a job to be polled. A kernel must not call it for its own
/// operator: it would wait for itself. `submit` and `poll` wait for nobody.
pub trait Control: Send + Sync {
    /// Notes changes for the next commit. Their format is the operator's and stands in its documentation. They are taken as a whole, in
    /// order, or refused as a whole: after an error it is as if the call had not been made. Two calls at the same time come one after the
    /// other.
    ///
    /// # Errors
    /// See [`ChangeError`].
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError>;
    /// Makes all changes noted so far visible, at once, whichever handle they came by. Gives the number of the version that jobs see
    /// from now on: zero as prepared, one more for each commit. Without changes there is no new version.
    ///
    /// # Errors
    /// See [`ChangeError`]; for a table in this process none.
    fn commit(&self) -> Result<u64, ChangeError>;
}

/// The reason why a table was not changed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// Not changes as the operator reads them.
    Malformed {
        /// The first byte of the first faulty change.
        at: usize,
    },
    /// The table has no room for them.
    Full,
    /// A device's own code.
    Device(i32),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at } => write!(f, "malformed change at byte {at}"),
            Self::Full => f.write_str("no room in the table for these changes"),
            Self::Device(code) => write!(f, "device error {code}"),
        }
    }
}

impl std::error::Error for ChangeError {}
