//! Requests of a connection, one after another.

use dpb_link::budget::Reserved;
use dpb_link::{Link, LinkError, tag};
use std::sync::Arc;

use super::bounds::{REQUEST_GROWTH, TRANSPORTS_MAX};
use super::refusals::{damaged, ending, refuse};
use super::scanning::scan_and_send;
use super::sending::{Conversed, carried, settle};
use super::{Shared, lock};
use crate::duckdb::Library;
use crate::service::protocol::{
    self, CAPABILITY_BULK, CAPABILITY_COMPACT, CAPABILITY_DUCKDB, CAPABILITY_FETCH,
    CAPABILITY_PARTIALS, DataSet, End, FileFormat, Refusal, Reply, Request, Tag,
};
use crate::service::selectivity::{self, SelectivityError};
use crate::service::usage;

/// Requests until the client leaves.
pub(super) fn converse(shared: &Shared, link: &mut Link) -> Conversed {
    // The capabilities that the client has asked for.
    let mut wanted = 0;
    loop {
        let idle_patience = shared.options.idle_patience;
        link.set_deadline(idle_patience);
        let Some(header) = link.receive_header()? else {
            return Ok(());
        };
        match Tag::of(header.tag)? {
            Tag::Request => {}
            // It came too late for the scan that it meant.
            Tag::Stop => continue,
            _ => return Err(LinkError::OutOfPlace(header.tag)),
        }
        let bytes = header.len as u64 * REQUEST_GROWTH;
        let gone = || shared.is_ending() || link.peer_gone();
        let mut held = shared.plans.reserve(bytes, &gone, |_| bytes)?;
        link.set_deadline(Some(shared.options.handshake_patience));
        let request: Request = protocol::decode(&link.receive_body(header)?)?;
        if let Request::Capabilities { wanted: asked } = request {
            wanted = asked;
        }
        match answer(shared, link, wanted, &mut held, request) {
            // A request that could not be carried out leaves the connection usable.
            Err(LinkError::Refused { refusal, text }) => {
                link.send(tag::ERROR, &dpb_link::refusal_bytes(refusal, &text))?;
            }
            other => other?,
        }
    }
}

/// What the agent can do. DuckDB is looked for once a client asks for it: loading it takes memory, which a client that has no
/// use for it would be shown as the agent's.
fn capabilities(shared: &Shared, wanted: u64) -> Reply {
    let mut capabilities =
        CAPABILITY_FETCH | CAPABILITY_BULK | CAPABILITY_PARTIALS | CAPABILITY_COMPACT;
    let mut duckdb = Err("nobody has asked for DuckDB".to_owned());
    if wanted & CAPABILITY_DUCKDB != 0 {
        let find = || match Library::find() {
            Ok(library) => Ok(library.version().to_owned()),
            Err(missing) => Err(missing.to_string()),
        };
        duckdb = shared.duckdb.get_or_init(find).clone();
        capabilities |= duckdb.as_ref().map_or(0, |_| CAPABILITY_DUCKDB);
    }
    let short = |text: String| protocol::cut(&text, protocol::TEXT_BYTES_MAX).to_owned();
    Reply::Capabilities {
        capabilities,
        duckdb: duckdb.map(short).map_err(short),
    }
}

fn answer(
    shared: &Shared,
    link: &mut Link,
    wanted: u64,
    held: &mut Reserved<'_>,
    request: Request,
) -> Conversed {
    let reply = match request {
        Request::Capabilities { wanted } => capabilities(shared, wanted),
        Request::Describe { data } => {
            let duckdb = wanted & CAPABILITY_DUCKDB != 0;
            Reply::Tables(shared.catalog.tables(data.as_ref(), duckdb)?)
        }
        Request::Pick {
            data,
            table,
            selectivity,
        } => pick(shared, link, &data, &table, selectivity)?,
        Request::Cold { .. } if !shared.options.cold => {
            let text = "it keeps its caches, which others use too: start it with --allow-cold, or run without --cold";
            return Err(refuse(Refusal::Unavailable, text));
        }
        Request::Cold {
            data,
            table,
            format,
        } => {
            shared.catalog.make_cold(&data, &table, format)?;
            Reply::Dropped
        }
        Request::Usage { reset_peak } => Reply::Usage(usage::of_this_process(reset_peak)),
        Request::Scan(request) => {
            let is_compact = wanted & CAPABILITY_COMPACT != 0;
            return scan_and_send(shared, link, held, request, is_compact);
        }
        Request::Fetch {
            data,
            table,
            format,
        } => return send_file(shared, link, &data, &table, format),
        Request::Bulk { offer } => Reply::Bulk(open_transport(shared, link, &offer)),
    };
    let body = protocol::encode(&reply);
    if body.len() > Tag::Reply.body_bytes_max() {
        let text = "it has too many tables for one list: ask for one data set";
        return Err(refuse(Refusal::Usage, text));
    }
    link.send(Tag::Reply, &body)
}

/// Opens a transport beside TCP to the client's ring; says what the client needs to know of it, or why there is none.
fn open_transport(shared: &Shared, link: &mut Link, offer: &[u8]) -> Result<Vec<u8>, String> {
    let accepts = shared.options.bulk.as_ref()?;
    if link.is_paced() {
        return Err("the link has a pace, and only TCP keeps it".to_owned());
    }
    if link.has_writer() {
        return Err("this connection has one".to_owned());
    }
    let held = {
        let transports = lock(&shared.transports);
        if Arc::strong_count(&transports) > TRANSPORTS_MAX {
            return Err(format!(
                "all {TRANSPORTS_MAX} of its transports beside TCP are taken"
            ));
        }
        Arc::clone(&transports)
    };
    let (answer, writer) = accepts.accept(offer)?;
    let ring = writer.ring();
    assert!(ring.pieces > 0 && ring.piece_bytes > 0, "as a ring is");
    link.set_writer(writer, held);
    Ok(answer)
}

fn pick(
    shared: &Shared,
    link: &Link,
    data: &DataSet,
    table: &str,
    share: f64,
) -> Result<Reply, LinkError> {
    if !(share > 0.0 && share <= 1.0) {
        let text = format!("{share} is no selectivity; it is above 0 and at most 1");
        return Err(refuse(Refusal::Usage, text));
    }
    let segment = shared.catalog.segment(data, table)?;
    let stop = || shared.is_ending() || link.peer_gone();
    let picked = selectivity::predicate(&segment, &shared.catalog.cache, share, &stop);
    let (predicate, selectivity) = picked.map_err(|error| match error {
        SelectivityError::Segment(source) => damaged(&source),
        SelectivityError::Stopped if shared.is_ending() => ending(),
        SelectivityError::Stopped => LinkError::Closed,
        error => refuse(Refusal::Usage, error.to_string()),
    })?;
    Ok(Reply::Predicate {
        predicate,
        selectivity,
    })
}

fn send_file(
    shared: &Shared,
    link: &mut Link,
    data: &DataSet,
    table: &str,
    format: FileFormat,
) -> Conversed {
    let (file, bytes) = shared.catalog.file(data, table, format)?;
    let stop = || shared.is_ending();
    link.send(Tag::Reply, &protocol::encode(&Reply::File { bytes }))?;
    let mut end = End::default();
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(Tag::File.body_bytes_max() as u64) as usize;
        carried(link.send_file_frame(Tag::File, &file, at, len, &stop)?)?;
        at += len as u64;
        end.batches += 1;
    }
    end.bytes_read = bytes;
    settle(link, &stop)?;
    link.send(Tag::End, &protocol::encode(&end))
}
