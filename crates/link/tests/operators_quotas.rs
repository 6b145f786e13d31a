//! What one client and all together may have of an agent: refused with the figures, and given back.

mod operators_support;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use dpb_core::{Backend, Family, OpSpec, Unsupported};
use dpb_link::operators::{Dialled, OperatorsService, Quotas, Remote, SessionSecurity, Share};
use dpb_operators::registry;
use operators_support::{Served, resolve, service};

/// Longer than any wait here may take.
const SOON: Duration = Duration::from_secs(20);

fn spec(name: &str) -> OpSpec {
    registry::find(name).expect("registered").default_spec()
}

/// A backend at the agent of `address`, by connections from the address `from`.
fn open_from(
    from: &'static str,
    address: SocketAddr,
    backend: &str,
) -> Result<Box<dyn Backend>, String> {
    let dial = move |to: &str| {
        let to: SocketAddr = to.parse().expect("an address");
        let stream = connect_from(from, to).map_err(|error| error.to_string())?;
        Ok(Dialled {
            wire: Box::new(stream),
            security: SessionSecurity::Loopback,
        })
    };
    let opened = Remote::new(dial, resolve).open(&format!("{address}/{backend}"));
    opened.map_err(|why| why.to_string())
}

/// Connects from another of this machine's addresses than the system would choose.
fn connect_from(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let from: IpAddr = from.parse().expect("an address");
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

/// Opens it again and again until the agent has noticed that others have left.
fn open_in_time(from: &'static str, address: SocketAddr, backend: &str) -> Box<dyn Backend> {
    let mut tries = 0;
    loop {
        match open_from(from, address, backend) {
            Ok(backend) => return backend,
            Err(why) if tries == 3000 => panic!("{why}"),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
        tries += 1;
    }
}

#[test]
fn shares_are_a_clients_and_are_given_back() {
    const ONE: &str = "127.0.0.1";
    const OTHER: &str = "127.0.0.2";
    let a_client = Share {
        operators: 1,
        queues: 1,
        backends: 2,
        threads: 4,
    };
    let all_clients = Share {
        backends: 3,
        threads: 6,
        ..Share::all_clients(1)
    };
    let quotas = Quotas {
        a_client,
        all_clients,
        ..Quotas::default()
    };
    let served = Served::start(service().with_quotas(quotas));
    let open = |from, name: &str| open_from(from, served.address, name);
    let refused = |from, name: &str| open(from, name).err().expect("too much");

    let why = refused(ONE, "pool/1024");
    assert!(why.contains("4 threads"), "{why}");
    // Nothing of it stays: the same threads are free.
    let three = open(ONE, "pool/3").expect("three of four");
    let again = open(ONE, "pool/3").expect("the same three");
    let why = refused(ONE, "pool/2");
    assert!(
        why.contains("a client") && why.contains("3 are taken"),
        "{why}"
    );
    // Another client has a share of its own, and all together have one.
    let why = refused(OTHER, "pool/4");
    assert!(
        why.contains("all clients") && why.contains("6 threads"),
        "{why}"
    );
    let shared = open(OTHER, "pool/3").expect("threads that are there already");
    let operator = three.prepare(&spec("crc32c")).expect("one");
    let why = again
        .prepare(&spec("crc32c"))
        .err()
        .expect("one more")
        .to_string();
    assert!(
        why.contains("a client") && why.contains("1 operators"),
        "{why}"
    );
    let others = shared
        .prepare(&spec("crc32c"))
        .expect("one of another client");
    let queue = operator.clone().open(NonZeroU32::MIN).expect("one");
    let why = operator
        .clone()
        .open(NonZeroU32::MIN)
        .err()
        .expect("one more");
    assert!(why.to_string().contains("1 queues"), "{why}");
    drop(others.open(NonZeroU32::MIN).expect("one of another client"));
    drop((queue, operator, three, again));
    // The other client goes on with what both had.
    shared.prepare(&spec("sha256")).expect("the other's place");
    drop(shared);
    drop(open_in_time(ONE, served.address, "pool/4"));
    // More names than the agent ever has open.
    for lanes in 1..20 {
        let name = format!("sim/lanes={lanes}");
        drop(open_in_time(ONE, served.address, &name));
    }
}

/// A device that takes long to open keeps those waiting who want it too, and nobody else.
#[test]
fn a_backend_that_is_slow_to_open_keeps_nobody_else_waiting() {
    let (began, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let opens = Arc::new(AtomicUsize::new(0));
    let count = opens.clone();
    let open = move |name: &str| -> Result<Box<dyn Backend>, Unsupported> {
        count.fetch_add(1, Ordering::Relaxed);
        if name == "slow" {
            began.send(()).expect("the test waits");
            goes.lock()
                .expect("no panic")
                .recv()
                .expect("told to go on");
        }
        Ok(operators_support::best())
    };
    let served = Served::start(OperatorsService::new(Box::new(open), resolve));
    let address = served.address;
    thread::scope(|scope| {
        let slow = [0, 1].map(|_| scope.spawn(move || open_from("127.0.0.1", address, "slow")));
        begins.recv().expect("one of them opens it");
        // Of the same client, and of another one.
        let (says, said) = mpsc::channel();
        for from in ["127.0.0.1", "127.0.0.2"] {
            let says = says.clone();
            scope.spawn(move || says.send(open_from(from, address, "quick")));
        }
        // Kept to the end: a backend that nobody has is closed, and opened anew.
        let others = [(); 2].map(|()| said.recv_timeout(SOON));
        // Before anything is checked, or the scope would wait for what nobody ends.
        go.send(()).expect("it waits");
        let are_open = others.iter().all(|other| matches!(other, Ok(Ok(_))));
        assert!(are_open, "the others wait too");
        let slow = slow.map(|slow| slow.join().expect("no panic"));
        assert!(slow.iter().all(Result::is_ok));
        assert_eq!(opens.load(Ordering::Relaxed), 2, "each was opened once");
    });
}
