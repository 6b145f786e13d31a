//! Longest prefix match: the next hop of an address is that of the longest prefix in the table that it starts with.
//!
#![doc = include_str!("../../docs/lpm.md")]

#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod dir;
mod direct;
mod ends;
mod generator;
mod hops;
mod live;
mod loaded;
mod lookup;
pub mod model;
mod pages;
mod passes;
mod pool;
mod route;
mod script;
mod six;
mod spans;
#[cfg(test)]
mod tests;
mod trie;
mod update;
mod values;

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

use dpb_core::SetupError;

pub use generator::{Generated, LookupKeys, draw};
pub(crate) use lookup::{LPM4, LPM6};
pub use route::{Address, Prefix, Route, RouteError, parse, write};
pub use script::write_change;
pub use update::Updates;
pub(crate) use update::{LPM4_UPDATE, LPM6_UPDATE};

use crate::implementation::{Implementation, codes};
use hops::Hops;
use trie::Trie;

/// The hop of addresses that no route covers. No route can have it.
pub const NO_ROUTE: u32 = u32::MAX;

/// IPv4 routes.
pub type Lpm4 = Lpm<Ipv4Addr>;
/// IPv6 routes.
pub type Lpm6 = Lpm<Ipv6Addr>;

/// Most bytes of blocks that an insertion starts from. There is room for four times as many, for all the blocks that a
/// short prefix makes larger.
const BLOCK_BYTES_MAX: usize = 1 << 28;

/// A table of routes.
///
/// Lookups read a compact copy of the routes, which each change brings up to date at once. A change costs the blocks that
/// it touches: one for a route longer than 16 bits; for a shorter one those in which it shows through, up to all of them
/// for a default route. One to an IPv6 route of 17 to 40 bits also costs the tables and lines below it.
///
/// ```
/// use dpb_operators::network::lpm::{Lpm4, NO_ROUTE, parse};
///
/// let mut table = Lpm4::new(&parse("192.0.2.0/24 7\n192.0.2.128/25 8\n")?)?;
/// assert_eq!(table.lookup("192.0.2.200".parse()?), 8);
/// assert_eq!(table.remove("192.0.2.128/25".parse()?), Some(8));
/// assert_eq!(table.lookup("192.0.2.200".parse()?), 7);
/// assert_eq!(table.insert("0.0.0.0/0".parse()?, 1)?, None);
/// assert_eq!(table.lookup("198.51.100.1".parse()?), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Lpm<A> {
    trie: Trie,
    hops: Hops,
    len: usize,
    /// See [`BLOCK_BYTES_MAX`].
    block_bytes_max: usize,
    code: Code,
    family: PhantomData<A>,
}

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": Avx2,
        Tables,
        Portable,
    }
}

/// Working memory of batches of lookups. A caller makes one, keeps it for all its batches, and has it to itself while a batch
/// runs.
#[derive(Default)]
pub struct LookupScratch {
    dir: Box<dir::Scratch>,
    passes: Box<passes::Scratch>,
    six: Box<six::Scratch>,
    #[cfg(target_arch = "x86_64")]
    avx512: Box<avx512::Scratch>,
}

/// Why a route was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// Its hop is [`NO_ROUTE`].
    NoRoute,
    /// There is no room for more routes.
    Full,
}

impl<A: Address> Lpm<A> {
    /// The paths that batches can take, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// A table of these routes, of equal prefixes the last; batches on the best path of this CPU.
    ///
    /// # Errors
    /// A hop is [`NO_ROUTE`], or there are too many routes.
    pub fn new(routes: &[Route<A>]) -> Result<Self, InsertError> {
        let mut table = Self {
            code: Code::on(A::OPERATOR, Implementation::best(Self::PATHS))
                .unwrap_or(Code::Portable),
            trie: Trie::new(A::BYTES),
            hops: Hops::new(routes.iter().map(|route| route.hop)),
            len: 0,
            block_bytes_max: BLOCK_BYTES_MAX,
            family: PhantomData,
        };
        for route in routes {
            table.check_room(route.hop)?;
            table.put(route.prefix, route.hop, true);
        }
        table.trie.compile();
        match table.trie.is_full() {
            true => Err(InsertError::Full),
            false => Ok(table),
        }
    }

    /// Batches on `path` from now on.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn on(self, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on(A::OPERATOR, path)?;
        Ok(Self { code, ..self })
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether the table has no route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that lookups read from, when they ask for all addresses.
    pub fn lookup_bytes(&self) -> usize {
        self.trie.lookup_bytes() + size_of_val(self.hops.by_code())
    }

    /// Sends `prefix` to `hop`; gives the hop it had.
    ///
    /// # Errors
    /// See [`InsertError`]; the table is as it was then.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: u32) -> Result<Option<u32>, InsertError> {
        self.check_room(hop)?;
        Ok(self.set(prefix, hop))
    }

    /// [`Lpm::insert`] of what the table had before: there is room for it.
    fn set(&mut self, prefix: Prefix<A>, hop: u32) -> Option<u32> {
        self.put(prefix, hop, false)
    }

    /// Takes `prefix` out; gives the hop it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<u32> {
        let code = self.trie.remove(prefix.address().high(), prefix.bits())?;
        let hop = self.hops.hop(code);
        self.hops.release(code);
        self.len -= 1;
        Some(hop)
    }

    /// The hop of exactly this prefix, if there is a route for it.
    pub fn exact(&self, prefix: Prefix<A>) -> Option<u32> {
        let code = self.trie.exact(prefix.address().high(), prefix.bits())?;
        Some(self.hops.hop(code))
    }

    /// The hop of the longest prefix that `address` lies in, or [`NO_ROUTE`].
    pub fn lookup(&self, address: A) -> u32 {
        self.hops.hop(self.trie.lookup(address.high()))
    }

    /// The hops of addresses in network order, [`Address::BYTES`] each: little endian.
    ///
    /// # Panics
    /// If there is not one place for each address.
    pub fn lookup_batch(
        &self,
        addresses: &[u8],
        hops: &mut [[u8; 4]],
        scratch: &mut LookupScratch,
    ) {
        self.lookup_batch_on(self.code, addresses, hops, scratch);
    }

    /// All routes, in no order to rely on.
    pub fn routes(&self) -> Vec<Route<A>> {
        let mut routes = Vec::with_capacity(self.len);
        self.trie.routes(|address, len, code| {
            routes.push(Route {
                prefix: Prefix::of(A::from_high(address), len),
                hop: self.hops.hop(code),
            });
        });
        routes
    }

    fn lookup_batch_on(
        &self,
        code: Code,
        addresses: &[u8],
        hops: &mut [[u8; 4]],
        scratch: &mut LookupScratch,
    ) {
        let count = hops.len();
        assert_eq!(
            addresses.len(),
            count * A::BYTES,
            "a place for each address"
        );
        match code {
            Code::Portable => {
                let lookup = self.trie.lookups();
                for (address, hop) in addresses.chunks_exact(A::BYTES).zip(hops) {
                    let code = lookup(A::from_wire(address).high());
                    *hop = self.hops.hop(code).to_le_bytes();
                }
            }
            code if A::BYTES == 4 => self.ipv4_on(code, addresses.as_chunks().0, hops, scratch),
            code => self.ipv6_on(code, addresses.as_chunks().0, hops, scratch),
        }
    }

    /// IPv6: by the tables of the first six bytes where they say the hops.
    #[inline(never)]
    fn ipv6_on(
        &self,
        code: Code,
        addresses: &[[u8; 16]],
        hops: &mut [[u8; 4]],
        scratch: &mut LookupScratch,
    ) {
        let Some(view) = six::View::of(&self.trie, &self.hops) else {
            return self.many_on(code, addresses, hops, scratch);
        };
        let trie = passes::View::of(&self.trie, &self.hops);
        let six = &mut *scratch.six;
        match code {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => {
                six::lookup_all_by_avx512(proof, view, trie, addresses, hops, six);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => six::lookup_all_by_avx2(proof, view, trie, addresses, hops, six),
            Code::Tables => six::lookup_all(view, trie, addresses, hops, six),
            Code::Portable => unreachable!("one after the other, above"),
        }
    }

    /// IPv4: by two bytes an address where they decide all, but for long calls where vectors do as much at once.
    #[inline(never)]
    fn ipv4_on(
        &self,
        code: Code,
        addresses: &[[u8; 4]],
        hops: &mut [[u8; 4]],
        scratch: &mut LookupScratch,
    ) {
        let is_for_vectors = match code {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(_) => addresses.len() >= avx512::pays_from(4),
            _ => false,
        };
        match dir::View::of(&self.trie, &self.hops) {
            Some(view) if !is_for_vectors => {
                dir::lookup_all(view, addresses, hops, &mut scratch.dir);
            }
            _ => self.many_on(code, addresses, hops, scratch),
        }
    }

    /// Many lookups under way.
    #[inline(never)]
    fn many_on<const BYTES: usize>(
        &self,
        code: Code,
        addresses: &[[u8; BYTES]],
        hops: &mut [[u8; 4]],
        scratch: &mut LookupScratch,
    ) {
        let view = passes::View::of(&self.trie, &self.hops);
        let passes = &mut *scratch.passes;
        match code {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) if addresses.len() >= avx512::pays_from(BYTES) => {
                let view = avx512::View::of(&self.trie, &self.hops);
                avx512::lookup_all(proof, view, addresses, hops, &mut scratch.avx512);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => {
                passes::lookup_all_by_avx2(proof.avx2(), view, addresses, hops, passes);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => {
                passes::lookup_all_by_avx2(proof, view, addresses, hops, passes);
            }
            Code::Tables => passes::lookup_all(view, addresses, hops, passes),
            Code::Portable => unreachable!("one after the other, above"),
        }
    }

    /// Whether a route to `hop` can be taken.
    fn check_room(&self, hop: u32) -> Result<(), InsertError> {
        if hop == NO_ROUTE {
            return Err(InsertError::NoRoute);
        }
        match self.trie.block_bytes() > self.block_bytes_max {
            true => Err(InsertError::Full),
            false => Ok(()),
        }
    }

    fn put(&mut self, prefix: Prefix<A>, hop: u32, later: bool) -> Option<u32> {
        let code = self.hops.take(hop);
        // Lookups do not ask them then: a byte cannot say all hops.
        if self.hops.by_code().len() > spans::CODES {
            self.trie.drop_spans();
        }
        let before = self
            .trie
            .insert(prefix.address().high(), prefix.bits(), code, later);
        let before = before.map(|code| {
            let hop = self.hops.hop(code);
            self.hops.release(code);
            hop
        });
        assert!(!self.trie.is_full(), "blocks grew to four times their size");
        self.len += usize::from(before.is_none());
        before
    }
}

impl fmt::Debug for LookupScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookupScratch").finish_non_exhaustive()
    }
}

impl<A: Address> fmt::Debug for Lpm<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lpm")
            .field("family", &A::OPERATOR)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => write!(f, "{NO_ROUTE} stands for no route and cannot be a hop"),
            Self::Full => f.write_str("no room for more routes"),
        }
    }
}

impl std::error::Error for InsertError {}
