//! Route lists read and made tables of, once for all that are prepared with the same list.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dpb_core::{IpFamily, Material, SetupError};

use super::Lpm;
use super::model::Model;
use super::route::{self, Address, Route};

/// A route list, and the tables made of it when they are first asked for.
pub(super) struct Loaded<A> {
    routes: Vec<Route<A>>,
    table: OnceLock<Result<Arc<Lpm<A>>, SetupError>>,
    model: OnceLock<Model<A>>,
}

/// The list that was loaded last for a family.
type Kept = (IpFamily, Material, Arc<dyn Any + Send + Sync>);

/// One list of each family at most: a sweep prepares the same one again and again, and a full table takes a second.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

impl<A: Address> Loaded<A> {
    /// The routes that `list` says.
    ///
    /// # Errors
    /// If it is no route list.
    pub(super) fn of(list: &Material) -> Result<Arc<Self>, SetupError> {
        // Whole entries come and go: a panic leaves nothing half done.
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept()
            .iter()
            .find(|(family, of, _)| *family == A::FAMILY && of == list)
            .map(|(_, _, loaded)| loaded.clone());
        if let Some(Ok(loaded)) = known.map(|loaded| loaded.downcast()) {
            return Ok(loaded);
        }
        let loaded = Arc::new(Self::read(list)?);
        let mut kept = kept();
        kept.retain(|(family, _, _)| *family != A::FAMILY);
        kept.push((A::FAMILY, list.clone(), loaded.clone()));
        Ok(loaded)
    }

    /// The routes.
    pub(super) fn routes(&self) -> &[Route<A>] {
        &self.routes
    }

    /// A table of them, which all share that are prepared with them.
    ///
    /// # Errors
    /// If they are too many.
    pub(super) fn table(&self) -> Result<&Arc<Lpm<A>>, SetupError> {
        let made = || Lpm::new(&self.routes).map(Arc::new);
        let table = self
            .table
            .get_or_init(|| made().map_err(|error| wrong::<A>(&error)));
        table.as_ref().map_err(Clone::clone)
    }

    /// The model of the routes, which says what is right.
    pub(super) fn model(&self) -> &Model<A> {
        self.model.get_or_init(|| Model::new(&self.routes))
    }

    fn read(list: &Material) -> Result<Self, SetupError> {
        let text = std::str::from_utf8(list.bytes()).map_err(|error| wrong::<A>(&error))?;
        Ok(Self {
            routes: route::parse(text).map_err(|error| wrong::<A>(&error))?,
            table: OnceLock::new(),
            model: OnceLock::new(),
        })
    }
}

fn wrong<A: Address>(error: &dyn std::error::Error) -> SetupError {
    SetupError::Parameter(format!("{}: routes: {error}", A::OPERATOR))
}
