//! What clients have: counted for each client and for all together, and given back when it is dropped.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use dpb_core::{Backend, Executor, MadeOf, Unsupported};

use super::super::quotas::{Quotas, Share};
use super::{OpenBackend, lock};

/// What all clients have.
pub(super) struct Accounts {
    all: Arc<Account>,
    a_client: Share,
    clients: Mutex<Vec<(IpAddr, Weak<Client>)>>,
    opened: Named<Option<Opened>>,
}

/// What one client has, by all of its connections. It is forgotten once the last of these has ended.
pub(super) struct Client {
    account: Arc<Account>,
    served: Named<Weak<Served>>,
}

/// Things by name, each behind a lock of its own: a device that is slow to open or to close keeps those waiting who want the same, and nobody
/// else.
struct Named<T>(Mutex<Vec<Cell<T>>>);

/// A name, and what is behind it.
type Cell<T> = (String, Arc<Mutex<T>>);

impl<T: Default> Named<T> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// The thing called `name`. What nobody holds is forgotten.
    fn find(&self, name: &str) -> Arc<Mutex<T>> {
        let mut cells = lock(&self.0);
        if let Some((_, cell)) = cells.iter().find(|(known, _)| known == name) {
            return Arc::clone(cell);
        }
        cells.retain(|(_, cell)| Arc::strong_count(cell) > 1);
        let cell = Arc::default();
        cells.push((name.to_owned(), Arc::clone(&cell)));
        cell
    }
}

/// A backend that a client has.
pub(super) struct Served {
    name: String,
    /// There until this is dropped.
    backend: Option<Arc<dyn Backend>>,
    opened: Arc<Mutex<Option<Opened>>>,
    /// The client's own list keeps what is behind a name as long as this is there.
    _mine: Arc<Mutex<Weak<Served>>>,
    /// There until this is dropped.
    seats: Option<[Seat; 2]>,
}

/// A backend that is open.
struct Opened {
    backend: Arc<dyn Backend>,
    /// Clients that have it.
    clients: usize,
    _seats: [Seat; 2],
}

/// The kinds of things that are counted.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Operators,
    Queues,
    Backends,
    Threads,
}

/// Counts of things, and the most of each.
struct Account {
    whose: Whose,
    max: Share,
    /// By [`Kind`].
    taken: [AtomicUsize; 4],
}

#[derive(Clone, Copy)]
enum Whose {
    Client,
    All,
}

/// Counted things of one kind, which are given back when this is dropped.
pub(super) struct Seat {
    account: Arc<Account>,
    kind: Kind,
    count: usize,
}

impl Accounts {
    pub(super) fn new(quotas: &Quotas) -> Self {
        Self {
            all: Account::new(Whose::All, quotas.all_clients),
            a_client: quotas.a_client,
            clients: Mutex::default(),
            opened: Named::new(),
        }
    }

    /// The client of this address.
    pub(super) fn client(&self, address: IpAddr) -> Arc<Client> {
        // An IPv4 client of a socket that takes both is the same client.
        let address = address.to_canonical();
        let mut clients = lock(&self.clients);
        clients.retain(|(_, client)| client.strong_count() > 0);
        let known = clients.iter().find(|(known, _)| *known == address);
        if let Some(client) = known.and_then(|(_, client)| client.upgrade()) {
            return client;
        }
        let client = Arc::new(Client {
            account: Account::new(Whose::Client, self.a_client),
            served: Named::new(),
        });
        clients.push((address, Arc::downgrade(&client)));
        client
    }

    /// One of `kind` for `client`.
    pub(super) fn take(&self, client: &Client, kind: Kind) -> Result<[Seat; 2], Unsupported> {
        Ok([client.account.take(kind, 1)?, self.all.take(kind, 1)?])
    }

    /// The backend called `name` for `client`, opened by `open` if no client has it.
    pub(super) fn backend(
        &self,
        client: &Client,
        name: &str,
        open: &OpenBackend,
    ) -> Result<Arc<Served>, Unsupported> {
        let mine = client.served.find(name);
        let mut served = lock(&mine);
        if let Some(served) = served.upgrade() {
            return Ok(served);
        }
        let cell = self.opened.find(name);
        let mut opened = lock(&cell);
        // Behind the lock: the client's last one of this name may have waited to close, and gives its seats back before it is unlocked.
        let seat = client.account.take(Kind::Backends, 1)?;
        let (backend, new) = match &*opened {
            Some(known) => (Arc::clone(&known.backend), None),
            None => {
                let seat = self.all.take(Kind::Backends, 1)?;
                (Arc::from(open(name)?), Some(seat))
            }
        };
        // They start with the first operator. So a backend that has too many is closed before it has any.
        let count = threads_of(&*backend);
        let threads = client.account.take(Kind::Threads, count)?;
        if let Some(seat) = new {
            *opened = Some(Opened {
                backend: Arc::clone(&backend),
                clients: 0,
                _seats: [seat, self.all.take(Kind::Threads, count)?],
            });
        }
        if let Some(opened) = &mut *opened {
            opened.clients += 1;
        }
        drop(opened);
        let new = Arc::new(Served {
            name: name.to_owned(),
            backend: Some(backend),
            opened: cell,
            _mine: Arc::clone(&mine),
            seats: Some([seat, threads]),
        });
        *served = Arc::downgrade(&new);
        Ok(new)
    }
}

impl Served {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        self.backend
            .as_deref()
            .expect("it is there until this is dropped")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It closes while its lock is held: nobody opens a device again that is still closing.
        let mut opened = lock(&self.opened);
        self.backend = None;
        if let Some(known) = &mut *opened {
            known.clients -= 1;
            if known.clients == 0 {
                *opened = None;
            }
        }
        // Whoever waits for the lock finds the client's seats free.
        self.seats = None;
    }
}

/// Worker threads of a backend and of those inside it. A wrapper says of itself what it wraps, so they are not added up.
fn threads_of(backend: &dyn Backend) -> usize {
    fn most(made_of: &MadeOf) -> usize {
        let own = match made_of.executor {
            Executor::Workers { threads } => threads.get() as usize,
            _ => 0,
        };
        let inner = made_of.inner.as_ref();
        own.max(inner.map_or(0, |inner| most(&inner.made_of)))
    }
    most(&backend.properties().made_of)
}

impl Account {
    fn new(whose: Whose, max: Share) -> Arc<Self> {
        Arc::new(Self {
            whose,
            max,
            taken: Default::default(),
        })
    }

    /// `count` more of `kind`, if no more than the most are taken then.
    fn take(self: &Arc<Self>, kind: Kind, count: usize) -> Result<Seat, Unsupported> {
        let max = kind.of(&self.max);
        let more = |taken: usize| taken.checked_add(count).filter(|sum| *sum <= max);
        let order = Ordering::Relaxed;
        match self.taken[kind as usize].fetch_update(order, order, more) {
            Ok(_) => Ok(Seat {
                account: Arc::clone(self),
                kind,
                count,
            }),
            Err(taken) => Err(Unsupported {
                reason: format!(
                    "{} may have {max} {kind} at once; {taken} are taken, and {count} more are asked for",
                    self.whose
                ),
            }),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.account.taken[self.kind as usize].fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl Kind {
    fn of(self, share: &Share) -> usize {
        match self {
            Self::Operators => share.operators,
            Self::Queues => share.queues,
            Self::Backends => share.backends,
            Self::Threads => share.threads,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operators => "operators",
            Self::Queues => "queues",
            Self::Backends => "backends",
            Self::Threads => "threads",
        })
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "a client of the agent",
            Self::All => "all clients of the agent together",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use dpb_core::{Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError};

    use super::*;

    #[test]
    fn seats_are_given_back() {
        let max = Share {
            threads: 3,
            ..Share::a_client(1)
        };
        let account = Account::new(Whose::Client, max);
        let first = account.take(Kind::Threads, 2).expect("free");
        let why = account.take(Kind::Threads, 2).err().expect("too many");
        assert!(why.reason.contains("3 threads"), "{why}");
        assert!(account.take(Kind::Threads, usize::MAX).is_err());
        let second = account.take(Kind::Threads, 1).expect("free");
        drop(first);
        assert!(account.take(Kind::Threads, 2).is_ok());
        drop(second);
        let taken = account.taken[Kind::Threads as usize].load(Ordering::Relaxed);
        assert_eq!(taken, 0);
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let named: Named<u32> = Named::new();
        let one = named.find("one");
        *lock(&one) = 1;
        assert_eq!(*lock(&named.find("one")), 1);
        drop(named.find("two"));
        drop(one);
        named.find("three");
        assert_eq!(lock(&named.0).len(), 1);
        assert_eq!(*lock(&named.find("one")), 0);
    }

    #[test]
    fn a_client_is_known_while_it_has_connections() {
        let accounts = Accounts::new(&Quotas::default());
        let four = accounts.client("10.0.0.1".parse().expect("an address"));
        let six = accounts.client("::ffff:10.0.0.1".parse().expect("an address"));
        assert!(Arc::ptr_eq(&four, &six));
        let other = accounts.client("10.0.0.2".parse().expect("an address"));
        assert!(!Arc::ptr_eq(&four, &other));
        drop((four, six));
        accounts.client("10.0.0.3".parse().expect("an address"));
        assert_eq!(lock(&accounts.clients).len(), 2);
    }

    /// A backend that takes long to close: it says that it begins, and goes on when told.
    struct SlowToClose {
        inner: Box<dyn Backend>,
        begins: mpsc::Sender<()>,
        goes: Mutex<mpsc::Receiver<()>>,
    }

    impl Drop for SlowToClose {
        fn drop(&mut self) {
            let _ = self.begins.send(());
            let _ = lock(&self.goes).recv();
        }
    }

    impl Backend for SlowToClose {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn clock(&self) -> &dyn Clock {
            self.inner.clock()
        }

        fn properties(&self) -> Properties {
            self.inner.properties()
        }

        fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
            self.inner.alloc(len)
        }

        fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
            self.inner.limits(spec)
        }

        fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
            self.inner.prepare(spec)
        }
    }

    /// Who opens the backend again that its last connection still closes waits for that, and then has its place.
    #[test]
    fn a_client_waits_for_its_own_seat() {
        let one = Share {
            backends: 1,
            ..Share::a_client(1)
        };
        let quotas = Quotas {
            a_client: one,
            all_clients: one,
            ..Quotas::default()
        };
        let accounts = Accounts::new(&quotas);
        let client = accounts.client("10.0.0.1".parse().expect("an address"));
        let (begins, has_begun) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let first = Mutex::new(Some((begins, goes)));
        let open: OpenBackend = Box::new(move |_| {
            let inner: Box<dyn Backend> = Box::new(dpb_operators::cpu::Cpu::best());
            Ok(match lock(&first).take() {
                Some((begins, goes)) => Box::new(SlowToClose {
                    inner,
                    begins,
                    goes: Mutex::new(goes),
                }),
                None => inner,
            })
        });
        let served = accounts.backend(&client, "slow", &open);
        let served = served.unwrap_or_else(|why| panic!("{why}"));
        thread::scope(|scope| {
            scope.spawn(|| drop(served));
            has_begun.recv().expect("it closes");
            let again = scope.spawn(|| accounts.backend(&client, "slow", &open).map(drop));
            // Time to come as far as the lock. Without it the test passes as well.
            thread::sleep(Duration::from_millis(100));
            go.send(()).expect("it waits");
            assert_eq!(again.join().expect("no panic"), Ok(()));
        });
    }
}
