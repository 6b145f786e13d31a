//! Owning handles over [`sys`](super::sys): everything `unsafe` of running a query and of reading filters and values is here.
//!
//! Each handle destroys its object when dropped and holds what the object needs in an `Arc`. The function table is `'static`: a library
//! once loaded stays.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::expression::{Comparison, Expression, Type, Value};
use super::sys::{
    AttachOptionsHandle, ChunkHandle, ConnectionHandle, EnvironmentHandle, ErrorHandle,
    ExpressionHandle, FactoryHandle, Functions, Huge, Index, InstanceHandle, ResultHandle,
    StatementHandle, StatementsHandle, Status, Str, TypeHandle, ValueHandle, VectorHandle, node,
    type_id,
};
use super::{Chunks, Library};

/// DuckDB's own words about what went wrong.
pub(super) type Refusal = String;

/// Deepest nesting of a filter that is read; what lies deeper is unknown.
const DEPTH_MAX: usize = 32;

/// The functions, once a library was asked for them. Callbacks are given a handle and no table of functions, so a process has one.
static API: OnceLock<(&'static str, Result<Functions, String>)> = OnceLock::new();

/// An instance and the environment that it lives in.
#[derive(Debug)]
pub(super) struct Instance {
    api: &'static Functions,
    environment: EnvironmentHandle,
    handle: InstanceHandle,
}

/// A connection, for one statement at a time.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) api: &'static Functions,
    pub(super) handle: ConnectionHandle,
    instance: Arc<Instance>,
}

/// A chunk of rows that a query gave. Its memory is the instance's.
#[derive(Debug)]
pub(super) struct Chunk {
    api: &'static Functions,
    handle: ChunkHandle,
    _instance: Arc<Instance>,
}

// SAFETY: an instance may be used from any thread (`duckdb_v2.h`), and is used here only to connect and to be destroyed.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}
// SAFETY: a connection may move between threads; whoever uses it has it for itself.
unsafe impl Send for Connection {}
// SAFETY: a chunk belongs to whoever holds it; DuckDB has no thread affinity.
unsafe impl Send for Chunk {}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Functions")
    }
}

/// The functions of a library whose version was checked.
pub(super) fn api(library: Library) -> Result<&'static Functions, Refusal> {
    let origin = library.origin();
    let (loaded, functions) = API.get_or_init(|| (origin, load(origin)));
    if *loaded != origin {
        return Err("another DuckDB library of this process already has tables of ours".to_owned());
    }
    functions.as_ref().map_err(Clone::clone)
}

/// The functions that callbacks use: those of the only library that can have registered one.
pub(super) fn known_api() -> &'static Functions {
    let known = API.get().and_then(|(_, functions)| functions.as_ref().ok());
    known.expect("known before any callback was registered")
}

fn load(origin: &str) -> Result<Functions, String> {
    // SAFETY: the library at this path is loaded already (`Library` has its functions of version 1), so nothing is initialised.
    let library = unsafe { libloading::Library::new(Path::new(origin)) };
    let library = library.map_err(|error| format!("{origin}: {error}"))?;
    let functions =
        Functions::load(&library).map_err(|name| format!("{origin} has no function {name}"));
    // Functions stay good and DuckDB's threads may outlive a handle.
    std::mem::forget(library);
    functions
}

/// Makes a call that may fail.
pub(super) fn tried(
    api: &Functions,
    call: impl FnOnce(*mut ErrorHandle) -> Status,
) -> Result<(), Refusal> {
    let mut error = ErrorHandle::NULL;
    if call(&raw mut error) == 0 {
        return Ok(());
    }
    if error == ErrorHandle::NULL {
        return Err("DuckDB gave no reason".to_owned());
    }
    let mut text = Str::EMPTY;
    // SAFETY: DuckDB made the error for us; its text lives as long as the error, which is destroyed once, after the copy.
    unsafe {
        (api.duckdb_v2_error_info_get_text)(error, &raw mut text);
        let text = copied(text);
        (api.duckdb_v2_error_info_destroy)(&raw mut error);
        Err(text)
    }
}

/// Copies a text of DuckDB's.
///
/// # Safety
/// The view is of bytes that are alive.
unsafe fn copied(text: Str) -> String {
    if text.ptr.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(text.ptr.cast::<u8>(), text.len as usize) };
    String::from_utf8_lossy(bytes).into_owned()
}

impl Instance {
    pub(super) fn open(
        api: &'static Functions,
        options: &[(&str, String)],
    ) -> Result<Self, Refusal> {
        let names: Vec<Str> = options.iter().map(|(name, _)| Str::of(name)).collect();
        let values: Vec<Str> = options.iter().map(|(_, value)| Str::of(value)).collect();
        let memory = Str::of(":memory:");
        let mut instance = Self {
            api,
            environment: EnvironmentHandle::NULL,
            handle: InstanceHandle::NULL,
        };
        // SAFETY: out-pointers are to fields that live through the calls; the views are of texts that do, too. What was made is destroyed
        // by `Drop`, also where the second call fails.
        unsafe {
            tried(api, |error| {
                (api.duckdb_v2_environment_create)(&raw mut instance.environment, error)
            })?;
            tried(api, |error| {
                (api.duckdb_v2_instance_create_with_options)(
                    instance.environment,
                    names.as_ptr(),
                    values.as_ptr(),
                    names.len() as Index,
                    &raw mut instance.handle,
                    error,
                )
            })?;
            // An instance begins without a database; views need one.
            tried(api, |error| {
                (api.duckdb_v2_instance_attach)(
                    instance.handle,
                    std::ptr::null(),
                    &raw const memory,
                    AttachOptionsHandle::NULL,
                    true,
                    error,
                )
            })?;
        }
        Ok(instance)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: ours; connections hold an `Arc` of this and are gone. Null handles are passed over.
        unsafe {
            (self.api.duckdb_v2_instance_destroy)(&raw mut self.handle);
            (self.api.duckdb_v2_environment_destroy)(&raw mut self.environment);
        }
    }
}

impl Connection {
    pub(super) fn open(instance: &Arc<Instance>) -> Result<Self, Refusal> {
        let api = instance.api;
        let mut handle = ConnectionHandle::NULL;
        // SAFETY: the instance is open; the out-pointer is to a local.
        tried(api, |error| unsafe {
            (api.duckdb_v2_connection_create)(instance.handle, &raw mut handle, error)
        })?;
        Ok(Self {
            api,
            handle,
            instance: Arc::clone(instance),
        })
    }

    /// The factory of this connection, which lives as long as it.
    pub(super) fn factory(&self) -> Result<FactoryHandle, Refusal> {
        let mut factory = FactoryHandle::NULL;
        // SAFETY: the connection is open; the out-pointer is to a local.
        tried(self.api, |error| unsafe {
            (self.api.duckdb_v2_connection_get_factory)(self.handle, &raw mut factory, error)
        })?;
        Ok(factory)
    }

    /// The instance, to see how long it lives.
    #[cfg(test)]
    pub(super) fn instance_for_tests(&self) -> std::sync::Weak<Instance> {
        Arc::downgrade(&self.instance)
    }

    /// Runs one statement to its last row.
    pub(super) fn query(&mut self, sql: &str) -> Result<Chunks, Refusal> {
        let api = self.api;
        let sql = CString::new(sql).map_err(|_| "a zero byte in a text for DuckDB".to_owned())?;
        let mut statements = StatementsHandle::NULL;
        let mut statement = StatementHandle::NULL;
        let mut result = ResultHandle::NULL;
        // SAFETY: the connection is open, the text outlives the calls, out-pointers are to locals. Each object is destroyed once on every
        // way out; null ones are passed over. A statement outlives its iterator and a result its statement, as `duckdb_v2.h` says.
        unsafe {
            let outcome = tried(api, |error| {
                (api.duckdb_v2_parse_sql)(self.handle, sql.as_ptr(), &raw mut statements, error)
            })
            .and_then(|()| {
                tried(api, |error| {
                    (api.duckdb_v2_statement_iterator_next)(statements, &raw mut statement, error)
                })
            })
            .and_then(|()| match statement == StatementHandle::NULL {
                true => Err("an empty statement".to_owned()),
                false => tried(api, |error| {
                    (api.duckdb_v2_statement_execute)(
                        self.handle,
                        statement,
                        std::ptr::null(),
                        std::ptr::null(),
                        0,
                        &raw mut result,
                        error,
                    )
                }),
            })
            .and_then(|()| fetch(&self.instance, result));
            (api.duckdb_v2_result_destroy)(&raw mut result);
            (api.duckdb_v2_sql_statement_destroy)(&raw mut statement);
            (api.duckdb_v2_statement_iterator_destroy)(&raw mut statements);
            outcome
        }
    }
}

/// Fetches all chunks.
///
/// # Safety
/// `result` is a result that DuckDB gave and that is not yet destroyed.
unsafe fn fetch(instance: &Arc<Instance>, result: ResultHandle) -> Result<Chunks, Refusal> {
    let api = instance.api;
    let mut chunks = Vec::new();
    loop {
        let mut handle = ChunkHandle::NULL;
        // SAFETY: the caller's; the chunk is ours.
        tried(api, |error| unsafe {
            (api.duckdb_v2_result_fetch_chunk)(result, &raw mut handle, error)
        })?;
        if handle == ChunkHandle::NULL {
            return Ok(Chunks { chunks });
        }
        chunks.push(Chunk {
            api,
            handle,
            _instance: Arc::clone(instance),
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: ours and open; results were destroyed.
        unsafe { (self.api.duckdb_v2_connection_destroy)(&raw mut self.handle) };
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once.
        unsafe { (self.api.duckdb_v2_data_chunk_destroy)(&raw mut self.handle) };
    }
}

impl Chunk {
    /// Calls `take` with each row.
    pub(super) fn rows(&self, take: &mut dyn FnMut(Vec<Value>)) -> Result<(), Refusal> {
        let api = self.api;
        let (mut rows, mut columns) = (0, 0);
        let mut vectors = Vec::new();
        // SAFETY: the chunk is ours; out-pointers are to locals; a vector lives as long as its chunk.
        unsafe {
            tried(api, |error| {
                (api.duckdb_v2_data_chunk_get_size)(self.handle, &raw mut rows, error)
            })?;
            tried(api, |error| {
                (api.duckdb_v2_data_chunk_get_vector_count)(self.handle, &raw mut columns, error)
            })?;
            for column in 0..columns {
                let mut vector = VectorHandle::NULL;
                tried(api, |error| {
                    (api.duckdb_v2_data_chunk_get_vector)(
                        self.handle,
                        column,
                        &raw mut vector,
                        error,
                    )
                })?;
                vectors.push(vector);
            }
        }
        for row in 0..rows {
            let value = |&vector: &VectorHandle| {
                let mut value = ValueHandle::NULL;
                // SAFETY: as above; the row is below the chunk's size.
                tried(api, |error| unsafe {
                    (api.duckdb_v2_vector_get_value)(vector, row, &raw mut value, error)
                })?;
                // SAFETY: the value is ours.
                unsafe { taken(api, value) }
            };
            take(vectors.iter().map(value).collect::<Result<_, _>>()?);
        }
        Ok(())
    }
}

/// Reads a value and destroys it.
///
/// # Safety
/// `value` is a value that DuckDB gave, ours, and not yet destroyed.
unsafe fn taken(api: &Functions, mut value: ValueHandle) -> Result<Value, Refusal> {
    // SAFETY: the caller's; out-pointers are to locals; a text is copied before its value is destroyed.
    unsafe {
        let read = read(api, value);
        (api.duckdb_v2_value_destroy)(&raw mut value);
        read
    }
}

/// Reads a value.
///
/// # Safety
/// `value` is a value that DuckDB gave and that is alive.
unsafe fn read(api: &Functions, value: ValueHandle) -> Result<Value, Refusal> {
    let (mut is_null, mut ty) = (false, TypeHandle::NULL);
    // SAFETY: the caller's; out-pointers are to locals; the type is destroyed in `id`.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_value_is_null)(value, &raw mut is_null, error)
        })?;
        if is_null {
            return Ok(Value::Null);
        }
        tried(api, |error| {
            (api.duckdb_v2_value_get_logical_type)(value, &raw mut ty, error)
        })?;
        Ok(match id(api, ty)? {
            type_id::BOOLEAN => {
                let mut is_true = false;
                tried(api, |error| {
                    (api.duckdb_v2_value_get_bool)(value, &raw mut is_true, error)
                })?;
                Value::Boolean(is_true)
            }
            type_id::TINYINT
            | type_id::SMALLINT
            | type_id::INTEGER
            | type_id::BIGINT
            | type_id::HUGEINT => {
                let mut huge = Huge::default();
                tried(api, |error| {
                    (api.duckdb_v2_value_get_hugeint)(value, &raw mut huge, error)
                })?;
                Value::Integer(wide(huge))
            }
            type_id::DECIMAL => {
                let (mut huge, mut width, mut scale) = (Huge::default(), 0, 0);
                tried(api, |error| {
                    (api.duckdb_v2_value_get_decimal)(
                        value,
                        &raw mut huge,
                        &raw mut width,
                        &raw mut scale,
                        error,
                    )
                })?;
                Value::Decimal {
                    unscaled: wide(huge),
                    scale,
                }
            }
            type_id::DOUBLE => {
                let mut double = 0.0;
                tried(api, |error| {
                    (api.duckdb_v2_value_get_double)(value, &raw mut double, error)
                })?;
                Value::Double(double)
            }
            type_id::DATE => {
                let mut days = 0;
                tried(api, |error| {
                    (api.duckdb_v2_value_get_date)(value, &raw mut days, error)
                })?;
                Value::Date(days)
            }
            type_id::VARCHAR => {
                let mut text = Str::EMPTY;
                tried(api, |error| {
                    (api.duckdb_v2_value_get_varchar)(value, &raw mut text, error)
                })?;
                Value::Text(copied(text))
            }
            other => Value::Other(other),
        })
    }
}

fn wide(huge: Huge) -> i128 {
    i128::from(huge.upper) << 64 | i128::from(huge.lower)
}

/// The number of a type, which is destroyed.
///
/// # Safety
/// `ty` is a type that DuckDB gave, ours, and not yet destroyed.
unsafe fn id(api: &Functions, mut ty: TypeHandle) -> Result<u32, Refusal> {
    let mut id = 0;
    // SAFETY: the caller's; the out-pointer is to a local.
    unsafe {
        let told = tried(api, |error| {
            (api.duckdb_v2_logical_type_get_id)(ty, &raw mut id, error)
        });
        (api.duckdb_v2_logical_type_destroy)(&raw mut ty);
        told.map(|()| id)
    }
}

/// Reads a filter. `columns` has the position in the table's schema of each column that the filter may name.
///
/// # Safety
/// `expression` was given to the callback that runs.
pub(super) unsafe fn expression(
    api: &Functions,
    expression: ExpressionHandle,
    columns: &[u32],
) -> Result<Expression, Refusal> {
    // SAFETY: the caller's.
    unsafe { nested(api, expression, columns, DEPTH_MAX) }
}

/// The same for what may nest so deep.
///
/// # Safety
/// As [`expression`].
unsafe fn nested(
    api: &Functions,
    expression: ExpressionHandle,
    columns: &[u32],
    depth: usize,
) -> Result<Expression, Refusal> {
    let Some(below) = depth.checked_sub(1) else {
        return Ok(Expression::Other);
    };
    let (mut kind, mut count) = (0, 0);
    // SAFETY: the caller's; out-pointers are to locals; children live as long as their parent, values and types are destroyed where they
    // are read.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_expression_get_type)(expression, &raw mut kind, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_expression_get_child_count)(expression, &raw mut count, error)
        })?;
        let mut children = Vec::new();
        for at in 0..count {
            let mut child = ExpressionHandle::NULL;
            tried(api, |error| {
                (api.duckdb_v2_expression_get_child)(expression, at, &raw mut child, error)
            })?;
            children.push(nested(api, child, columns, below)?);
        }
        Ok(match kind {
            node::COLUMN => {
                let mut index = 0;
                tried(api, |error| {
                    (api.duckdb_v2_expression_column_ref_get_index)(
                        expression,
                        &raw mut index,
                        error,
                    )
                })?;
                let column = columns.get(index as usize);
                column.map_or(Expression::Other, |&column| Expression::Column(column))
            }
            node::CONSTANT => {
                let mut value = ValueHandle::NULL;
                tried(api, |error| {
                    (api.duckdb_v2_expression_constant_get_value)(expression, &raw mut value, error)
                })?;
                Expression::Constant(taken(api, value)?)
            }
            node::CAST => {
                let mut ty = TypeHandle::NULL;
                tried(api, |error| {
                    (api.duckdb_v2_expression_get_return_type)(expression, &raw mut ty, error)
                })?;
                let ty = match id(api, ty)? {
                    type_id::INTEGER => Type::Integer,
                    type_id::BIGINT => Type::BigInt,
                    type_id::HUGEINT => Type::HugeInt,
                    other => Type::Other(other),
                };
                match <[Expression; 1]>::try_from(children) {
                    Ok([of]) => Expression::Cast(ty, Box::new(of)),
                    Err(_) => Expression::Other,
                }
            }
            node::FUNCTION => {
                let mut name = Str::EMPTY;
                tried(api, |error| {
                    (api.duckdb_v2_expression_function_get_name)(expression, &raw mut name, error)
                })?;
                Expression::Function(copied(name), children)
            }
            kind => with_children(kind, children),
        })
    }
}

/// The nodes that are their children and nothing else.
fn with_children(kind: u32, children: Vec<Expression>) -> Expression {
    let comparison = match kind {
        node::EQUAL => Some(Comparison::Equal),
        node::NOT_EQUAL => Some(Comparison::NotEqual),
        node::LESS => Some(Comparison::Less),
        node::LESS_OR_EQUAL => Some(Comparison::LessOrEqual),
        node::GREATER => Some(Comparison::Greater),
        node::GREATER_OR_EQUAL => Some(Comparison::GreaterOrEqual),
        _ => None,
    };
    let mut children = children.into_iter().map(Box::new);
    let mut next = || children.next();
    match (kind, comparison) {
        (_, Some(comparison)) => match (next(), next(), next()) {
            (Some(left), Some(right), None) => Expression::Compare(comparison, left, right),
            _ => Expression::Other,
        },
        (node::BETWEEN, _) => match (next(), next(), next(), next()) {
            (Some(value), Some(low), Some(high), None) => Expression::Between(value, low, high),
            _ => Expression::Other,
        },
        (node::IN | node::NOT_IN, _) => match next() {
            Some(value) => {
                let found = Expression::In(value, children.map(|child| *child).collect());
                match kind {
                    node::IN => found,
                    _ => Expression::Not(Box::new(found)),
                }
            }
            None => Expression::Other,
        },
        (node::AND, _) => Expression::And(children.map(|child| *child).collect()),
        (node::OR, _) => Expression::Or(children.map(|child| *child).collect()),
        (node::NOT | node::IS_NULL | node::IS_NOT_NULL, _) => match (next(), next()) {
            (Some(of), None) => match kind {
                node::NOT => Expression::Not(of),
                node::IS_NULL => Expression::IsNull(of),
                _ => Expression::Not(Box::new(Expression::IsNull(of))),
            },
            _ => Expression::Other,
        },
        _ => Expression::Other,
    }
}
