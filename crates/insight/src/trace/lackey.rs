//! The text that Valgrind's lackey prints with `--trace-mem=yes`: a line for each instruction and, behind it, one for each of its
//! accesses.

use std::io::BufRead;

use super::{Access, Analyser, Direction, TraceError};

/// Most bytes of a line that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Tells the analyser what the text says. The text has no bytes of instructions: `code` finds those of an address, so many, and is
/// asked once for each. Instructions that it does not find are counted as undecoded.
///
/// # Errors
/// If the text cannot be read or is none of lackey's.
pub fn read_lackey(
    text: &mut dyn BufRead,
    analyser: &mut Analyser,
    code: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Result<(), TraceError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = std::io::Read::take(&mut *text, LINE_BYTES_MAX);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_ascii_end();
        // Words of Valgrind itself.
        if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
            continue;
        }
        let wrong = || TraceError::Malformed(format!("`{}`", line.escape_ascii()));
        let (kind, place) = line.split_at_checked(3).ok_or_else(wrong)?;
        let (address, bytes) = place_of(place).ok_or_else(wrong)?;
        let direction = match kind {
            b"I  " => {
                instruction(analyser, code, address, bytes)?;
                continue;
            }
            b" L " => Direction::Load,
            b" S " => Direction::Store,
            b" M " => Direction::Modify,
            _ => return Err(wrong()),
        };
        analyser.access(Access {
            address,
            bytes,
            direction,
        })?;
    }
}

fn instruction(
    analyser: &mut Analyser,
    code: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    address: u64,
    bytes: u32,
) -> Result<(), TraceError> {
    let length = u8::try_from(bytes).unwrap_or(u8::MAX);
    let id = match analyser.known(address, length) {
        Some(id) => id,
        None => match code(address, bytes as usize) {
            Some(code) => analyser.define(address, &code)?,
            None => analyser.define_unknown(address, bytes as usize)?,
        },
    };
    analyser.execute(id);
    Ok(())
}

/// `04001090,3`: an address, hexadecimal, and a number of bytes.
fn place_of(text: &[u8]) -> Option<(u64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, bytes) = text.split_once(',')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_plain(address) || !is_plain(bytes) {
        return None;
    }
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((address, bytes.parse().ok()?))
}
