//! What a scan puts out, sent as it comes.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use dpb_link::LinkError;
use dpb_link::link::{Interrupted, Link, between, stalled};

use super::halt::Halt;
use super::outbox::{Outbox, Taken};
use super::refusals::{ending, refuse};
use super::{PEER_LOOK, Shared};
use crate::ipc::Encoder;
use crate::scan::Message;
use crate::service::compact::Compactor;
use crate::service::protocol::{self, End, Refusal, Tag};
use crate::service::usage;

/// The outcome of a part of a conversation.
pub(super) type Conversed = Result<(), LinkError>;

/// The time for which an agent that scans is silent before it shows a sign of life. Clients wait several times as long.
const SIGN_OF_LIFE: Duration = match cfg!(test) {
    false => Duration::from_secs(5),
    true => Duration::from_millis(30),
};

/// How often, between two batches that are sent, the agent looks at how long a scan's threads wait for a core: the kernel
/// forgets it when they end. A look takes 3 us a thread.
pub const CORE_WAIT_LOOK: Duration = Duration::from_millis(10);

/// A piece of an engine's output.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A batch to be encoded.
    Batch(RecordBatch),
    /// A message that is ready: an encoded batch, or a partial aggregate.
    Message(Message),
}

/// The counts of a sender.
#[derive(Default)]
pub(super) struct Sent {
    rows: u64,
    batches: u64,
    stopped: bool,
}

/// Sends the schema, then what the outbox holds until it has finished, the client asks to stop, or it is gone. Messages go out under
/// `tag`.
pub(super) fn send_batches(
    shared: &Shared,
    link: &mut Link,
    (tag, schema, is_compact): (Tag, &SchemaRef, bool),
    outbox: &Outbox<Outgoing>,
    halt: &Halt,
) -> Result<Sent, LinkError> {
    let empty = RecordBatch::new_empty(Arc::clone(schema));
    let (mut encoder, schema) = Encoder::new(schema).map_err(broke)?;
    let stop = || shared.is_ending();
    let mut sent = Sent::default();
    let mut compactor = is_compact.then(Compactor::default);
    let clock = &*shared.options.clock;
    let mut looked_ns = clock.now_ns();
    send_parts(link, Tag::Schema, &[&schema], schema.len(), &stop)?;
    let mut spoke_ns = clock.now_ns();
    loop {
        let mut taken = outbox.take(PEER_LOOK);
        if matches!(taken, Taken::Nothing) && between(spoke_ns, clock.now_ns()) >= SIGN_OF_LIFE {
            taken = Taken::Item(Outgoing::Batch(empty.clone()));
        }
        if between(looked_ns, clock.now_ns()) >= CORE_WAIT_LOOK {
            usage::core_wait_s();
            looked_ns = clock.now_ns();
        }
        if let Some(header) = link.interjection()? {
            if header.tag != u8::from(Tag::Stop) {
                return Err(LinkError::OutOfPlace(header.tag));
            }
            outbox.close();
            sent.stopped = true;
        }
        if sent.stopped {
            halt.now();
        }
        match taken {
            Taken::Item(item) if !sent.stopped => {
                sent.rows += send_item(link, tag, (&mut encoder, &mut compactor), item, &stop)?;
                sent.batches += 1;
                spoke_ns = clock.now_ns();
            }
            Taken::Item(_) | Taken::Nothing => {
                if shared.is_ending() {
                    return Err(ending());
                }
            }
            Taken::Finished => return Ok(sent),
        }
    }
}

/// Sends one batch or message; says how many rows it has.
fn send_item(
    link: &mut Link,
    tag: Tag,
    (encoder, compactor): (&mut Encoder, &mut Option<Compactor>),
    item: Outgoing,
    stop: &dyn Fn() -> bool,
) -> Result<u64, LinkError> {
    match item {
        Outgoing::Batch(batch) => {
            let encoded = encoder.encode(&batch).map_err(broke)?;
            let parts: Vec<&[u8]> = encoded.parts.iter().map(Buffer::as_slice).collect();
            send_batch(link, compactor, &parts, encoded.len, stop)?;
            Ok(batch.num_rows() as u64)
        }
        Outgoing::Message(message) => {
            let bytes = message.bytes();
            if bytes.len() > tag.body_bytes_max() {
                let text = format!(
                    "a result of {} bytes; group by columns of few values",
                    bytes.len()
                );
                return Err(refuse(Refusal::Usage, text));
            }
            match tag {
                Tag::Batch => send_batch(link, compactor, &[bytes], bytes.len(), stop)?,
                tag => send_parts(link, tag, &[bytes], bytes.len(), stop)?,
            }
            Ok(message.rows())
        }
    }
}

/// Sends a batch's message, compact if the client wants it so and it becomes shorter.
fn send_batch(
    link: &mut Link,
    compactor: &mut Option<Compactor>,
    parts: &[&[u8]],
    bytes: usize,
    stop: &dyn Fn() -> bool,
) -> Result<(), LinkError> {
    match compactor
        .as_mut()
        .and_then(|compactor| compactor.compact(parts))
    {
        Some(body) => send_parts(link, Tag::Compact, &[body], body.len(), stop),
        None => send_parts(link, Tag::Batch, parts, bytes, stop),
    }
}

fn broke(error: arrow_schema::ArrowError) -> LinkError {
    refuse(Refusal::Internal, format!("cannot encode: {error}"))
}

/// Tells how the scan ended, once all its rows are sent.
pub(super) fn send_end(
    link: &mut Link,
    sent: Sent,
    end: Option<Result<End, LinkError>>,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    let end = end.unwrap_or_else(|| Err(refuse(Refusal::Internal, "the scan panicked")));
    let end = match end {
        Ok(end) => end,
        Err(_) if sent.stopped => End::default(),
        Err(error) => return Err(error),
    };
    let end = End {
        rows: sent.rows,
        batches: sent.batches,
        stopped: sent.stopped,
        ..end
    };
    settle(link, stop)?;
    link.send(Tag::End, &protocol::encode(&end))
}

fn send_parts(
    link: &mut Link,
    tag: Tag,
    parts: &[&[u8]],
    len: usize,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    carried(link.send_frame(tag, parts, len, stop)?)
}

/// Waits until all that was sent has been carried.
pub(super) fn settle(link: &mut Link, stop: &dyn Fn() -> bool) -> Conversed {
    if link.settle(stop).is_some() {
        return Err(LinkError::Closed);
    }
    carried(link.settle_pieces(stop)?)
}

pub(super) fn carried(ended: Option<Interrupted>) -> Conversed {
    match ended {
        None => Ok(()),
        Some(Interrupted::Stopped) => Err(LinkError::Closed),
        Some(Interrupted::Stalled) => Err(stalled()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use arrow_schema::{DataType, Field, Schema};
    use dpb_core::WallClock;

    use dpb_link::Stream;

    use super::super::{AgentOptions, Pushdown};
    use super::*;

    #[test]
    fn a_scan_that_finds_nothing_for_long_shows_signs_of_life() {
        let options = AgentOptions::new("127.0.0.1:0".parse().unwrap());
        let pushdown = Pushdown::new(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = |tcp| {
            let clock = Arc::new(WallClock::default());
            let mut link = Link::new(Stream::Plain(tcp), 0, clock).unwrap();
            link.set_tags(protocol::TAGS);
            link
        };
        let (mut near, mut far) = (link(near), link(listener.accept().unwrap().0));
        let schema: SchemaRef =
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let (outbox, halt) = (Outbox::new(1), Halt::default());
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let as_batches = (Tag::Batch, &schema, false);
                send_batches(&pushdown.shared, &mut near, as_batches, &outbox, &halt)
            });
            for tag in [Tag::Schema, Tag::Batch, Tag::Batch] {
                let header = far.receive_header().unwrap().unwrap();
                assert_eq!(header.tag, u8::from(tag));
                let body = far.receive_body(header).unwrap();
                if tag == Tag::Batch {
                    let batch = crate::ipc::decode_batch(&Buffer::from(&body[..]), &schema);
                    assert_eq!(batch.unwrap().num_rows(), 0);
                }
            }
            outbox.finish();
            let sent = sending.join().unwrap().unwrap();
            assert!(sent.rows == 0 && sent.batches >= 2);
        });
    }
}
