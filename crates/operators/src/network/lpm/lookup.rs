//! The operators `lpm4` and `lpm6`: the hops of addresses.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use dpb_core::versions::Reader;
use dpb_core::{
    Batch, BatchOut, Control, Input, IpFamily, JobError, Kernel, Material, OpSpec, OutputShape,
    Right, SetupError, Versions, Workload,
    spec::{self, Arguments, Parameter, ParameterType},
};

use super::generator::{Generated, LookupKeys, draw};
use super::live::Routes;
use super::loaded::Loaded;
use super::route::{self, Address};
use super::{Code, LookupScratch, Lpm};
use crate::entry::{Case, Entry, PORTABLE, own};
use crate::implementation::Implementation;

/// The registry's line for IPv4.
pub(crate) const LPM4: Entry = entry::<Ipv4Addr>(
    "next hops of IPv4 addresses by longest prefix",
    &["rte_lpm", "rte_fib"],
);
/// The registry's line for IPv6.
pub(crate) const LPM6: Entry = entry::<Ipv6Addr>(
    "next hops of IPv6 addresses by longest prefix",
    &["rte_fib6"],
);

/// The number of routes of a spec to which none are given, and of their hops.
const GENERATED_ROUTES: usize = 10_000;
const GENERATED_HOPS: u32 = 100;

const fn entry<A: Generated>(summary: &'static str, peers: &'static [&'static str]) -> Entry {
    Entry {
        name: A::OPERATOR,
        scenario: "network",
        summary,
        unit: "input byte, 4 an IPv4 and 16 an IPv6 address",
        output: "4 bytes per address, little endian; all ones: no route",
        source: "RFC 1812, 5.2.4.3; RFC 4632, 5.1",
        peers,
        workload_parameters: &[KEYS],
        material: routes_given::<A>,
        paths: Lpm::<A>::PATHS,
        documentation: include_str!("../../../docs/lpm.md"),
        ..Entry::of::<spec::Lpm>(
            |spec, path| Ok(Box::new(Lookups::<A>::new(routes_of::<A>(spec), path)?)),
            |case| Ok(Box::new(Addresses::<A>::new(case)?)),
        )
    }
}

const KEYS: Parameter = Parameter {
    name: "keys",
    values: LookupKeys::DOMAIN,
    default: LookupKeys::Random.name(),
    meaning: "How addresses are drawn: of all; of routes, by Zipf's law or all alike.",
};

/// Stands before a number of generated routes, instead of a path.
const GENERATED: &str = "generated:";
const GENERATED_MAX: usize = 2_000_000;

/// The route list of a file, checked; or a generated one.
pub(super) fn routes_given<A: Generated>(
    given: &Arguments<'_>,
    name: &'static str,
) -> Result<Material, SetupError> {
    let word = given.word(name);
    if let Some(count) = word.strip_prefix(GENERATED) {
        let count = count.parse().ok();
        let count = count.filter(|count| (1..=GENERATED_MAX).contains(count));
        let count = count.ok_or_else(|| {
            let operator = A::OPERATOR;
            SetupError::Parameter(format!(
                "{operator}: routes={word}: not 1..{GENERATED_MAX} routes"
            ))
        })?;
        let routes = A::routes(1, count, GENERATED_HOPS);
        return Ok(Material::public(route::write(&routes)));
    }
    match given.file(name)? {
        Some(text) => {
            let routes = Material::public(text);
            Loaded::<A>::of(&routes)?;
            Ok(routes)
        }
        None => Ok(generated(A::FAMILY)),
    }
}

/// The list that stands in where none is given: made once, for it is asked for often.
fn generated(family: IpFamily) -> Material {
    fn list<A: Generated>() -> Material {
        let routes = A::routes(1, GENERATED_ROUTES, GENERATED_HOPS);
        Material::public(route::write(&routes))
    }
    static V4: LazyLock<Material> = LazyLock::new(list::<Ipv4Addr>);
    static V6: LazyLock<Material> = LazyLock::new(list::<Ipv6Addr>);
    match family {
        IpFamily::V4 => V4.clone(),
        IpFamily::V6 => V6.clone(),
    }
}

/// The route list of a spec of this operator.
fn routes_of<A: Address>(spec: &OpSpec) -> &Material {
    let spec::Lpm { family, routes } = own(spec);
    debug_assert_eq!(*family, A::FAMILY);
    routes
}

/// Looks addresses up, on one code path.
struct Lookups<A: Address> {
    table: Arc<Versions<Lpm<A>>>,
    code: Code,
}

/// The memory of one thread that looks addresses up.
struct Scratch<A> {
    table: Reader<Lpm<A>>,
    lookups: LookupScratch,
}

impl<A: Address> Lookups<A> {
    fn new(routes: &Material, path: Implementation) -> Result<Self, SetupError> {
        let table = Loaded::<A>::of(routes)?.table()?.clone();
        let code = Code::on(A::OPERATOR, path)?;
        let table = Arc::new(Versions::new(table));
        Ok(Self { table, code })
    }
}

impl<A: Address> Kernel for Lookups<A> {
    type Scratch = Scratch<A>;

    fn scratch(&self) -> Scratch<A> {
        Scratch {
            table: self.table.reader(),
            lookups: LookupScratch::default(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / A::BYTES * 4
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(Arc::new(Routes(self.table.clone())))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        Scratch { table, lookups }: &mut Scratch<A>,
    ) -> Result<(), JobError> {
        let table = table.enter();
        dpb_core::records(batch, out, A::BYTES, |addresses, hops| {
            table.lookup_batch_on(self.code, addresses, hops, lookups);
        });
        Ok(())
    }
}

/// Addresses drawn as the case says; right is what the model says.
struct Addresses<A> {
    spec: OpSpec,
    routes: Arc<Loaded<A>>,
    keys: LookupKeys,
}

impl<A: Address> Addresses<A> {
    fn new(case: &Case) -> Result<Self, SetupError> {
        Ok(Self {
            spec: case.spec.clone(),
            routes: Loaded::of(routes_of::<A>(&case.spec))?,
            keys: case.word(KEYS.name),
        })
    }
}

impl<A: Generated> Workload for Addresses<A> {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        let routes = self.routes.routes();
        let addresses = (len * count).div_ceil(A::BYTES);
        let keys = draw(self.keys, seed, addresses, routes);
        let mut bytes = Vec::with_capacity(keys.len() * A::BYTES);
        keys.iter().for_each(|key| key.to_wire(&mut bytes));
        bytes.truncate(len * count);
        let what = format!("{} addresses of {} routes", self.keys.name(), routes.len());
        Input::fixed(&what, bytes, len, count)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        Ok(plain[..plain.len() / A::BYTES * A::BYTES].to_vec())
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        if !item.len().is_multiple_of(A::BYTES) {
            return Right::Refused(JobError::Malformed);
        }
        let model = self.routes.model();
        let addresses = item.chunks_exact(A::BYTES).map(A::from_wire);
        let hops = addresses.flat_map(|address| model.lookup(address).to_le_bytes());
        Right::Only(hops.collect())
    }
}
