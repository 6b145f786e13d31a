//! The operators `lpm4-update` and `lpm6-update`: what routes cost that come and go.
//!
//! An item is a script of changes ([`super::script`]). The table is a queue's own, and each item leaves it as it was.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{
    Batch, BatchOut, Input, JobError, Kernel, Material, OpSpec, OutputShape, Right, SetupError,
    Workload,
    spec::{self},
};

use super::direct::ROOT_BITS;
use super::generator::Generated;
use super::loaded::Loaded;
use super::lookup::routes_given;
use super::route::{Address, Prefix, Route};
use super::script::{Change, change_bytes, changes, parse, write_change};
use super::{Lpm, NO_ROUTE};
use crate::entry::{Case, Entry, PORTABLE, own};
use crate::implementation::Implementation;

/// The registry's line for IPv4.
pub(crate) const LPM4_UPDATE: Entry =
    entry::<Ipv4Addr>("lpm4-update", "changes to a table of IPv4 routes");
/// The registry's line for IPv6.
pub(crate) const LPM6_UPDATE: Entry =
    entry::<Ipv6Addr>("lpm6-update", "changes to a table of IPv6 routes");

const fn entry<A: Generated>(name: &'static str, summary: &'static str) -> Entry {
    Entry {
        name,
        scenario: "network",
        summary,
        unit: "input byte, 10 a change of IPv4 and 22 one of IPv6 routes",
        output: "4 bytes per change: the hop that its prefix had, little endian; all ones: none",
        source: "RFC 1812, 5.2.4.3; RFC 4632, 5.1",
        allocates: &[Implementation::Portable],
        material: |given, name| {
            let routes = routes_given::<A>(given, name)?;
            Loaded::<A>::of(&routes).and_then(|routes| check::<A>(&routes))?;
            Ok(routes)
        },
        documentation: include_str!("../../../docs/lpm.md"),
        ..Entry::of::<spec::LpmUpdate>(
            |spec, path| {
                let routes = Loaded::<A>::of(list::<A>(spec))?;
                Ok(Box::new(Updates(Lpm::clone(routes.table()?).on(path)?)))
            },
            |case| Ok(Box::new(Scripts::<A>::new(case)?)),
        )
    }
}

/// The route list of a spec of this operator.
fn list<A: Address>(spec: &OpSpec) -> &Material {
    let spec::LpmUpdate { family, routes } = own(spec);
    debug_assert_eq!(*family, A::FAMILY);
    routes
}

/// Runs scripts of changes on copies of a table.
pub struct Updates<A>(Lpm<A>);

/// A queue's own table.
#[allow(missing_debug_implementations)]
pub struct Scratch<A> {
    table: Lpm<A>,
    /// The changes that undo a script, last first: a prefix and the hop it had.
    undo: Vec<Change<A>>,
}

impl<A: Address> Updates<A> {
    /// Makes the operator; each queue changes a copy of `table`.
    pub fn new(table: Lpm<A>) -> Self {
        Self(table)
    }
}

/// Slots of the table's root that a change to one of the routes may rewrite on average. Each is a search of its own, and a
/// script has thousands of changes.
const SLOTS_MAX: usize = 1024;

/// A change made of any bytes. One in 64 of random ones is of a short prefix: they are few, and cost most.
fn mended<A: Address>(bytes: &[u8]) -> Change<A> {
    let len = match bytes[0] % 64 {
        0 => bytes[1] % 17,
        _ => 17 + bytes[1] % (A::BITS - 16),
    };
    let prefix = Prefix::of(A::from_wire(&bytes[2..][..A::BYTES]), len);
    let hop = u32::from_le_bytes(*bytes.last_chunk().expect("six bytes and more"));
    (prefix, (bytes[0] % 2 == 1).then_some(hop.min(NO_ROUTE - 1)))
}

impl<A: Address> Kernel for Updates<A> {
    type Scratch = Scratch<A>;

    fn scratch(&self) -> Scratch<A> {
        Scratch {
            table: self.0.clone(),
            undo: Vec::new(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / change_bytes::<A>() * 4
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Scratch<A>,
    ) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| scratch.run(item, slot));
        Ok(())
    }
}

impl<A: Address> Scratch<A> {
    /// The table, between two scripts.
    #[cfg(test)]
    pub(super) fn table(&self) -> &Lpm<A> {
        &self.table
    }

    pub(super) fn run(&mut self, script: &[u8], slot: &mut [u8]) -> Result<u32, JobError> {
        let changes = changes(script).map_err(|_| JobError::Malformed)?;
        let len = script.len() / change_bytes::<A>() * 4;
        let slot = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
        let mut outcome = Ok(len as u32);
        for (change, had) in changes.zip(slot.as_chunks_mut::<4>().0) {
            match self.apply(change) {
                Ok(hop) => *had = hop.unwrap_or(NO_ROUTE).to_le_bytes(),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        while let Some((prefix, hop)) = self.undo.pop() {
            match hop {
                // Without a look at the room there is: a table that has become full would keep what it cannot take back.
                Some(hop) => self.table.set(prefix, hop),
                None => self.table.remove(prefix),
            };
        }
        outcome
    }

    fn apply(&mut self, (prefix, hop): Change<A>) -> Result<Option<u32>, JobError> {
        let had = match hop {
            // The table is full: the script is too long for it.
            Some(hop) => self
                .table
                .insert(prefix, hop)
                .map_err(|_| JobError::TooLong)?,
            None => self.table.remove(prefix),
        };
        self.undo.push((prefix, had));
        Ok(had)
    }
}

/// Scripts like those that a router hears from its neighbours; right is what the model says.
struct Scripts<A> {
    spec: OpSpec,
    routes: Arc<Loaded<A>>,
}

/// Refuses routes of which no script of changes can be made.
fn check<A: Address>(routes: &Loaded<A>) -> Result<(), SetupError> {
    let routes = routes.routes();
    let slots = |route: &Route<A>| 1 << ROOT_BITS.saturating_sub(route.prefix.bits());
    let slots: usize = routes.iter().map(slots).sum();
    let most = SLOTS_MAX * routes.len();
    if slots > most || most == 0 {
        return Err(SetupError::Parameter(format!(
            "{}-update: routes: no script of changes can be made of these {} routes: changes to short prefixes alone \
             rewrite most of the table each; add longer ones",
            A::OPERATOR,
            routes.len(),
        )));
    }
    Ok(())
}

impl<A: Address> Scripts<A> {
    fn new(case: &Case) -> Result<Self, SetupError> {
        let routes = Loaded::<A>::of(list::<A>(&case.spec))?;
        check::<A>(&routes)?;
        let spec = case.spec.clone();
        Ok(Self { spec, routes })
    }

    /// Half the time a route gets another hop, a quarter of the time it is taken out, else one inside it is announced.
    fn change(&self, random: &mut SplitMix64) -> Change<A> {
        let hop = random.next_u64() as u32 % 100;
        let routes = self.routes.routes();
        let route = &routes[random.below(routes.len())];
        let len = route.prefix.bits();
        let inside = (len + 1 + random.below(4) as u8).min(A::BITS);
        let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        match random.below(4) {
            0 => (route.prefix, None),
            1 => (Prefix::of(route.prefix.fill(bits), inside), Some(hop)),
            _ => (route.prefix, Some(hop)),
        }
    }
}

impl<A: Generated> Workload for Scripts<A> {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        let mut random = SplitMix64::new(seed);
        let mut bytes = Vec::with_capacity((len + change_bytes::<A>()) * count);
        for i in 1..=count {
            while bytes.len() < len * i {
                let (prefix, hop) = self.change(&mut random);
                write_change(prefix, hop, &mut bytes);
            }
            bytes.truncate(len * i);
        }
        let what = format!("changes to {} routes", self.routes.routes().len());
        Input::fixed(&what, bytes, len, count)
    }

    /// Each change that would be malformed is made a good one.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut script = Vec::with_capacity(plain.len());
        for bytes in plain.chunks_exact(change_bytes::<A>()) {
            let (prefix, hop) = parse::<A>(bytes).unwrap_or_else(|| mended(bytes));
            write_change(prefix, hop, &mut script);
        }
        Ok(script)
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let Ok(changes) = changes::<A>(item) else {
            return Right::Refused(JobError::Malformed);
        };
        let model = self.routes.model();
        // What the script did to a prefix yet; else the model knows.
        let mut changed = HashMap::new();
        let hops = changes.flat_map(|(prefix, hop)| {
            let known = changed.insert(prefix, hop);
            let had = known.unwrap_or_else(|| model.exact(prefix));
            had.unwrap_or(NO_ROUTE).to_le_bytes()
        });
        Right::Only(hops.collect())
    }
}

impl<A: Address> fmt::Debug for Updates<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Updates").field(&self.0).finish()
    }
}
