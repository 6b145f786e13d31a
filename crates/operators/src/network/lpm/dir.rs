//! IPv4 where two bytes decide each address: the fine table's, and for few that of a page behind it (as in DIR-24-8: Gupta, Lin and McKeown,
//! "Routing Lookups in Hardware at Memory Access Speeds", 1998).
//!
//! A lookup waits for memory. A CPU has as many lookups under way as its reorder buffer holds instructions of, and a
//! small core's holds few. So each lookup begins with a prefetch of the line of one that comes [`AHEAD`] places later. One branch depends on what a table
//! says: whether a route of more than 24 bits counts. A short call has it in the loop. A longer one lists such addresses, and looks them
//! up at the end of each stretch, so that a wrong guess stops no other lookup.
//!
//! Other methods, beside this one in turn, with tables of a million routes and calls of 32 to 524,288 addresses (measured, in a loop outside of dpb; code for x86-64-v3 on an AMD EPYC of family 25,
//! model 1, and an Intel Xeon of family 6, model 207). No prefetch took 1.0 to 2.0 times as long on the EPYC, and 0.9 to 1.3 on the Xeon. To prefetch the lines of pages
//! too took 1.1 to 2.0 times as long. To ask a table of 20 bits first, which a core's own cache holds, took 0.8 to 1.4 times as long for random keys, and 2 to
//! 3 times for keys of routes. A list in calls of up to 64 took 0.9 to 1.3 times as long. To read a page for every address takes twice the instructions.

use dpb_core::prefetch::prefetch;

use super::direct::{self, ASK, FINE_BITS, SLOTS};
use super::hops::Hops;
use super::pages::PAGE;
use super::trie::Trie;

/// Places between a lookup and the one whose line it prefetches. On both CPUs 96 and 128 were no better, and 32 took up to 1.2 times as long.
const AHEAD: usize = 64;
/// Addresses that share a list of those with a page. What it holds stays in the L1 cache.
const STRETCH: usize = 256;

/// The memory that lookups read from.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    direct: &'a [u8; direct::BYTES],
    pages: &'a [u8],
    /// By slot of the root, the place of the page of the first child.
    first: &'a [u32; SLOTS],
    hops: &'a [u32; 256],
}

/// A queue's memory: the addresses with a page, by number in their stretch. No value is read that the call has not written.
pub(super) struct Scratch([u16; STRETCH]);

impl Default for Scratch {
    fn default() -> Self {
        Self([0; _])
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

    /// Prefetches the fine table's line for an address.
    #[inline(always)]
    fn prefetch(&self, address: [u8; 4]) {
        prefetch(self.direct, slot(address));
    }

    /// The fine table's byte of an address: a hop's code, or above [`ASK`] the number of a page.
    #[inline(always)]
    fn says(&self, address: [u8; 4]) -> u8 {
        self.direct[slot(address)]
    }

    /// The code of an address that has a page, whose number the fine table `says`.
    #[inline(always)]
    fn code_in_page(&self, address: [u8; 4], says: u8) -> u8 {
        let root = u16::from_be_bytes([address[0], address[1]]);
        let page = self.first[usize::from(root)] + u32::from(!says);
        self.pages[page as usize * PAGE + usize::from(address[3])]
    }

    #[inline(always)]
    fn hop(&self, code: u8) -> [u8; 4] {
        self.hops[usize::from(code)].to_le_bytes()
    }

    /// The hops of few addresses.
    #[inline(always)]
    fn few(&self, addresses: &[[u8; 4]], found: &mut [[u8; 4]]) {
        for address in addresses {
            self.prefetch(*address);
        }
        for (address, found) in addresses.iter().zip(found) {
            let mut code = self.says(*address);
            if code > ASK {
                code = self.code_in_page(*address, code);
            }
            *found = self.hop(code);
        }
    }

    /// The hops of more than [`AHEAD`] addresses.
    #[inline(never)]
    fn many(&self, addresses: &[[u8; 4]], found: &mut [[u8; 4]], Scratch(list): &mut Scratch) {
        let (first, mut ahead) = addresses.split_at(AHEAD);
        for address in first {
            self.prefetch(*address);
        }
        for (addresses, found) in addresses.chunks(STRETCH).zip(found.chunks_mut(STRETCH)) {
            let (now, later) = ahead.split_at(addresses.len().min(ahead.len()));
            let mut listed = 0;
            let mut ask = |number: usize, found: &mut [u8; 4]| {
                let says = self.says(addresses[number]);
                *found = self.hop(says);
                // No more are listed than there are. The mask spares the check of that.
                list[listed % STRETCH] = number as u16;
                listed += usize::from(says > ASK);
            };
            let (found_now, found_last) = found.split_at_mut(now.len());
            for (number, (found, ahead)) in found_now.iter_mut().zip(now).enumerate() {
                self.prefetch(*ahead);
                ask(number, found);
            }
            for (number, found) in found_last.iter_mut().enumerate() {
                ask(now.len() + number, found);
            }
            for number in &list[..listed] {
                let number = usize::from(*number);
                let address = addresses[number];
                found[number] = self.hop(self.code_in_page(address, self.says(address)));
            }
            ahead = later;
        }
    }
}

/// The place of an address in the fine table.
#[inline(always)]
fn slot(address: [u8; 4]) -> usize {
    (u32::from_be_bytes(address) >> (32 - FINE_BITS)) as usize
}

/// The hop of each address, little endian.
#[inline(always)]
pub(super) fn lookup_all(
    view: View<'_>,
    addresses: &[[u8; 4]],
    found: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    match addresses.len() <= AHEAD {
        true => view.few(addresses, found),
        false => view.many(addresses, found, scratch),
    }
}
