//! Rule files read, and compiled where that takes long, once for all that are prepared with the same file.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dpb_core::{Material, SetupError, UnsupportedRules};

use super::NAME;
use super::hyperscan::{Database, Hyperscan};
use super::rules::Rules;

/// A rule set, and what the library makes of it when it is first asked for.
pub(super) struct Loaded {
    rules: Rules,
    database: OnceLock<Result<Arc<Database>, SetupError>>,
}

type Kept = (Material, UnsupportedRules, Arc<Loaded>);

/// The last few: a sweep prepares the same ones again and again.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
const KEPT_MAX: usize = 4;

impl Loaded {
    /// The rules that `file` says.
    ///
    /// # Errors
    /// If it is no rule file.
    pub(super) fn of(
        file: &Material,
        unsupported: UnsupportedRules,
    ) -> Result<Arc<Self>, SetupError> {
        // Whole entries come and go: a panic leaves nothing half done.
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &&Kept| entry.0 == *file && entry.1 == unsupported;
        if let Some((_, _, loaded)) = kept().iter().find(is_it) {
            return Ok(loaded.clone());
        }
        let rules = Rules::parse(file.bytes(), unsupported)
            .map_err(|error| SetupError::Parameter(format!("{NAME}: rules: {error}")))?;
        let loaded = Arc::new(Self::from(rules));
        let mut kept = kept();
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((file.clone(), unsupported, loaded.clone()));
        Ok(loaded)
    }

    /// The database that `library` makes of the rules.
    ///
    /// # Errors
    /// The library's words against a rule.
    pub(super) fn database(&self, library: Hyperscan) -> Result<Arc<Database>, SetupError> {
        let compiled = || library.compile(&self.rules).map(Arc::new);
        self.database.get_or_init(compiled).clone()
    }
}

impl From<Rules> for Loaded {
    fn from(rules: Rules) -> Self {
        Self {
            rules,
            database: OnceLock::new(),
        }
    }
}

impl Deref for Loaded {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}
