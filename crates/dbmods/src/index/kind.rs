//! The engines by name, and what a load of records takes of each.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Durability, Index, IndexError, Lmdb, LmdbOptions, Tree, TreeOptions};

/// An engine, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// [`Tree`], in memory.
    Tree,
    /// [`Lmdb`], a file.
    Lmdb,
}

impl EngineKind {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::Tree, Self::Lmdb];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Lmdb => "lmdb",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut kinds = Self::ALL.into_iter();
        kinds
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("no index engine `{name}`; there are tree and lmdb"))
    }
}

/// An index to be made: the engine, and the records that it will hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The engine.
    pub engine: EngineKind,
    /// The crashes that a commit survives. A [`Tree`] is volatile, whatever is asked.
    #[serde(with = "durability")]
    pub durability: Durability,
    /// Records that it holds at most, those that a run inserts among them.
    pub records_max: u64,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Sessions that are open at once.
    pub sessions_max: u32,
}

/// Bytes that an index takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Main memory, bytes.
    pub memory_bytes: u64,
    /// Disk, bytes.
    pub disk_bytes: u64,
}

impl Plan {
    /// What the index takes at most, an estimate: a tree twice its records if they come in no order, LMDB a map that holds copies of pages.
    pub fn needs(&self) -> Needs {
        let (key, value) = (u64::from(self.key_bytes), u64::from(self.value_bytes));
        match self.engine {
            EngineKind::Tree => {
                // A slot, a key, a value in words; nodes are half full at the least.
                let record = 16 + key.next_multiple_of(8) + value.next_multiple_of(8);
                Needs {
                    memory_bytes: self.records_max.saturating_mul(2 * record) + (64 << 20),
                    disk_bytes: 0,
                }
            }
            EngineKind::Lmdb => {
                let map = Lmdb::map_bytes(self.records_max, key, value);
                Needs {
                    memory_bytes: 64 << 20,
                    disk_bytes: map,
                }
            }
        }
    }

    /// Makes the index. LMDB's files lie in `folder`.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn make(&self, folder: &Path) -> Result<Arc<dyn Index>, IndexError> {
        Ok(match self.engine {
            EngineKind::Tree => Arc::new(Tree::new(TreeOptions {
                sessions_max: self.sessions_max as usize,
                ..TreeOptions::default()
            })?),
            EngineKind::Lmdb => Arc::new(Lmdb::open(&LmdbOptions {
                folder: folder.to_owned(),
                map_bytes: self.needs().disk_bytes,
                sessions_max: self.sessions_max,
                durability: self.durability,
                read_ahead: false,
            })?),
        })
    }
}

/// A durability as its word.
mod durability {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Durability;

    pub(super) fn serialize<S: Serializer>(value: &Durability, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.word())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Durability, D::Error> {
        let word = String::deserialize(from)?;
        let mut all = Durability::ALL.into_iter();
        all.find(|durability| durability.word() == word)
            .ok_or_else(|| D::Error::custom("a durability"))
    }
}
