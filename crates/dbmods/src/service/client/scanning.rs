//! A scan: its batches as they arrive, or what the agent accumulated of an aggregate.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dpb_link::{Header, LinkError};

use super::Client;
use super::claims::Arriving;
use super::error::ClientError;
use crate::ipc::{decode_batch, decode_schema};
use crate::scan::ScanError;
use crate::scan::operator::Merged;
use crate::service::protocol::{
    self, CAPABILITY_COMPACT, CAPABILITY_PARTIALS, End, Request, ScanRequest, Tag,
};

/// Most bytes that may come of a scan after it was told to stop: what was in flight.
const IN_FLIGHT_BYTES_MAX: usize = 8 * Tag::Batch.body_bytes_max();
/// The waiting time that a batch without rows counts as: a sign of life every few seconds is one, a stream of them is not.
const EMPTY_BATCH: Duration = Duration::from_secs(1);

/// The end of a scan, beside its rows.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The rows' schema.
    pub schema: SchemaRef,
    /// The agent's counts.
    pub end: End,
    /// The time from the request to the first batch; to the end if there was none.
    pub first_batch: Duration,
}

/// Takes the rows of a scan as they arrive.
type BatchSink<'a> = dyn FnMut(&RecordBatch) -> ControlFlow<()> + 'a;

/// The receiver of what arrives.
enum Receiver<'a> {
    Rows {
        sink: &'a mut BatchSink<'a>,
        /// Set from outside once no more rows are wanted; `None` if the sink alone knows.
        enough: Option<&'a AtomicBool>,
    },
    Partial {
        merged: &'a mut Merged,
        /// Set from outside once no aggregate can come of all parts.
        enough: Option<&'a AtomicBool>,
        /// The reason why the agent's part cannot be added, which ends no conversation.
        failed: Option<ScanError>,
    },
}

impl Receiver<'_> {
    /// True if somebody else has found that no more rows are wanted.
    fn has_enough(&self) -> bool {
        match self {
            Receiver::Rows {
                enough: Some(enough),
                ..
            }
            | Receiver::Partial {
                enough: Some(enough),
                ..
            } => enough.load(Ordering::Relaxed),
            _ => false,
        }
    }
}

impl Client {
    /// Runs a scan; its batches go to `sink` as they arrive, those without rows aside. When `sink` breaks, the scan is stopped.
    ///
    /// A sink that keeps no part of a batch lets its memory be used for the next one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn scan(
        &mut self,
        request: ScanRequest,
        sink: &mut dyn FnMut(&RecordBatch) -> ControlFlow<()>,
    ) -> Result<Scanned, ClientError> {
        let request = ScanRequest {
            partial: false,
            ..request
        };
        self.receive(request, &mut Receiver::Rows { sink, enough: None })
    }

    /// The same, stopped once `enough` is set; it is looked at whenever the agent gives a sign of life.
    pub(super) fn scan_until(
        &mut self,
        request: ScanRequest,
        enough: &AtomicBool,
        sink: &mut dyn FnMut(&RecordBatch) -> ControlFlow<()>,
    ) -> Result<Scanned, ClientError> {
        let request = ScanRequest {
            partial: false,
            ..request
        };
        let enough = Some(enough);
        self.receive(request, &mut Receiver::Rows { sink, enough })
    }

    /// Runs an aggregate's scan and adds what the agent has accumulated to `merged`, which is of the same query. So the aggregate over a
    /// table whose parts several agents have is exact, averages too: [`Merged::finish`] gives it once each agent was asked.
    ///
    /// # Errors
    /// [`ClientError`]; after one, `merged` may have the agent's part or not.
    pub fn scan_partial(
        &mut self,
        request: ScanRequest,
        merged: &mut Merged,
    ) -> Result<Scanned, ClientError> {
        self.scan_partial_until(request, None, merged)
    }

    /// The same, stopped once `enough` is set; then `merged` has none of the agent's part.
    pub(super) fn scan_partial_until(
        &mut self,
        request: ScanRequest,
        enough: Option<&AtomicBool>,
        merged: &mut Merged,
    ) -> Result<Scanned, ClientError> {
        if self.agent_capabilities & CAPABILITY_PARTIALS == 0 {
            return Err(self.broke(LinkError::Malformed(
                "an agent without partial aggregates was asked for one",
            )));
        }
        let request = ScanRequest {
            partial: true,
            ..request
        };
        let mut receiver = Receiver::Partial {
            merged,
            enough,
            failed: None,
        };
        let scanned = self.receive(request, &mut receiver)?;
        match receiver {
            Receiver::Partial {
                failed: Some(error),
                ..
            } => Err(ClientError::Merge(error)),
            _ => Ok(scanned),
        }
    }

    fn receive(
        &mut self,
        request: ScanRequest,
        receiver: &mut Receiver<'_>,
    ) -> Result<Scanned, ClientError> {
        let started_ns = self.link.clock().now_ns();
        let (data, table) = (&request.data, &request.query.table);
        let schema = self.table_schema(data, table)?;
        let table_rows = self.table_rows(data, table);
        let arriving = Arriving::of(&request, schema.as_ref(), table_rows);
        self.request(&Request::Scan(request))?;
        self.scan_frames(started_ns, arriving, receiver)
            .map_err(|source| self.broke(source))
    }

    fn scan_frames(
        &mut self,
        started_ns: u64,
        mut arriving: Arriving,
        receiver: &mut Receiver<'_>,
    ) -> Result<Scanned, LinkError> {
        let header = self.link.receive_answer_of(Tag::Schema)?;
        let schema = decode_schema(&self.link.receive_body(header)?)?;
        arriving.schema(&schema)?;
        let mut first_batch = None;
        let (mut stopped, mut bytes_since) = (false, 0);
        loop {
            let was_there = self.meter.is_some() && self.link.peer_stirs();
            let header = self.link.receive_answer()?;
            match Tag::of(header.tag)? {
                Tag::Batch | Tag::Compact if stopped => {
                    bytes_since += header.len;
                    if bytes_since > IN_FLIGHT_BYTES_MAX {
                        return Err(LinkError::OutOfPlace(header.tag));
                    }
                    let body = self.spare.receive(&mut self.link, header)?;
                    self.spare.give_back(body);
                }
                tag @ (Tag::Batch | Tag::Compact) => {
                    self.may_be(tag)?;
                    let given =
                        self.take_batch((header, was_there), &schema, &mut arriving, receiver)?;
                    if given.is_some() {
                        first_batch.get_or_insert_with(|| self.link.since(started_ns));
                    }
                    stopped = given.is_some_and(|given| given.is_break());
                }
                Tag::Partial => {
                    self.take_partial(header, &schema, &mut arriving, receiver)?;
                    first_batch.get_or_insert_with(|| self.link.since(started_ns));
                }
                Tag::End => {
                    let end = protocol::decode(&self.link.receive_body(header)?)?;
                    arriving.end(&end, stopped)?;
                    let first_batch = first_batch.unwrap_or_else(|| self.link.since(started_ns));
                    return Ok(Scanned {
                        schema,
                        end,
                        first_batch,
                    });
                }
                _ => return Err(LinkError::OutOfPlace(header.tag)),
            }
        }
    }

    /// Refuses a compact batch that was not asked for.
    fn may_be(&self, tag: Tag) -> Result<(), LinkError> {
        let is_asked = self.capabilities & CAPABILITY_COMPACT != 0;
        match tag == Tag::Compact && !is_asked {
            true => Err(LinkError::OutOfPlace(tag.into())),
            false => Ok(()),
        }
    }

    /// Receives a batch and gives it on; `None` of one without rows. Says to the agent if that is enough.
    fn take_batch(
        &mut self,
        (header, was_there): (Header, bool),
        schema: &SchemaRef,
        arriving: &mut Arriving,
        receiver: &mut Receiver<'_>,
    ) -> Result<Option<ControlFlow<()>>, LinkError> {
        let body = self.spare.receive(&mut self.link, header)?;
        if let Some(meter) = &self.meter {
            meter(header.len as u64, was_there);
        }
        let mut expanded = None;
        let message = match Tag::of(header.tag)? {
            Tag::Compact => {
                let (whole, bytes) = self.expander.expand(&body[..header.len])?;
                let message = whole.slice_with_length(0, bytes);
                expanded = Some(whole);
                message
            }
            _ => body.slice_with_length(0, header.len),
        };
        let batch = decode_batch(&message, schema)?;
        arriving.batch(&batch, message.len())?;
        // The batch alone holds it, so that its memory can be used again.
        drop(message);
        let given = match (batch.num_rows(), &mut *receiver) {
            (0, _) => {
                self.link.charge(EMPTY_BATCH)?;
                None
            }
            (_, Receiver::Rows { sink, .. }) => Some(sink(&batch)),
            (_, Receiver::Partial { .. }) => return Err(LinkError::OutOfPlace(header.tag)),
        };
        let given = match receiver.has_enough() {
            true => Some(ControlFlow::Break(())),
            false => given,
        };
        if given.is_some_and(|given| given.is_break()) {
            self.link.send(Tag::Stop, &[])?;
        }
        drop(batch);
        self.spare.give_back(body);
        if let Some(whole) = expanded {
            self.expander.give_back(whole);
        }
        Ok(given)
    }

    /// Receives what the agent has accumulated, and adds it.
    fn take_partial(
        &mut self,
        header: Header,
        schema: &SchemaRef,
        arriving: &mut Arriving,
        receiver: &mut Receiver<'_>,
    ) -> Result<(), LinkError> {
        let Receiver::Partial { merged, failed, .. } = receiver else {
            return Err(LinkError::OutOfPlace(header.tag));
        };
        let body = self.link.receive_body(header)?;
        if merged.output_schema() != schema {
            *failed = Some(ScanError::Type(
                "what is added up is the aggregate of another query".to_owned(),
            ));
            return arriving.partial(None);
        }
        match merged.add(&body) {
            Ok(groups) => arriving.partial(Some(groups)),
            Err(ScanError::Malformed(_)) => Err(LinkError::Malformed("a partial aggregate")),
            Err(error) => {
                *failed = Some(error);
                arriving.partial(None)
            }
        }
    }
}
