//! What is understood, what is refused and where the caret stands.

use proptest::prelude::*;

use super::*;
use crate::compare::random::{Generator, Samples};
use crate::query::{
    Aggregate, AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, Literal, Output, Query,
    Scalar,
};
use crate::tpch;

fn lineitem() -> Schema {
    tpch::schema("lineitem").expect("a table of TPC-H")
}

fn parse(text: &str) -> Predicate {
    parse_predicate(&lineitem(), text).unwrap_or_else(|error| panic!("{error}"))
}

/// What `text` means, as SQL with everything folded.
fn shown(text: &str) -> String {
    to_sql(&parse(text), &lineitem())
}

fn refused(text: &str) -> SqlError {
    match parse_predicate(&lineitem(), text) {
        Ok(predicate) => panic!("{text} was understood as {predicate:?}"),
        Err(error) => error,
    }
}

/// The message, and the part of the line that the carets are under.
#[track_caller]
fn assert_refused(text: &str, message: &str, at: &str) {
    let error = refused(text);
    let marked: String = (error.line.chars().skip(error.at.start))
        .take(error.at.len())
        .collect();
    assert!(error.message.contains(message), "{text}: {}", error.message);
    assert_eq!(marked, at, "{text}: {error}");
}

#[test]
fn precedence() {
    for (text, meaning) in [
        (
            "l_tax = 1 or l_tax = 2 and not l_tax = 3",
            "l_tax = 1 OR (l_tax = 2 AND NOT (l_tax = 3))",
        ),
        (
            "l_tax + 2 * l_discount - 1 < 0",
            "l_tax + 2 * l_discount - 1 < 0",
        ),
        (
            "(l_tax + 2) * (l_discount - 1) / -2 > 1",
            "(l_tax + 2) * (l_discount - 1) / -2 > 1",
        ),
        (
            "l_tax - (l_discount - 1) > -l_tax * 2",
            "l_tax - (l_discount - 1) > (0 - l_tax) * 2",
        ),
        (
            "l_tax between 1 + 1 and 2 * 3 and l_tax <> 4",
            "(l_tax >= 2 AND l_tax <= 6) AND l_tax <> 4",
        ),
        (
            "not l_tax not between 1 and 2",
            "NOT (NOT (l_tax >= 1 AND l_tax <= 2))",
        ),
        ("((l_tax)) == ((1))", "l_tax = 1"),
        (
            "l_tax != - - 1 -- a comment\n and true",
            "l_tax <> 1 AND TRUE",
        ),
        (
            "\"L_TAX\" < lineitem.l_discount /* and */",
            "l_tax < l_discount",
        ),
        ("null", "NULL"),
        (
            "not null or l_tax is not null",
            "NOT (NULL) OR l_tax IS NOT NULL",
        ),
    ] {
        assert_eq!(shown(text), meaning, "{text}");
    }
}

#[test]
fn constants() {
    for (text, meaning) in [
        ("l_tax < 1 - 0.05", "l_tax < 0.95"),
        ("l_tax < .5", "l_tax < 0.5"),
        ("l_tax < 5.", "l_tax < 5"),
        ("l_tax < 1.50", "l_tax < 1.50"),
        ("l_tax < 1 / 2", "l_tax < 5e-1"),
        ("l_tax < 1e3", "l_tax < 1e3"),
        ("l_tax < 1 / 0", "l_tax < CAST('inf' AS DOUBLE)"),
        (
            "l_tax < CAST('NaN' AS DOUBLE)",
            "l_tax < CAST('NaN' AS DOUBLE)",
        ),
        ("l_tax < 0.06 + 0.01", "l_tax < 0.07"),
        ("l_tax in (1 + 1, -0.5, null)", "l_tax IN (2, -0.5, NULL)"),
        ("l_tax < 1 + null", "l_tax < NULL"),
        ("l_comment = 'it''s'", "l_comment = 'it''s'"),
        (
            "l_orderkey < 9223372036854775808",
            "l_orderkey < 9223372036854775808",
        ),
        (
            "l_orderkey > -9223372036854775808",
            "l_orderkey > -9223372036854775808",
        ),
        (
            "l_tax < 0.00000000000000000000000000000000000001",
            "l_tax < .00000000000000000000000000000000000001",
        ),
    ] {
        assert_eq!(shown(text), meaning, "{text}");
    }
}

#[test]
fn dates() {
    for (text, day) in [
        ("DATE '1998-12-01' - INTERVAL '90' day", "1998-09-02"),
        ("date '1995-09-01' + interval 1 month", "1995-10-01"),
        ("date '1994-01-31' + interval '1 month'", "1994-02-28"),
        ("date '1996-02-29' - interval '1' year", "1995-02-28"),
        ("date '1994-01-01' + interval '-2' weeks", "1993-12-18"),
        ("interval 3 days + date '1994-01-01'", "1994-01-04"),
        ("date '1994-01-01' + 3", "1994-01-04"),
        ("'1994-1-1'", "1994-01-01"),
        ("'1994-01-01'::date", "1994-01-01"),
        ("cast(' 1994-01-01 ' as date)", "1994-01-01"),
    ] {
        let meaning = format!("l_shipdate < DATE '{day}'");
        assert_eq!(shown(&format!("l_shipdate < {text}")), meaning, "{text}");
    }
    assert_eq!(
        shown("l_shipdate + interval 3 day - 1 in ('1994-01-01')"),
        "l_shipdate + 3 - 1 IN (DATE '1994-01-01')"
    );
    assert_eq!(
        shown("l_receiptdate - l_shipdate > 7"),
        "l_receiptdate - l_shipdate > 7"
    );
}

#[test]
fn patterns() {
    assert_eq!(
        parse(r"l_comment not like '50\%%' escape '\'"),
        Predicate::Not(Box::new(Predicate::Like {
            column: 15,
            pattern: r"50\%%".into(),
            escape: Some('\\'),
        }))
    );
    assert_eq!(shown("l_comment LIKE '%a''b_'"), "l_comment LIKE '%a''b_'");
    assert_eq!(
        shown("l_comment LIKE 'a%' ESCAPE ''"),
        "l_comment LIKE 'a%'"
    );
    assert_eq!(shown("l_comment LIKE NULL"), "NULL");
}

#[test]
fn refusals_point_at_the_token() {
    for (text, message, at) in [
        (
            "l_shipdat < DATE '1994-01-01'",
            "no column `l_shipdat` in lineitem; did you mean `l_shipdate`?",
            "l_shipdat",
        ),
        (
            "l_tax = 1 AND foo > 2",
            "no column `foo` in lineitem",
            "foo",
        ),
        ("l_tax = 1 AND", "found the end", ""),
        ("", "found the end", ""),
        ("l_tax", "`l_tax` is a value (DECIMAL)", "l_tax"),
        (
            "l_tax = 1 l_tax",
            "expected AND, OR or the end, found `l_tax`",
            "l_tax",
        ),
        (
            "l_tax = 'x'",
            "which do not compare; numbers are written without quotes",
            "'x'",
        ),
        (
            "l_shipdate > 5",
            "which do not compare; dates are written DATE",
            "5",
        ),
        ("l_shipdate > 'soon'", "this is no date", "'soon'"),
        (
            "l_shipdate > date '1994-02-30'",
            "this is no date",
            "'1994-02-30'",
        ),
        ("l_comment < 1", "which do not compare", "1"),
        ("l_tax < l_discount < 1", "do not chain", "<"),
        ("(l_tax < 1", "expected an operator or )", ""),
        ("l_tax < 1)", "found `)`", ")"),
        ("l_tax % 2 = 0", "found `%`", "%"),
        ("l_tax || 'a' = 'b'", "found `||`", "||"),
        (
            "substr(l_comment, 1, 2) = 'ab'",
            "there is no function `substr` here",
            "substr",
        ),
        (
            "l_tax in ()",
            "expected a column or a constant, found `)`",
            ")",
        ),
        ("l_tax in (l_discount)", "IN takes constants", "l_discount"),
        ("l_tax in (1, 'a')", "do not compare", "'a'"),
        ("l_tax in (1, 2", "expected a comma or the ) of IN", ""),
        ("l_tax like '1%'", "LIKE takes a VARCHAR column", "l_tax"),
        ("'a' like '1%'", "LIKE takes a column", "'a'"),
        (
            "l_comment like l_comment",
            "expected a pattern in quotes",
            "l_comment",
        ),
        (
            "l_comment like 'a!' escape '!'",
            "ends with its escape",
            "'a!'",
        ),
        (
            "l_comment like 'a' escape 'ab'",
            "takes one character",
            "'ab'",
        ),
        ("l_comment ilike 'a'", "found `ilike`", "ilike"),
        ("l_tax is 1", "expected NULL or NOT NULL", "1"),
        (
            "(l_tax = 1) is null",
            "expected a value; `(l_tax = 1)` is a condition",
            "(l_tax = 1)",
        ),
        ("l_tax + (l_tax = 1) > 1", "is a condition", "(l_tax = 1)"),
        ("l_comment + 1 > 1", "there is no VARCHAR + INTEGER", "+"),
        (
            "l_shipdate + l_orderkey > '1994-01-01'",
            "there is no DATE + BIGINT",
            "+",
        ),
        (
            "l_shipdate + l_shipdate > '1994-01-01'",
            "there is no DATE + DATE",
            "+",
        ),
        ("-l_shipdate > '1994-01-01'", "there is no -DATE", "-"),
        (
            "l_shipdate + interval '3' month > '1994-01-01'",
            "constant dates only",
            "l_shipdate + interval '3' month",
        ),
        (
            "l_shipdate > interval '3' hour",
            "day, week, month or year",
            "hour",
        ),
        (
            "l_shipdate > interval '3' day",
            "added to or subtracted from a date",
            "interval '3' day",
        ),
        (
            "l_tax + interval '3' day > 1",
            "there is no DECIMAL + INTERVAL",
            "+",
        ),
        (
            "l_linenumber < 2147483647 + 1",
            "out of range of INTEGER",
            "2147483647 + 1",
        ),
        (
            "l_orderkey < 9223372036854775807 + 1",
            "out of range of BIGINT",
            "9223372036854775807 + 1",
        ),
        (
            "l_shipdate < date '9999-12-31' + 1",
            "out of range of DATE",
            "date '9999-12-31' + 1",
        ),
        (
            "l_tax < 100000000000000000000000000000000000000",
            "at most 38 digits",
            "100000000000000000000000000000000000000",
        ),
        ("l_tax < 0x10", "found `0x10`", "0x10"),
        ("l_tax = 1; select 1", "found `;`", ";"),
        ("l_tax = ?", "found `?`", "?"),
        ("l_comment = 'abc", "Unterminated", ""),
        (
            "l_comment = 'a\nb' and\n  l_taxes > 1",
            "did you mean `l_tax`?",
            "l_taxes",
        ),
        ("l_comment = 'äöü' and foo > 1", "no column `foo`", "foo"),
        ("cast(l_tax as double) > 1", "columns are not cast", "l_tax"),
        ("orders.l_tax > 1", "no column `orders`", "orders"),
    ] {
        assert_refused(text, message, at);
    }
}

#[test]
fn an_error_reads_well() {
    let error = refused("l_quantity < 24 AND l_shipdat < DATE '1994-01-01'");
    let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines[0],
        "no column `l_shipdat` in lineitem; did you mean `l_shipdate`?"
    );
    assert_eq!(
        lines[1],
        "  l_quantity < 24 AND l_shipdat < DATE '1994-01-01'"
    );
    assert_eq!(lines[2], "                      ^^^^^^^^^");
    assert!(lines[3].starts_with("columns of lineitem: l_orderkey BIGINT, l_partkey BIGINT,"));
}

#[test]
fn no_text_is_too_much() {
    let deep = format!("{}l_tax = 1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(refused(&deep).message.contains("nested deeper"));
    assert!(
        refused(&"NOT ".repeat(100_000))
            .message
            .contains("nested deeper")
    );
    assert!(
        refused(&format!("l_tax > {} 1", "- ".repeat(100_000)))
            .message
            .contains("nested deeper")
    );
    assert!(
        refused(&format!("l_tax > {} 1", "l_tax + ".repeat(100_000)))
            .message
            .contains("in one chain")
    );
    assert!(
        refused(&" ".repeat(SQL_BYTES_MAX + 1))
            .message
            .contains("at most")
    );
    let listed = format!("l_orderkey IN ({})", vec!["7"; 50_000].join(","));
    assert!(matches!(parse(&listed), Predicate::In { list, .. } if list.len() == 50_000));
    let wide = vec!["l_tax = 1"; 20_000].join(" AND ");
    assert!(matches!(parse(&wide), Predicate::And(parts) if parts.len() == 20_000));
}

#[test]
fn columns() {
    let schema = lineitem();
    assert_eq!(
        parse_columns(&schema, "*").unwrap(),
        (0..16).collect::<Vec<_>>()
    );
    assert_eq!(
        parse_columns(&schema, "l_tax, L_ORDERKEY,l_tax").unwrap(),
        [7, 0, 7]
    );
    for (text, message) in [
        ("l_tax,", "expected a column, found the end"),
        ("l_tax l_discount", "expected a comma or the end"),
        ("*, l_tax", "expected a comma or the end"),
        ("l_tacks", "no column `l_tacks`"),
        ("1", "expected a column, found `1`"),
    ] {
        let error = parse_columns(&schema, text).unwrap_err();
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}

#[test]
fn aggregates() {
    let schema = lineitem();
    let text = "sum(l_extendedprice*l_discount), count(*), COUNT(l_tax) AS n, min(l_comment), avg(l_tax + 1) as \"A b\"";
    let aggregate = parse_aggregate(&schema, text, Some("l_returnflag, l_linestatus")).unwrap();
    let names: Vec<&str> = aggregate
        .functions
        .iter()
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "sum(l_extendedprice*l_discount)",
            "count(*)",
            "n",
            "min(l_comment)",
            "A b"
        ]
    );
    assert_eq!(aggregate.group_by, [8, 9]);
    assert_eq!(aggregate.functions[2].function, AggregateFunction::Count);
    let query = Query {
        table: "lineitem".into(),
        predicate: Predicate::Constant(Some(true)),
        output: Output::Aggregate(aggregate),
        limit: None,
    };
    assert_eq!(query.check(&schema), Ok(()));
    assert_eq!(
        query_to_sql(&query, &schema, "lineitem"),
        "SELECT l_returnflag, l_linestatus, sum(l_extendedprice * l_discount) AS \"sum(l_extendedprice*l_discount)\", \
         count(*) AS \"count(*)\", count(*) AS \"n\", min(l_comment) AS \"min(l_comment)\", \
         CAST(sum(l_tax + 1) AS DOUBLE) / count(*) AS \"A b\" FROM lineitem GROUP BY l_returnflag, l_linestatus"
    );
    for (text, group_by, message) in [
        ("sum(l_comment)", None, "there is no sum of VARCHAR"),
        ("sum(l_tax / 2)", None, "aggregates are exact"),
        ("max(null)", None, "there is no max of NULL"),
        (
            "median(l_tax)",
            None,
            "expected count, sum, min, max or avg",
        ),
        ("l_tax", None, "expected count, sum, min, max or avg"),
        ("count(l_tax + 1)", None, "the ) of count"),
        ("count(distinct l_tax)", None, "no column `distinct`"),
        ("count(*) n", None, "expected a comma, AS or the end"),
        ("count(*)", Some("l_tax, l_tax, l_tax"), "at most 2"),
        ("count(*)", Some("l_taxs"), "did you mean `l_tax`?"),
        ("", None, "found the end"),
    ] {
        let error = parse_aggregate(&schema, text, group_by).unwrap_err();
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}

#[test]
fn result_types_are_cast() {
    let schema = lineitem();
    let sql = |text: &str| {
        let output = Output::Aggregate(parse_aggregate(&schema, text, None).unwrap());
        let predicate = parse("l_tax < 1");
        query_to_sql(
            &Query {
                table: "lineitem".into(),
                predicate,
                output,
                limit: None,
            },
            &schema,
            "t",
        )
    };
    assert_eq!(
        sql("sum(l_orderkey) as a"),
        "SELECT CAST(sum(l_orderkey) AS DECIMAL(38,0)) AS \"a\" FROM t WHERE l_tax < 1"
    );
    assert_eq!(
        sql("max(l_tax * 2.5) as a"),
        "SELECT CAST(max(l_tax * 2.5) AS DECIMAL(38,3)) AS \"a\" FROM t WHERE l_tax < 1"
    );
    assert_eq!(
        sql("min(l_shipdate + 1) as a"),
        "SELECT min(l_shipdate + 1) AS \"a\" FROM t WHERE l_tax < 1"
    );
}

/// A few rows are enough where nothing is run.
fn samples(schema: &Schema) -> Samples {
    let texts = ["carefully final", "N", "it's", "50%_é\\!"];
    let row = |i: usize| {
        let value = |ty| match ty {
            ColumnType::Text => Literal::Text(texts[i].into()),
            ColumnType::Date => Literal::Date([8035, 9000, 10_590, 9500][i]),
            ColumnType::Decimal { .. } => Literal::of_stored([0, 4, 90_001, 1][i], ty),
            ColumnType::Integer | ColumnType::BigInt => Literal::of_stored([1, 7, 3, 5][i], ty),
        };
        schema
            .columns
            .iter()
            .map(|column| value(column.ty))
            .collect()
    };
    let bounds = (schema.columns.iter()).map(|column| match column.ty {
        ColumnType::Date => (8035, 10_590),
        ColumnType::Decimal { .. } => (0, 10_494_950),
        _ => (1, 7),
    });
    Samples {
        rows: (0..texts.len()).map(row).collect(),
        bounds: bounds.collect(),
    }
}

#[test]
fn what_is_written_is_read_back() {
    let schema = lineitem();
    let samples = samples(&schema);
    let mut generator = Generator::new(&schema, &samples, 7);
    for _ in 0..5000 {
        let predicate = generator.predicate();
        assert_eq!(predicate.check(&schema), Ok(()));
        let sql = to_sql(&predicate, &schema);
        let read = parse_predicate(&schema, &sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(read, predicate, "{sql}");
        let bytes = postcard::to_stdvec(&predicate).unwrap();
        assert_eq!(
            postcard::from_bytes::<Predicate>(&bytes).unwrap(),
            predicate
        );
    }
}

#[test]
fn columns_named_like_keywords_are_quoted() {
    let column = |name: &str| crate::schema::Column {
        name: name.into(),
        ty: ColumnType::Integer,
    };
    let schema = Schema {
        table: "t".into(),
        columns: ["order", "Two Words", "q\"uote", "1st", "_fine1"]
            .map(column)
            .into(),
    };
    let all = (0..5).map(|column| Predicate::Compare {
        op: CompareOp::Less,
        left: Scalar::Column(column),
        right: Scalar::Arithmetic {
            op: ArithmeticOp::Add,
            left: Box::new(Scalar::Column(column)),
            right: Box::new(Scalar::Literal(Literal::Number {
                unscaled: 1,
                scale: 0,
            })),
        },
    });
    let predicate = Predicate::And(all.collect());
    let sql = to_sql(&predicate, &schema);
    assert!(
        sql.starts_with("\"order\" < \"order\" + 1 AND \"Two Words\" < "),
        "{sql}"
    );
    assert!(sql.ends_with("_fine1 < _fine1 + 1"), "{sql}");
    assert_eq!(parse_predicate(&schema, &sql), Ok(predicate));
}

proptest! {
    #[test]
    fn any_text_gives_an_answer_or_an_error(text in "\\PC{0,200}") {
        if let Err(error) = parse_predicate(&lineitem(), &text) {
            prop_assert!(error.at.start <= error.line.chars().count());
        }
    }

    /// Words and symbols that the parser knows, in any order: mostly nonsense, and deeper than random letters reach.
    #[test]
    fn any_tokens_give_an_answer_or_an_error(
        picks in proptest::collection::vec(0..TOKENS.len(), 0..40)
    ) {
        let schema = lineitem();
        let text: Vec<&str> = picks.into_iter().map(|pick| TOKENS[pick]).collect();
        let text = text.join(" ");
        match parse_predicate(&schema, &text) {
            Ok(predicate) => {
                prop_assert_eq!(predicate.check(&schema), Ok(()));
                let sql = to_sql(&predicate, &schema);
                prop_assert_eq!(parse_predicate(&schema, &sql).map(|again| to_sql(&again, &schema)), Ok(sql));
            }
            Err(error) => prop_assert!(error.at.start <= error.line.chars().count()),
        }
        let _ = parse_aggregate(&schema, &text, Some(&text));
    }
}

const TOKENS: [&str; 50] = [
    "l_tax",
    "l_orderkey",
    "l_linenumber",
    "l_shipdate",
    "l_comment",
    "lineitem",
    ".",
    "nonsense",
    "1",
    "0.5",
    "1e3",
    "99999999999999999999",
    "'a%'",
    "'1994-01-01'",
    "'",
    "\"",
    "DATE",
    "INTERVAL",
    "day",
    "month",
    "CAST",
    "AS",
    "DOUBLE",
    "::",
    "(",
    ")",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "ESCAPE",
    "IS",
    "NULL",
    "TRUE",
    "sum",
    "count",
    "é",
];

#[test]
fn what_does_not_fit_a_schema_is_written_all_the_same() {
    let column = |at| Scalar::Column(at);
    let sum = Scalar::Arithmetic {
        op: ArithmeticOp::Add,
        left: Box::new(column(10)),
        right: Box::new(column(99)),
    };
    let predicate = Predicate::IsNull(sum.clone());
    assert_eq!(
        to_sql(&predicate, &lineitem()),
        "l_shipdate + \"column 99\" IS NULL"
    );
    let none = Schema {
        table: "lineitem".into(),
        columns: Vec::new(),
    };
    let functions = [
        AggregateFunction::Sum(sum.clone()),
        AggregateFunction::Max(sum),
    ];
    let functions = functions.map(|function| AggregateCall {
        name: "f".into(),
        function,
    });
    let query = Query {
        table: "lineitem".into(),
        predicate,
        output: Output::Aggregate(Aggregate {
            group_by: vec![7],
            functions: functions.into(),
        }),
        limit: None,
    };
    for schema in [none, lineitem()] {
        assert!(query.check(&schema).is_err());
        assert!(query_to_sql(&query, &schema, "lineitem").contains("\"column 99\""));
    }
}

#[test]
fn statements() {
    let schema = lineitem();
    let query = |text: &str| Query::parse(&schema, text).unwrap_or_else(|error| panic!("{error}"));
    for text in [
        "select l_orderkey, l_comment from LINEITEM where l_quantity < 24;",
        "SELECT count(*) FROM lineitem",
        "SELECT l_returnflag, l_linestatus, count(*), max(l_comment) FROM lineitem WHERE l_tax = 0 \
         GROUP BY l_returnflag, l_linestatus",
    ] {
        let parsed = query(text);
        let written = query_to_sql(&parsed, &schema, "lineitem");
        assert_eq!(query(&written), parsed, "{written}");
    }
    let all = query("SELECT * FROM lineitem");
    assert_eq!(all.output, Output::Rows((0..16).collect()));
    assert_eq!(all.predicate, Predicate::Constant(Some(true)));
    let q6 = query("SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem");
    let aggregate = parse_aggregate(
        &schema,
        "sum(l_extendedprice * l_discount) AS revenue",
        None,
    );
    assert_eq!(q6.output, Output::Aggregate(aggregate.unwrap()));
}

#[test]
fn statements_that_are_refused_say_where() {
    for (text, message, at) in [
        ("DELETE FROM lineitem", "expected SELECT", "DELETE"),
        ("SELECT l_tax FROM orders", "no table `orders`", "orders"),
        ("SELECT l_tax WHERE l_tax = 0", "a comma or FROM", "WHERE"),
        ("SELECT l_tax FROM lineitem ORDER BY 1", "the end", "ORDER"),
        (
            "SELECT count(*) FROM lineitem GROUP BY l_tax",
            "SELECT lists the columns",
            "GROUP BY l_tax",
        ),
        (
            "SELECT l_tax FROM lineitem GROUP BY l_tax",
            "without a function",
            "GROUP BY l_tax",
        ),
        (
            "SELECT count(*), l_tax FROM lineitem",
            "count, sum",
            "l_tax",
        ),
        (
            "SELECT l_tax FROM lineitem WHERE l_taxx = 0",
            "did you mean",
            "l_taxx",
        ),
    ] {
        let error = Query::parse(&lineitem(), text).expect_err(text);
        let marked: String = (error.line.chars().skip(error.at.start))
            .take(error.at.len())
            .collect();
        assert!(error.message.contains(message), "{text}: {error}");
        assert_eq!(marked, at, "{text}: {error}");
    }
}
