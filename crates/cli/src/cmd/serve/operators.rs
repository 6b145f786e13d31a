//! The flags of the service `operators`, and what comes of them.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use dpb_link::operators::{Quotas, Share};

use crate::args;
use crate::exit::Failure;

const OPERATORS: &str = "Operators of clients (remote/HOST:PORT/BACKEND, remote-rdma/…)";

/// What clients may have at once of this machine's operators.
#[derive(Debug, clap::Args)]
pub(super) struct OperatorFlags {
    /// Most worker threads of one client's backends together, pool/N counted as N; a client is an address [default: two a CPU]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::threads)]
    client_threads: Option<u64>,
    /// Most worker threads of all clients' backends together [default: eight a CPU]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::threads)]
    total_threads: Option<u64>,
    /// Most queues that one client has open [default: 24]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    client_queues: Option<u64>,
    /// Most queues that all clients together have open, each of which may take 105 MB, and of remote-rdma 8 MiB more [default: 32]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    total_queues: Option<u64>,
    /// Most operators that one client has prepared [default: 48]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    client_operators: Option<u64>,
    /// Most operators that all clients together have prepared [default: 64]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    total_operators: Option<u64>,
    /// Most backends that one client has open [default: 24]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    client_backends: Option<u64>,
    /// Most backends that all clients together have open [default: 32]
    #[arg(long, value_name = "N", help_heading = OPERATORS, value_parser = args::count)]
    total_backends: Option<u64>,
}

impl OperatorFlags {
    /// The service's quotas.
    pub(super) fn quotas(&self) -> Result<Quotas, Failure> {
        let cpus = available_parallelism().map_or(1, NonZeroUsize::get);
        let (client, total) = (Share::a_client(cpus), Share::all_clients(cpus));
        let threads = both(
            "threads",
            (self.client_threads, client.threads),
            (self.total_threads, total.threads),
        )?;
        let queues = both(
            "queues",
            (self.client_queues, client.queues),
            (self.total_queues, total.queues),
        )?;
        let operators = both(
            "operators",
            (self.client_operators, client.operators),
            (self.total_operators, total.operators),
        )?;
        let backends = both(
            "backends",
            (self.client_backends, client.backends),
            (self.total_backends, total.backends),
        )?;
        let share = |of: fn((usize, usize)) -> usize| Share {
            threads: of(threads),
            queues: of(queues),
            operators: of(operators),
            backends: of(backends),
        };
        Ok(Quotas {
            a_client: share(|(client, _)| client),
            all_clients: share(|(_, total)| total),
            ..Quotas::default()
        })
    }
}

/// The most of one client and of all, each as given or its default. A default makes room for the one that is given.
fn both(
    what: &str,
    (client, client_default): (Option<u64>, usize),
    (total, total_default): (Option<u64>, usize),
) -> Result<(usize, usize), Failure> {
    let number = |given: u64| usize::try_from(given).unwrap_or(usize::MAX);
    match (client.map(number), total.map(number)) {
        (Some(client), Some(total)) if client > total => Err(Failure::usage(format!(
            "--client-{what} {client} is more than all clients together may have, --total-{what} {total}"
        ))),
        (Some(client), Some(total)) => Ok((client, total)),
        (Some(client), None) => Ok((client, total_default.max(client))),
        (None, Some(total)) => Ok((client_default.min(total), total)),
        (None, None) => Ok((client_default, total_default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_makes_room_for_what_is_given() {
        let of = |client, total| both("queues", (client, 24), (total, 32)).ok();
        assert_eq!(of(None, None), Some((24, 32)));
        assert_eq!(of(Some(40), None), Some((40, 40)));
        assert_eq!(of(None, Some(8)), Some((8, 8)));
        assert_eq!(of(Some(3), Some(3)), Some((3, 3)));
        assert_eq!(of(Some(4), Some(3)), None);
    }
}
