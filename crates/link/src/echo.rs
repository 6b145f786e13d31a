//! The service `echo`: every body comes back as it was. It measures a link, and is the smallest example of a service.
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 16 body | client | any bytes | 1 MiB |
//! | 144 echo | agent | the same | 1 MiB |

use std::sync::Arc;
use std::time::Duration;

use dpb_core::Timer;

use crate::budget::Budget;
use crate::error::LinkError;
use crate::link::Link;
use crate::service::{ClientInfo, Service};
use crate::tag::{STOP, Tags};

/// The service's name.
pub const NAME: &str = "echo";
/// The version of its protocol.
pub const VERSION: u16 = 1;
/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The tags of its frames.
pub const TAGS: Tags = Tags {
    body_bytes_max: |tag| matches!(tag, BODY | ECHO).then_some(BODY_BYTES_MAX),
    is_bulk: |_| false,
};

/// A body that is to come back.
const BODY: u8 = 16;
/// The body that came.
const ECHO: u8 = 144;
/// Most memory of all bodies together.
const BODIES_BYTES_MAX: u64 = 8 << 20;
/// The time that a client may take to send what it has announced.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// The service.
pub struct Echo {
    bodies: Budget,
    idle_patience: Option<Duration>,
}

impl Echo {
    /// An echo whose clients may be idle for so long between bodies; `None` for as long as they like. Waits go by `clock`.
    pub fn new(idle_patience: Option<Duration>, clock: &Arc<dyn Timer>) -> Self {
        Self {
            bodies: Budget::new(BODIES_BYTES_MAX, &Arc::default(), clock),
            idle_patience,
        }
    }
}

impl Service for Echo {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> u16 {
        VERSION
    }

    fn tags(&self) -> Tags {
        TAGS
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        loop {
            link.set_deadline(self.idle_patience);
            let Some(header) = link.receive_header()? else {
                return Ok(());
            };
            match header.tag {
                BODY => {}
                STOP => continue,
                tag => return Err(LinkError::OutOfPlace(tag)),
            }
            let bytes = header.len as u64;
            let _held = self
                .bodies
                .reserve(bytes, &|| link.peer_gone(), |_| bytes)?;
            link.set_deadline(Some(BODY_PATIENCE));
            let body = link.receive_body(header)?;
            link.send(ECHO, &body)?;
        }
    }
}

/// Sends a body over a link that has the service open, and waits for it to come back.
///
/// # Errors
/// Those of the link; [`LinkError::Disbelieved`] if other bytes came.
pub fn round_trip(link: &mut Link, body: &[u8]) -> Result<(), LinkError> {
    link.send(BODY, body)?;
    let header = link.receive_answer_of(ECHO)?;
    match link.receive_body(header)? == body {
        true => Ok(()),
        false => Err(LinkError::Disbelieved(format!(
            "{} bytes came back changed",
            header.len
        ))),
    }
}
