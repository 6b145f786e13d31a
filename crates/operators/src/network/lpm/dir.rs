//! IPv4 where two bytes decide each address: the fine table's, and for few that of a page behind it (as in DIR-24-8: Gupta, Lin and McKeown,
//! "Routing Lookups in Hardware at Memory Access Speeds", 1998).
//!
//! What a lookup waits for is memory, and a CPU has as many lookups under way as its reorder buffer holds instructions of. So the loop is as
//! short as can be. One branch depends on what a table says: whether a route of more than 24 bits counts, which is rare and mostly guessed. To do
//! without it, by reading a page for every address, takes twice the instructions, and was slower in calls of 32 to 524,288 addresses (a Xeon of
//! family 6, model 207, at x86-64-v3 and with AVX-512's gathers). To read the codes of 32 addresses before a branch depends on one took 1.2 to
//! 1.6 times as long there for keys drawn from routes: the lines that a wrong guess asked for are had all the same. To list the
//! addresses of a page and to take a number of them that is rarely exceeded behind each 64, with no such branch at all, took 1.2 to 2 times as long for all keys.
//!
//! The coarse table pays where it decides for most addresses of a call. From time to time a stretch asks it first, and says whether the next ones do.

use super::direct::{self, ASK, COARSE_AT, COARSE_BITS, FINE_BITS, SLOTS};
use super::hops::Hops;
use super::pages::PAGE;
use super::trie::Trie;

/// Addresses whose lookups the coarse table begins together. What they note stays in the L1 cache.
const STRETCH: usize = 256;
/// Addresses from which on the coarse table may pay: in fewer, the second pass begins and ends too often.
const COARSE_MIN: usize = 128;
/// Addresses for which one answer holds, whether the coarse table pays.
const SAMPLE: usize = 64 * STRETCH;

/// The memory that lookups read from.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    direct: &'a [u8; direct::BYTES],
    pages: &'a [u8],
    /// By slot of the root, the place of the page of the first child.
    first: &'a [u32; SLOTS],
    hops: &'a [u32; 256],
}

/// A queue's memory. Of the list, no value is read that the call has not written.
pub(super) struct Scratch {
    /// The addresses that the coarse table left, by number in the stretch.
    left: [u16; STRETCH],
    coarse_pays: bool,
    /// Addresses until it is found out again.
    until_sample: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            left: [0; _],
            coarse_pays: false,
            until_sample: 0,
        }
    }
}

impl<'a> View<'a> {
    /// The memory of `trie`, whose codes are those of `hops`; `None` if some addresses are left to the trie.
    #[inline(always)]
    pub(super) fn of(trie: &'a Trie, hops: &'a Hops) -> Option<Self> {
        let pages = trie.pages()?;
        let is_whole = pages.is_whole() && hops.by_code().len() <= usize::from(ASK);
        is_whole.then(|| {
            let (direct, _, _) = trie.parts();
            let (pages, first) = pages.parts();
            let hops = hops.frequent();
            Self {
                direct,
                pages,
                first,
                hops,
            }
        })
    }

    /// The hop of an address, by the fine table and the page behind it.
    #[inline(always)]
    fn hop(&self, address: [u8; 4]) -> [u8; 4] {
        let word = u32::from_be_bytes(address);
        let mut code = self.direct[(word >> (32 - FINE_BITS)) as usize];
        if code > ASK {
            let page = self.first[(word >> 16) as usize] + u32::from(!code);
            code = self.pages[page as usize * PAGE + usize::from(address[3])];
        }
        self.hops[usize::from(code)].to_le_bytes()
    }

    /// The hops of addresses one after the other.
    #[inline(always)]
    fn ask_fine(&self, addresses: &[[u8; 4]], found: &mut [[u8; 4]]) {
        for (address, found) in addresses.iter().zip(found) {
            *found = self.hop(*address);
        }
    }

    /// The hops of up to [`STRETCH`] addresses: first those that the coarse table knows, then the others, which it lists. Says how many those were.
    #[inline(never)]
    fn ask_coarse(
        &self,
        addresses: &[[u8; 4]],
        found: &mut [[u8; 4]],
        list: &mut [u16; STRETCH],
    ) -> usize {
        let mut left = 0;
        for (number, (address, found)) in addresses.iter().zip(&mut *found).enumerate() {
            let word = u32::from_be_bytes(*address);
            let code = self.direct[COARSE_AT + (word >> (32 - COARSE_BITS)) as usize];
            *found = self.hops[usize::from(code)].to_le_bytes();
            list[left] = number as u16;
            left += usize::from(code >= ASK);
        }
        for number in &list[..left] {
            let number = usize::from(*number);
            found[number] = self.hop(addresses[number]);
        }
        left
    }
}

/// The hop of each address, little endian.
#[inline(always)]
pub(super) fn lookup_all(
    view: View<'_>,
    addresses: &[[u8; 4]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    match addresses.len() < COARSE_MIN {
        true => view.ask_fine(addresses, found),
        false => in_stretches(view, addresses, found, scratch),
    }
}

/// The same where the coarse table may pay.
#[inline(never)]
fn in_stretches(
    view: View<'_>,
    mut addresses: &[[u8; 4]],
    mut found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    while !addresses.is_empty() {
        // What is left of a call is too little for a sample.
        let is_sample = scratch.until_sample == 0 && addresses.len() >= COARSE_MIN;
        let by_coarse = is_sample || scratch.coarse_pays;
        let most = match (by_coarse, scratch.until_sample) {
            (true, _) => STRETCH,
            (false, 0) => addresses.len(),
            (false, until_sample) => until_sample,
        };
        let (now, later) = addresses.split_at(addresses.len().min(most));
        let (found_now, found_later) = found.split_at_mut(now.len());
        if by_coarse {
            let left = view.ask_coarse(now, found_now, &mut scratch.left);
            if is_sample {
                scratch.coarse_pays = 2 * left < now.len();
                scratch.until_sample = SAMPLE;
            }
        } else {
            view.ask_fine(now, found_now);
        }
        scratch.until_sample = scratch.until_sample.saturating_sub(now.len());
        (addresses, found) = (later, found_later);
    }
}
