//! Scripts of changes to a table of routes, as bytes.
//!
//! Changes have one length: a byte that is 1 to send a prefix to a hop and 0 to take it out; a byte with the prefix's length; its
//! address in network order; the hop, four bytes little endian, which means nothing where a prefix is taken out.

use dpb_core::ChangeError;

use super::NO_ROUTE;
use super::route::{Address, Prefix};

/// A change: a prefix, and the hop it gets, if it is not taken out.
pub(super) type Change<A> = (Prefix<A>, Option<u32>);

/// Bytes of a change.
pub(super) const fn change_bytes<A: Address>() -> usize {
    A::BYTES + 6
}

/// Appends a change to a script, as the operators `lpm4-update` and `lpm6-update` and the controls of `lpm4` and `lpm6` read it: `prefix`
/// is sent to `hop`, or taken out.
///
/// # Panics
/// If the hop is [`NO_ROUTE`].
pub fn write_change<A: Address>(prefix: Prefix<A>, hop: Option<u32>, script: &mut Vec<u8>) {
    assert_ne!(hop, Some(NO_ROUTE), "no route can have this hop");
    script.extend([u8::from(hop.is_some()), prefix.bits()]);
    prefix.address().to_wire(script);
    script.extend(hop.unwrap_or(0).to_le_bytes());
}

/// Reads a change. `None` if it is malformed.
pub(super) fn parse<A: Address>(change: &[u8]) -> Option<Change<A>> {
    let (head, rest) = change.split_at_checked(2)?;
    let (address, hop) = rest.split_at_checked(A::BYTES)?;
    let prefix = Prefix::new(A::from_wire(address), head[1])?;
    let hop = u32::from_le_bytes(hop.try_into().ok()?);
    match head[0] {
        0 => Some((prefix, None)),
        1 if hop != NO_ROUTE => Some((prefix, Some(hop))),
        _ => None,
    }
}

/// The changes of a script.
///
/// # Errors
/// [`ChangeError::Malformed`].
pub(super) fn changes<A: Address>(
    script: &[u8],
) -> Result<impl Iterator<Item = Change<A>>, ChangeError> {
    let changes = || script.chunks(change_bytes::<A>()).map(parse);
    match changes().position(|change| change.is_none()) {
        Some(number) => Err(ChangeError::Malformed {
            at: number * change_bytes::<A>(),
        }),
        None => Ok(changes().flatten()),
    }
}
