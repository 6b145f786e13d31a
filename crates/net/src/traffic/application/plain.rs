//! Protocols that are read without a key: HTTP/1.1 (RFC 9112), DNS (RFC 1035, RFC 6891), SSH's first line (RFC 4253), SMB2's first message
//! (MS-SMB2).

use dpb_core::random::SplitMix64;

use super::bytes::{Bytes, random_bytes};

/// A GET request.
pub fn http_request(host: &str, path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) dpb/1.0\r\n\
         Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br\r\n\
         Connection: keep-alive\r\n\r\n"
    )
    .into_bytes()
}

/// A response with a body of so many bytes of text.
pub fn http_response(body_bytes: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nServer: dpb\r\nContent-Type: text/plain\r\nContent-Length: {body_bytes}\r\n\r\n"
    )
    .into_bytes();
    let letters = b"etaoin shrdlu\n";
    response.extend((0..body_bytes).map(|_| letters[random.below(letters.len())]));
    response
}

/// The type of an address record of IPv4.
const TYPE_A: u16 = 1;
const TYPE_OPT: u16 = 41;
const CLASS_IN: u16 = 1;

/// A query for the address of `name`, and the response to it.
pub fn dns_exchange(name: &str, random: &mut SplitMix64) -> [Vec<u8>; 2] {
    let id = random.next_u64() as u16;
    let message = |flags: u16, answers: u16| {
        let mut message = Bytes::default();
        for field in [id, flags, 1, answers, 0, 1] {
            message.u16(field);
        }
        name.split('.')
            .for_each(|label| message.vec8(label.as_bytes()));
        message.raw(&[0]);
        message.u16(TYPE_A);
        message.u16(CLASS_IN);
        message
    };
    // EDNS: a root name, the payload that the sender takes, nothing more.
    let edns = |message: &mut Bytes| {
        message.raw(&[0]);
        message.u16(TYPE_OPT);
        message.u16(1232);
        message.u32(0);
        message.u16(0);
    };
    let mut query = message(0x0100, 0);
    edns(&mut query);
    let mut response = message(0x8180, 1);
    // The name of the question, by its offset.
    response.u16(0xc00c);
    response.u16(TYPE_A);
    response.u16(CLASS_IN);
    response.u32(300);
    let host = random.next_u64() as u8;
    response.vec16(&[198, 18, 0, host]);
    edns(&mut response);
    [query.0, response.0]
}

/// The line with which a side of SSH says what it is.
pub fn ssh_banner(is_client: bool) -> Vec<u8> {
    let software = if is_client {
        "dpb_client"
    } else {
        "dpb_server"
    };
    format!("SSH-2.0-{software}_1.0\r\n").into_bytes()
}

/// The message of a protocol that nobody has: a word that no protocol begins with, the server's name and some letters.
pub fn private_message(name: &str, random: &mut SplitMix64) -> Vec<u8> {
    let mut message = Bytes::default();
    message.raw(&[0x81, 0x02, 0x99, 0x04]);
    message.raw(b"session ");
    message.vec16(name.as_bytes());
    let letters = b"etaoin shrdlu\n";
    let count = 20 + random.below(400);
    message
        .0
        .extend((0..count).map(|_| letters[random.below(letters.len())]));
    message.0
}

/// SMB2's NEGOTIATE request for dialects 2.0.2 to 3.0.2, in the frame of direct TCP.
pub fn smb_negotiate(random: &mut SplitMix64) -> Vec<u8> {
    let mut message = Bytes::default();
    message.raw(b"\xfeSMB");
    // The header's length, then credits charged, status, command and the other fields of the header, which are zero.
    message.raw(&64u16.to_le_bytes());
    message.raw(&[0; 58]);
    message.raw(&36u16.to_le_bytes());
    let dialects = [0x0202u16, 0x0210, 0x0300, 0x0302];
    message.raw(&(dialects.len() as u16).to_le_bytes());
    // Signing enabled; reserved; no capabilities.
    message.raw(&1u16.to_le_bytes());
    message.raw(&[0; 6]);
    message.raw(&random_bytes(random, 16));
    message.raw(&[0; 8]);
    for dialect in dialects {
        message.raw(&dialect.to_le_bytes());
    }
    let mut framed = (message.0.len() as u32).to_be_bytes().to_vec();
    framed.extend(message.0);
    framed
}
