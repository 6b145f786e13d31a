//! Queries as a stranger might send them.

use super::*;
use crate::tpch;

fn number(unscaled: i128) -> Scalar {
    Scalar::Literal(Literal::Number { unscaled, scale: 0 })
}

fn compare(left: Scalar, right: Scalar) -> Predicate {
    Predicate::Compare {
        op: CompareOp::Less,
        left,
        right,
    }
}

fn rows_where(predicate: Predicate) -> Query {
    Query {
        table: "lineitem".into(),
        predicate,
        output: Output::Rows(vec![0]),
        limit: None,
    }
}

#[test]
fn forged_queries_are_refused() {
    let schema = tpch::schema("lineitem").unwrap();
    let aggregate = |group_by, function| Query {
        output: Output::Aggregate(Aggregate {
            group_by,
            functions: vec![AggregateCall {
                name: "f".into(),
                function,
            }],
        }),
        ..rows_where(Predicate::Constant(Some(true)))
    };
    let like = |column, pattern: &str, escape| {
        rows_where(Predicate::Like {
            column,
            pattern: pattern.into(),
            escape,
        })
    };
    let listed = |value, list| rows_where(Predicate::In { value, list });
    let forged = [
        (
            Query {
                table: "orders".into(),
                ..rows_where(Predicate::Constant(None))
            },
            "asks for table `orders`",
        ),
        (
            rows_where(compare(Scalar::Column(16), number(1))),
            "column 16 of `lineitem`, which has 16",
        ),
        (
            rows_where(compare(Scalar::Column(u32::MAX), number(1))),
            "column 4294967295",
        ),
        (
            rows_where(compare(Scalar::Column(15), number(1))),
            "VARCHAR and INTEGER do not compare",
        ),
        (
            rows_where(compare(number(i128::MIN), number(1))),
            "more than 38 digits",
        ),
        (
            rows_where(compare(
                Scalar::Literal(Literal::Number {
                    unscaled: 1,
                    scale: 200,
                }),
                number(1),
            )),
            "more than 38 digits",
        ),
        (
            rows_where(compare(
                Scalar::Literal(Literal::Date(i32::MAX)),
                Scalar::Column(10),
            )),
            "years 1 to 9999",
        ),
        (
            rows_where(compare(
                Scalar::Literal(Literal::Text("a\0b".into())),
                Scalar::Column(15),
            )),
            "NUL",
        ),
        (like(0, "a", None), "LIKE takes a VARCHAR column"),
        (like(15, "a!", Some('!')), "ends with its escape"),
        (like(15, "a", Some('é')), "one ASCII character"),
        (
            like(15, &"x".repeat(TEXT_BYTES_MAX + 1), None),
            "longer than",
        ),
        (listed(Scalar::Column(0), vec![]), "0 constants after IN"),
        (
            listed(Scalar::Column(0), vec![Literal::Date(0)]),
            "do not compare",
        ),
        (
            listed(Scalar::Column(0), vec![Literal::Null; NODES_MAX]),
            "terms",
        ),
        (
            Query {
                output: Output::Rows(vec![]),
                ..rows_where(Predicate::Constant(None))
            },
            "0 columns",
        ),
        (
            Query {
                output: Output::Rows(vec![99]),
                ..rows_where(Predicate::Constant(None))
            },
            "column 99",
        ),
        (
            aggregate(vec![0, 1, 2], AggregateFunction::Count),
            "3 columns to group by",
        ),
        (aggregate(vec![77], AggregateFunction::Count), "column 77"),
        (
            aggregate(vec![], AggregateFunction::Sum(Scalar::Column(15))),
            "no sum of VARCHAR",
        ),
        (
            aggregate(
                vec![],
                AggregateFunction::Max(Scalar::Literal(Literal::Null)),
            ),
            "no max of NULL",
        ),
        (
            aggregate(
                vec![],
                AggregateFunction::Avg(Scalar::Literal(Literal::Double(1.0))),
            ),
            "no avg of DOUBLE",
        ),
    ];
    for (query, message) in forged {
        let error = query.check(&schema).unwrap_err();
        assert!(error.0.contains(message), "{error} instead of {message}");
    }
    let product = (0..20).fold(Scalar::Column(7), |product, _| Scalar::Arithmetic {
        op: ArithmeticOp::Multiply,
        left: Box::new(product),
        right: Box::new(Scalar::Column(7)),
    });
    let error = rows_where(compare(product, number(1)))
        .check(&schema)
        .unwrap_err();
    assert!(error.0.contains("digits after the point"), "{error}");
}

/// Each level is a few bytes: without a bound a short message would overflow the stack of whoever decodes it.
#[test]
fn decoding_is_bounded_in_depth() {
    let schema = tpch::schema("lineitem").unwrap();
    let nested = |levels: usize| {
        let mut bytes = postcard::to_stdvec("lineitem").unwrap();
        let not =
            postcard::to_stdvec(&Predicate::Not(Box::new(Predicate::Constant(None)))).unwrap();
        let leaf = postcard::to_stdvec(&rows_where(Predicate::Constant(None))).unwrap();
        bytes.extend(std::iter::repeat_n(not[0], levels));
        bytes.extend(&leaf[bytes.len() - levels..]);
        bytes
    };
    let fine: Query = postcard::from_bytes(&nested(DEPTH_MAX)).unwrap();
    assert_eq!(fine.check(&schema), Ok(()));
    for levels in [DEPTH_MAX + 1, 1_000_000] {
        assert!(postcard::from_bytes::<Query>(&nested(levels)).is_err());
    }
    // The bound counts what is open, not what was ever decoded.
    assert!(postcard::from_bytes::<Query>(&nested(DEPTH_MAX)).is_ok());
    let sum = Scalar::Arithmetic {
        op: ArithmeticOp::Add,
        left: Box::new(number(1)),
        right: Box::new(number(1)),
    };
    let add = postcard::to_stdvec(&sum).unwrap();
    let deep: Vec<u8> = std::iter::repeat_n(&add[..2], 1_000_000)
        .flatten()
        .copied()
        .collect();
    assert!(postcard::from_bytes::<Scalar>(&deep).is_err());
}
