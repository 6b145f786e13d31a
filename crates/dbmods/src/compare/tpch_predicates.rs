//! What TPC-H's queries ask of lineitem alone, with the validation parameters of the specification (revision 3.0.1,
//! clauses 2.4.1, 2.4.6, 2.4.14 and 2.4.19).

/// The table that they ask about.
pub const TABLE: &str = "lineitem";

/// One query's condition on lineitem, and its aggregate if it needs no other table. Text for [`crate::query::sql`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// As the command line has it.
    pub name: &'static str,
    /// The condition.
    pub predicate: &'static str,
    /// The aggregate functions; none where the query joins before it aggregates.
    pub aggregate: Option<&'static str>,
    /// The columns that it is grouped by.
    pub group_by: Option<&'static str>,
}

/// All presets.
///
/// Q14 joins part on `l_partkey`; its condition on lineitem is one month of shipping dates. Q19 is a disjunction of three
/// conditions over both tables; each is here without its terms on part (brand, container, size), so that it selects a
/// superset of the rows that qualify, as a scan below the join must.
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "q1",
        predicate: "l_shipdate <= DATE '1998-12-01' - INTERVAL '90' day",
        aggregate: Some(
            "sum(l_quantity) AS sum_qty, \
             sum(l_extendedprice) AS sum_base_price, \
             sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price, \
             sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, \
             avg(l_quantity) AS avg_qty, \
             avg(l_extendedprice) AS avg_price, \
             avg(l_discount) AS avg_disc, \
             count(*) AS count_order",
        ),
        group_by: Some("l_returnflag, l_linestatus"),
    },
    Preset {
        name: "q6",
        predicate: "l_shipdate >= DATE '1994-01-01' \
                    AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' year \
                    AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 \
                    AND l_quantity < 24",
        aggregate: Some("sum(l_extendedprice * l_discount) AS revenue"),
        group_by: None,
    },
    Preset {
        name: "q14",
        predicate: "l_shipdate >= DATE '1995-09-01' \
                    AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' month",
        aggregate: None,
        group_by: None,
    },
    Preset {
        name: "q19",
        predicate: "(l_quantity >= 1 AND l_quantity <= 1 + 10 \
                     AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') \
                    OR (l_quantity >= 10 AND l_quantity <= 10 + 10 \
                     AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') \
                    OR (l_quantity >= 20 AND l_quantity <= 20 + 10 \
                     AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')",
        aggregate: None,
        group_by: None,
    },
];

/// The preset of this name, in any case.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS
        .iter()
        .find(|preset| preset.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::sql::{parse_aggregate, parse_predicate};

    #[test]
    fn all_are_understood() {
        let schema = crate::tpch::schema("lineitem").expect("a table of TPC-H");
        for preset in &PRESETS {
            parse_predicate(&schema, preset.predicate).unwrap_or_else(|error| panic!("{error}"));
            if let Some(aggregate) = preset.aggregate {
                parse_aggregate(&schema, aggregate, preset.group_by)
                    .unwrap_or_else(|error| panic!("{error}"));
            }
        }
        assert_eq!(preset("Q6").map(|preset| preset.name), Some("q6"));
        assert_eq!(preset("q2"), None);
    }
}
