//! The eight tables (TPC-H specification 3.0.1, clause 1.4): keys are BIGINT, so that every scale factor fits.

use crate::schema::{Column, ColumnType, Schema};

/// The tables' names, small ones first.
pub const TABLES: [&str; 8] = [
    "region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem",
];

const KEY: ColumnType = ColumnType::BigInt;
const INTEGER: ColumnType = ColumnType::Integer;
const MONEY: ColumnType = ColumnType::Decimal {
    precision: 15,
    scale: 2,
};
const DATE: ColumnType = ColumnType::Date;
const TEXT: ColumnType = ColumnType::Text;

const REGION: &[(&str, ColumnType)] =
    &[("r_regionkey", KEY), ("r_name", TEXT), ("r_comment", TEXT)];

const NATION: &[(&str, ColumnType)] = &[
    ("n_nationkey", KEY),
    ("n_name", TEXT),
    ("n_regionkey", KEY),
    ("n_comment", TEXT),
];

const SUPPLIER: &[(&str, ColumnType)] = &[
    ("s_suppkey", KEY),
    ("s_name", TEXT),
    ("s_address", TEXT),
    ("s_nationkey", KEY),
    ("s_phone", TEXT),
    ("s_acctbal", MONEY),
    ("s_comment", TEXT),
];

const CUSTOMER: &[(&str, ColumnType)] = &[
    ("c_custkey", KEY),
    ("c_name", TEXT),
    ("c_address", TEXT),
    ("c_nationkey", KEY),
    ("c_phone", TEXT),
    ("c_acctbal", MONEY),
    ("c_mktsegment", TEXT),
    ("c_comment", TEXT),
];

const PART: &[(&str, ColumnType)] = &[
    ("p_partkey", KEY),
    ("p_name", TEXT),
    ("p_mfgr", TEXT),
    ("p_brand", TEXT),
    ("p_type", TEXT),
    ("p_size", INTEGER),
    ("p_container", TEXT),
    ("p_retailprice", MONEY),
    ("p_comment", TEXT),
];

const PARTSUPP: &[(&str, ColumnType)] = &[
    ("ps_partkey", KEY),
    ("ps_suppkey", KEY),
    ("ps_availqty", INTEGER),
    ("ps_supplycost", MONEY),
    ("ps_comment", TEXT),
];

const ORDERS: &[(&str, ColumnType)] = &[
    ("o_orderkey", KEY),
    ("o_custkey", KEY),
    ("o_orderstatus", TEXT),
    ("o_totalprice", MONEY),
    ("o_orderdate", DATE),
    ("o_orderpriority", TEXT),
    ("o_clerk", TEXT),
    ("o_shippriority", INTEGER),
    ("o_comment", TEXT),
];

const LINEITEM: &[(&str, ColumnType)] = &[
    ("l_orderkey", KEY),
    ("l_partkey", KEY),
    ("l_suppkey", KEY),
    ("l_linenumber", INTEGER),
    ("l_quantity", MONEY),
    ("l_extendedprice", MONEY),
    ("l_discount", MONEY),
    ("l_tax", MONEY),
    ("l_returnflag", TEXT),
    ("l_linestatus", TEXT),
    ("l_shipdate", DATE),
    ("l_commitdate", DATE),
    ("l_receiptdate", DATE),
    ("l_shipinstruct", TEXT),
    ("l_shipmode", TEXT),
    ("l_comment", TEXT),
];

/// The schema of a table of [`TABLES`].
pub fn schema(table: &str) -> Option<Schema> {
    let columns = columns(table)?;
    let column = |&(name, ty): &(&str, ColumnType)| Column {
        name: name.to_owned(),
        ty,
    };
    Some(Schema {
        table: table.to_owned(),
        columns: columns.iter().map(column).collect(),
    })
}

/// The names and types of the columns of a table of [`TABLES`], in order.
pub(crate) fn columns(table: &str) -> Option<&'static [(&'static str, ColumnType)]> {
    Some(match table {
        "region" => REGION,
        "nation" => NATION,
        "supplier" => SUPPLIER,
        "customer" => CUSTOMER,
        "part" => PART,
        "partsupp" => PARTSUPP,
        "orders" => ORDERS,
        "lineitem" => LINEITEM,
        _ => return None,
    })
}
