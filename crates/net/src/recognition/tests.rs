//! Against the RFCs' own bytes, JA4's specification, hellos of OpenSSL, and models of what is put together.

mod dns;
mod flows;
mod http;
mod ja4;
mod quic;
mod rules;
mod streams;
mod tls;

use super::*;
use crate::flow::{Direction, Flags};

/// Bytes by their hexadecimal form.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = (text.bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|digit| (digit as char).to_digit(16).expect("hexadecimal") as u8)
        .collect();
    let (pairs, rest) = digits.as_chunks();
    assert!(rest.is_empty());
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

/// The ClientHello of RFC 8448, section 3, a handshake message.
const RFC_8448: &str = "010000c00303cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece70000061301130313020100009100\
    00000b0009000006736572766572ff01000100000a00140012001d0017001800190100010101020103010400230000003300260024001d002099381de560e4bd43\
    d23d8e435a7dbafeb3c06e51c13cae4d5413691e529aaf2c002b0003020304000d0020001e04030503060302030804080508060401050106010201040205020602\
    0202002d00020101001c00024001";

/// Its ServerHello.
const RFC_8448_ANSWER: &str = "020000560303a6af06a4121860dc5e6e60249cd34c95930c8ac5cb1434dac155772ed3e2692800130100002e00330024001d00\
    20c9828876112095fe66762bdbf7c672e156d6cc253b833df1dd69b1b04e751f0f002b00020304";

/// A record of OpenSSL 3.0.19 that offers TLS 1.2, for www.example.org.
const OPENSSL_12: &str = "16030100b5010000b10303855b88e010d3e01746815d584732e999c695df578fcd83402f117e186cd3853c00001ec02cc030c02bc02f\
    cca9cca8c024c028c023c027009f009e006b006700ff0100006a00000014001200000f7777772e6578616d706c652e6f7267000b000403000102000a000c000a00\
    1d0017001e00190018002300000016000000170000000d002a0028040305030603080708080809080a080b08040805080604010501060103030301030204020502\
    0602";

/// The same with TLS 1.3 and ALPN, for static.example.org, less the padding that OpenSSL adds.
const OPENSSL_13: &str = "1603010133010001 2f03030ed3be91f28568440cf77795e5b923ae8238c45c10b19a0e2695ebc2acb467a920f81a937c08210299599e\
    83bc9414f758404dd97d2f8ea6ba5c462c6b50a959780024130213031301c02cc030c02bc02fcca9cca8c024c028c023c027009f009e006b006700ff010000c200\
    00001700150000127374617469632e6578616d706c652e6f7267000b000403000102000a00160014001d0017001e00190018010001010102010301040023000000\
    10000e000c02683208687474702f312e310016000000170000000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302\
    040205020602002b00050403040303002d00020101003300260024001d002023f5ea4b413e736319e2ee14dba73b629a6d3aaebda5d3c9474a53e87861e533";

/// An extension.
fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [
        &kind.to_be_bytes(),
        &(body.len() as u16).to_be_bytes(),
        body,
    ]
    .concat()
}

fn codes(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|code| code.to_be_bytes()).collect()
}

fn vector_16(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes(), body].concat()
}

fn server_name(name: &str) -> Vec<u8> {
    let entry = [&[0][..], &vector_16(name.as_bytes())].concat();
    extension(0, &vector_16(&entry))
}

/// A ClientHello's message with these ciphers and extensions.
fn hello(ciphers: &[u16], extensions: &[Vec<u8>]) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[32],
        &[9; 32],
        &vector_16(&codes(ciphers)),
        &[1, 0],
        &vector_16(&extensions.concat()),
    ]
    .concat();
    [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
}

/// A hello of 1.8 kB as clients with X25519MLKEM768 send it: GREASE, a key of 1216 bytes, the server's name behind it.
fn long_hello(name: &str) -> Vec<u8> {
    let mut shares = codes(&[0x2a2a]);
    shares.extend(vector_16(&[0]));
    shares.extend(codes(&[0x11ec]));
    shares.extend(vector_16(&[0x5a; 1216]));
    shares.extend(codes(&[0x001d]));
    shares.extend(vector_16(&[0xa5; 32]));
    hello(
        &[0x4a4a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f],
        &[
            extension(0x5a5a, &[]),
            extension(10, &vector_16(&codes(&[0x2a2a, 0x11ec, 0x001d, 0x0017]))),
            extension(51, &vector_16(&shares)),
            extension(13, &vector_16(&codes(&[0x0403, 0x0804, 0x0401]))),
            extension(0xfe0d, &[0; 218]),
            extension(43, &[&[6][..], &codes(&[0x7a7a, 0x0304, 0x0303])].concat()),
            server_name(name),
            extension(16, &vector_16(b"\x02h2\x08http/1.1")),
            extension(0xfafa, &[0]),
        ],
    )
}

/// A message in records of at most so many bytes.
fn records(message: &[u8], bytes_max: usize) -> Vec<u8> {
    let record = |piece: &[u8]| [&[22, 3, 1][..], &vector_16(piece)].concat();
    message.chunks(bytes_max).flat_map(record).collect()
}

/// Packets of one flow between a client and a server, and the recognizer that sees them.
struct Wire {
    recognizer: Recognizer,
    mark: Mark,
    now_ms: u32,
    /// Server's port.
    port: u16,
}

/// The numbers of both sides' SYNs: one direction wraps around within its first bytes.
const NUMBERS: [u32; 2] = [u32::MAX - 5, 77_000_000];
/// `::ffff:192.0.2.x`.
const ADDRESSES: [u128; 2] = [0xffff_c000_0201, 0xffff_c000_0202];

/// What a packet brought, without a borrow.
#[derive(Clone, Debug, PartialEq)]
enum Got {
    Inspect,
    Verdict(Box<Verdict>),
    GaveUp(GiveUp, Box<Verdict>),
    Known(Label),
}

impl From<Outcome<'_>> for Got {
    fn from(outcome: Outcome<'_>) -> Self {
        match outcome {
            Outcome::Inspect => Self::Inspect,
            Outcome::Verdict(verdict) => Self::Verdict(Box::new(*verdict)),
            Outcome::GaveUp(why, verdict) => Self::GaveUp(why, Box::new(*verdict)),
            Outcome::Known(label) => Self::Known(label),
        }
    }
}

impl Got {
    fn verdict(&self) -> &Verdict {
        match self {
            Self::Verdict(verdict) | Self::GaveUp(_, verdict) => verdict,
            other => panic!("no verdict but {other:?}"),
        }
    }

    fn host(&self) -> String {
        self.verdict().host.to_string()
    }

    fn protocol(&self) -> Protocol {
        self.verdict().label.protocol
    }
}

impl Wire {
    fn new(port: u16) -> Self {
        Self::with(port, Settings::default())
    }

    fn with(port: u16, settings: Settings) -> Self {
        Self {
            recognizer: Recognizer::new(settings, Applications::built_in()),
            mark: Mark::default(),
            now_ms: 5,
            port,
        }
    }

    /// The client is the lower side.
    fn packet<'a>(&self, direction: Direction, payload: &'a [u8]) -> Packet<'a> {
        let [low, high] = ADDRESSES;
        let (addresses, ports) = match direction {
            Direction::Up => ([low, high], [40_000, self.port]),
            Direction::Down => ([high, low], [self.port, 40_000]),
        };
        Packet {
            flow: 1,
            direction,
            segment: None,
            addresses,
            ports,
            payload,
        }
    }

    fn send(&mut self, direction: Direction, offset: i64, flags: Flags, payload: &[u8]) -> Got {
        let first = NUMBERS[direction as usize].wrapping_add(1);
        let sequence = match flags.has(Flags::SYN) {
            true => first.wrapping_sub(1),
            false => first.wrapping_add(offset as u32),
        };
        let mut packet = self.packet(direction, payload);
        packet.segment = Some(Segment { sequence, flags });
        self.recognizer
            .packet(&mut self.mark, &packet, self.now_ms)
            .into()
    }

    /// SYN and SYN-ACK.
    fn open(&mut self) {
        let both = Flags::SYN.with(Flags::ACK);
        assert_eq!(self.send(Direction::Up, 0, Flags::SYN, b""), Got::Inspect);
        assert_eq!(self.send(Direction::Down, 0, both, b""), Got::Inspect);
        assert_eq!(self.send(Direction::Up, 0, Flags::ACK, b""), Got::Inspect);
    }

    fn client(&mut self, offset: usize, payload: &[u8]) -> Got {
        self.send(Direction::Up, offset as i64, Flags::ACK, payload)
    }

    fn server(&mut self, offset: usize, payload: &[u8]) -> Got {
        self.send(Direction::Down, offset as i64, Flags::ACK, payload)
    }

    fn datagram(&mut self, direction: Direction, payload: &[u8]) -> Got {
        let packet = self.packet(direction, payload);
        self.recognizer
            .packet(&mut self.mark, &packet, self.now_ms)
            .into()
    }

    fn end(&mut self) -> Option<Verdict> {
        let (mark, now_ms) = (&mut self.mark, self.now_ms);
        let outcome = self.recognizer.end(mark, now_ms);
        outcome.and_then(Outcome::verdict).copied()
    }

    /// A new flow of the same recognizer.
    fn next(&mut self, port: u16) {
        self.mark = Mark::default();
        self.port = port;
    }
}
