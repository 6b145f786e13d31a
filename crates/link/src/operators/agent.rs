//! The agent: runs operators of its machine for whoever may ask. A thread a connection, which the caller brings.

mod accounts;
mod jobs;
mod places;
mod receiving;
mod requests;

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dpb_core::{Backend, Clock, Control, Limits, Operator, SetupError, Unsupported, WallClock};

use self::accounts::{Accounts, Seat, Served};
use super::is_remote;
use super::protocol::Number;
use super::quotas::Quotas;
use super::spec::Resolve;
use super::wire::{SessionSecurity, Wire};
use crate::bulk::Duplex;
use crate::hello::AgentDescription;

/// Opens a backend of this machine by its name, or says why not.
pub type OpenBackend = Box<dyn Fn(&str) -> Result<Box<dyn Backend>, Unsupported> + Send + Sync>;

/// The time for which a peer or a backend may do nothing where it must, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service's side that computes.
#[allow(missing_debug_implementations)]
pub struct OperatorsService(pub(super) Shared);

/// The state that all connections share.
pub(super) struct Shared {
    open: OpenBackend,
    resolve: Box<dyn Resolve>,
    quotas: Quotas,
    machine: String,
    clock: Arc<dyn Clock>,
    patience: Duration,
    accounts: Accounts,
    /// The transport beside connections, or why there is none.
    duplex: Result<Arc<dyn Duplex>, String>,
    operators: Mutex<Vec<Arc<Prepared>>>,
    /// True once the agent ends.
    pub(super) stop: AtomicBool,
}

/// An operator of a client.
struct Prepared {
    number: Number,
    operator: Arc<dyn Operator>,
    control: Option<Arc<dyn Control>>,
    limits: Limits,
    /// Bytes of changes to its table that were noted and not committed. Locked as long as a change or a commit takes.
    uncommitted_bytes: Mutex<usize>,
    /// True if jobs are done when `submit` returns.
    is_synchronous: bool,
    /// After the operator, which ends first.
    served: Arc<Served>,
    _seats: [Seat; 2],
}

impl OperatorsService {
    /// A service of the backends that `open` opens, and of operators whose specs `resolve` makes.
    pub fn new(open: OpenBackend, resolve: impl Resolve + 'static) -> Self {
        let quotas = Quotas::default();
        Self(Shared {
            open,
            resolve: Box::new(resolve),
            quotas,
            machine: machine(),
            clock: Arc::new(WallClock::default()),
            patience: PATIENCE,
            accounts: Accounts::new(&quotas),
            duplex: Err("it was given no transport but its connections".to_owned()),
            operators: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    /// The same with other quotas.
    #[must_use]
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.0.quotas = quotas;
        self.0.accounts = Accounts::new(&quotas);
        self
    }

    /// The same with a transport for the items and outputs of queues that ask for one, or what their clients are told.
    #[must_use]
    pub fn with_duplex(mut self, duplex: Result<Arc<dyn Duplex>, String>) -> Self {
        self.0.duplex = duplex;
        self
    }

    /// The same with another description of the machine, which records of clients keep. As it stands: host, processor, CPUs, dpb.
    #[must_use]
    pub fn with_machine(mut self, machine: impl Into<String>) -> Self {
        self.0.machine = machine.into();
        self
    }

    /// The same with another patience: the time for which a peer in the middle of a message, or a backend with jobs in flight, may do
    /// nothing.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.0.patience = patience;
        self
    }

    /// Serves one connection of `client`, in this thread, until the client closes it or `is_stopped`, which is asked several times a second.
    /// What the client has by all its connections together counts towards its share.
    ///
    /// # Errors
    /// Why the connection ended, if the client did not close it.
    pub fn serve_wire(
        &self,
        wire: Box<dyn Wire + '_>,
        client: IpAddr,
        security: SessionSecurity,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let client = self.0.accounts.client(client);
        requests::serve(&self.0, client, wire, security, is_stopped)
    }
}

impl Shared {
    /// The backend called `name` for `client`, opened if it is not yet.
    fn backend(&self, client: &accounts::Client, name: &str) -> Result<Arc<Served>, Unsupported> {
        // Whoever wants to go on from here connects there.
        if is_remote(name) {
            let reason = format!("{name}: an agent hands nothing on to other agents");
            return Err(Unsupported { reason });
        }
        self.accounts.backend(client, name, &self.open)
    }

    /// The limits of a backend within the agent's.
    fn bounded(&self, mut limits: Limits) -> Limits {
        let Quotas {
            depth_max,
            input_bytes_max,
            items_max,
            ..
        } = self.quotas;
        if let Some(depth_max) = std::num::NonZeroU32::new(depth_max) {
            limits.depth_max = limits.depth_max.min(depth_max);
        }
        limits.input_bytes_max = limits.input_bytes_max.min(input_bytes_max);
        limits.item_bytes_max = limits.item_bytes_max.min(limits.input_bytes_max);
        limits.items_max = limits.items_max.min(items_max);
        limits
    }

    /// A prepared operator.
    fn find(&self, number: &Number) -> Result<Arc<Prepared>, SetupError> {
        let operators = lock(&self.operators);
        let found = operators.iter().find(|known| known.number == *number);
        found.cloned().ok_or_else(|| {
            let reason =
                "the agent has no such operator any more: who prepared it is gone".to_owned();
            SetupError::Unsupported(Unsupported { reason })
        })
    }
}

/// What is locked is there whole or not at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine of this process.
fn machine() -> String {
    let AgentDescription {
        dpb_version,
        host,
        cpu_model,
        cpus,
        ..
    } = AgentDescription::of_this_process();
    format!("{host}, {cpu_model}, {cpus} CPUs, dpb {dpb_version}")
}
