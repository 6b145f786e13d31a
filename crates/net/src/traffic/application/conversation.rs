//! Conversations: segments in both directions, with their places in TCP's sequence.

use std::ops::Range;

use dpb_core::random::SplitMix64;

use crate::flow::Flags;
use crate::packet::Sum;

use super::bytes::random_bytes;
use super::delivery::Delivery;
use super::{Application, Applications, plain, quic, tls};
use super::{ClientHello, QuicDelivery, QuicVersion, TlsOffer};

/// TCP's flags.
pub(in super::super) const FIN: u8 = Flags::FIN.0;
pub(in super::super) const SYN: u8 = Flags::SYN.0;
pub(in super::super) const PSH: u8 = 0x08;
pub(in super::super) const ACK: u8 = Flags::ACK.0;

/// A protocol of layer 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

/// A packet of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// True if the client sends it.
    pub is_from_client: bool,
    /// TCP's flags.
    pub flags: u8,
    /// Its place in the sender's sequence, from the initial number on.
    pub sequence: u32,
    /// What is acknowledged of the other side's sequence.
    pub acknowledgement: u32,
    /// Where its payload lies in [`Conversation::bytes`].
    pub payload: Range<usize>,
    /// The sum of the payload for a checksum.
    pub(in super::super) sum: Sum,
}

/// What the two sides of a flow say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    application: Application,
    /// The server's name, where the protocol has one.
    server_name: Option<String>,
    segments: Vec<Segment>,
    bytes: Vec<u8>,
    /// The sequence behind the last segment, the client's first.
    ends: [u32; 2],
}

impl Conversation {
    /// The application.
    pub fn application(&self) -> Application {
        self.application
    }

    /// The name of the server as the client says it; `None` where it says none.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The packets.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All payloads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload of a segment of this conversation.
    pub fn payload(&self, segment: &Segment) -> &[u8] {
        &self.bytes[segment.payload.clone()]
    }

    /// The sequence of each side behind the last segment: where data goes on.
    pub(in super::super) fn ends(&self) -> [u32; 2] {
        self.ends
    }
}

/// Writes segments.
struct Script {
    conversation: Conversation,
    segment_bytes_max: usize,
}

impl Script {
    fn new(
        application: Application,
        server_name: Option<String>,
        segment_bytes_max: usize,
    ) -> Self {
        Self {
            conversation: Conversation {
                application,
                server_name,
                segments: Vec::new(),
                bytes: Vec::new(),
                ends: [0, 0],
            },
            segment_bytes_max,
        }
    }

    /// One packet with this payload, at a place of the sender's sequence.
    fn push(&mut self, is_from_client: bool, flags: u8, sequence: u32, payload: &[u8]) {
        let Conversation {
            segments,
            bytes,
            ends,
            ..
        } = &mut self.conversation;
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        segments.push(Segment {
            is_from_client,
            flags,
            sequence,
            acknowledgement: if flags & ACK == 0 {
                0
            } else {
                ends[usize::from(is_from_client)]
            },
            payload: start..bytes.len(),
            sum: Sum::of(payload),
        });
        let advance = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        let end = &mut ends[usize::from(!is_from_client)];
        *end = (*end).max(sequence + advance);
    }

    /// RFC 9293, 3.5: three packets.
    fn connect(&mut self) {
        self.push(true, SYN, 0, &[]);
        self.push(false, SYN | ACK, 0, &[]);
        self.push(true, ACK, 1, &[]);
    }

    /// A message of one side in segments.
    fn say(&mut self, is_from_client: bool, message: &[u8], delivery: Delivery) {
        let from = self.conversation.ends[usize::from(!is_from_client)];
        for piece in delivery.pieces(message.len(), self.segment_bytes_max) {
            let sequence = from + piece.start as u32;
            self.push(is_from_client, PSH | ACK, sequence, &message[piece]);
        }
    }

    fn datagram(&mut self, is_from_client: bool, payload: &[u8]) {
        self.push(is_from_client, 0, 0, payload);
    }
}

/// A conversation of `application` with the server of this name.
pub(super) fn of(
    application: Application,
    server_name: String,
    mix: &Applications,
    segment_bytes_max: usize,
    random: &mut SplitMix64,
) -> Conversation {
    let named = match application {
        Application::Ssh | Application::Smb => None,
        _ => Some(server_name.clone()),
    };
    let mut script = Script::new(application, named, segment_bytes_max);
    let tls = |script: &mut Script, offer, random: &mut SplitMix64| {
        tls_over_tcp(script, offer, &server_name, mix.delivery, random);
    };
    let quic = |script: &mut Script, version, offer, random: &mut SplitMix64| {
        quic_flow(
            script,
            version,
            offer,
            &server_name,
            mix.quic_delivery,
            random,
        );
    };
    match application {
        Application::Tls12 => tls(&mut script, TlsOffer::Tls12, random),
        Application::Tls13 => tls(&mut script, TlsOffer::Tls13, random),
        Application::Tls13PostQuantum => tls(&mut script, TlsOffer::Tls13PostQuantum, random),
        Application::Http => {
            script.connect();
            let path = format!("/{:x}/index.html", random.next_u64());
            let request = plain::http_request(&server_name, &path);
            script.say(true, &request, mix.delivery);
            let body_bytes = 500 + random.below(4000);
            let response = plain::http_response(body_bytes, random);
            script.say(false, &response, Delivery::Whole);
        }
        Application::Dns => {
            let [query, response] = plain::dns_exchange(&server_name, random);
            script.datagram(true, &query);
            script.datagram(false, &response);
        }
        Application::QuicV1 => quic(&mut script, QuicVersion::V1, TlsOffer::Tls13, random),
        Application::QuicV1PostQuantum => quic(
            &mut script,
            QuicVersion::V1,
            TlsOffer::Tls13PostQuantum,
            random,
        ),
        Application::QuicV2 => quic(&mut script, QuicVersion::V2, TlsOffer::Tls13, random),
        Application::Ssh => {
            script.connect();
            script.say(true, &plain::ssh_banner(true), mix.delivery);
            script.say(false, &plain::ssh_banner(false), Delivery::Whole);
        }
        Application::Smb => {
            script.connect();
            script.say(true, &plain::smb_negotiate(random), mix.delivery);
        }
        Application::Private => {
            script.connect();
            let message = plain::private_message(&server_name, random);
            script.say(true, &message, mix.delivery);
        }
    }
    script.conversation
}

fn tls_over_tcp(
    script: &mut Script,
    offer: TlsOffer,
    server_name: &str,
    delivery: Delivery,
    random: &mut SplitMix64,
) {
    script.connect();
    let hello = ClientHello::browser(offer, server_name).message(random);
    let records = tls::handshake_records(&hello, usize::MAX);
    script.say(true, &records, delivery);
    let mut answer = tls::handshake_records(&tls::server_hello(offer, random), usize::MAX);
    // What follows the server's hello is encrypted: of 1.3 all of it, of a resumed session of 1.2 what ends the handshake.
    let rest: &[usize] = match offer {
        TlsOffer::Tls12 => &[40],
        TlsOffer::Tls13 | TlsOffer::Tls13PostQuantum => &[32, 2800, 280, 69],
    };
    answer.extend(tls::encrypted_records(rest, random));
    script.say(false, &answer, Delivery::Whole);
    let finished = tls::encrypted_records(&[69], random);
    script.say(true, &finished, Delivery::Whole);
}

fn quic_flow(
    script: &mut Script,
    version: QuicVersion,
    offer: TlsOffer,
    server_name: &str,
    delivery: QuicDelivery,
    random: &mut SplitMix64,
) {
    let source_id = random_bytes(random, 8);
    let hello = ClientHello::quic(offer, server_name, &source_id).message(random);
    let (datagrams, _) = quic::client_initials(version, &hello, delivery, &source_id, random);
    for datagram in datagrams {
        script.datagram(true, &datagram);
    }
}
