//! Against DuckDB 2.0.0's answers, written down. (`tests/differential.rs` asks DuckDB itself, where there is one.)

use super::*;
use crate::query::sql::parse_predicate;
use crate::tpch;

/// The answer for a row of lineitem with l_tax 3.45, l_discount 6.78, l_linenumber 1, l_orderkey 2, l_shipdate 1994-01-01,
/// l_comment `abc`.
fn answer(text: &str) -> Option<bool> {
    let schema = tpch::schema("lineitem").expect("a table of TPC-H");
    let row = schema
        .columns
        .iter()
        .map(|column| match column.name.as_str() {
            "l_tax" => Literal::of_stored(345, column.ty),
            "l_discount" => Literal::of_stored(678, column.ty),
            "l_linenumber" => Literal::of_stored(1, column.ty),
            "l_orderkey" => Literal::of_stored(2, column.ty),
            "l_shipdate" => Literal::Date(8766),
            "l_comment" => Literal::Text("abc".into()),
            _ => Literal::Null,
        });
    let row: Vec<Literal> = row.collect();
    let predicate = parse_predicate(&schema, text).unwrap_or_else(|error| panic!("{error}"));
    holds(&predicate, &row).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn answers() {
    for (text, expected) in [
        ("l_tax / l_discount = 0.5088495575221239e0", Some(true)),
        ("l_tax * l_discount = 23.391", Some(true)),
        (
            "l_tax * (1 - l_discount) * (1 + l_discount) = -155.140980",
            Some(true),
        ),
        ("l_tax / 3e0 = 1.1500000000000001e0", Some(true)),
        ("l_linenumber = 1.0", Some(true)),
        ("l_linenumber = 1.5", Some(false)),
        ("l_linenumber = 3000000000", Some(false)),
        ("l_tax > 3.4500000000000000000000000001", Some(false)),
        (
            "l_orderkey < 99999999999999999999999999999999999999",
            Some(true),
        ),
        ("l_tax > 1e0", Some(true)),
        ("l_tax / 0 > 0", Some(true)),
        ("(l_tax - l_tax) / (l_tax - l_tax) = 1", Some(false)),
        ("(l_tax - l_tax) / (l_tax - l_tax) is null", Some(false)),
        ("cast('nan' as double) > cast('inf' as double)", Some(true)),
        ("cast('nan' as double) = cast('nan' as double)", Some(true)),
        ("-0e0 = 0e0", Some(true)),
        ("l_shipdate - 5 - l_shipdate = -5", Some(true)),
        ("l_shipdate + l_linenumber = '1994-01-02'", Some(true)),
        ("l_shipdate >= '1994-1-1'", Some(true)),
        ("l_tax in (1, 2, null)", None),
        ("l_tax in (3.45, null)", Some(true)),
        ("l_tax in (3.45, 3.455)", Some(true)),
        ("l_tax in (0.1, 5e0, 3.45)", Some(true)),
        ("l_tax not in (null)", None),
        ("null in (1, 2)", None),
        ("l_linenumber between null and 3", None),
        ("l_linenumber between null and 0", Some(false)),
        ("l_linenumber between 2 and 1", Some(false)),
        ("null is null", Some(true)),
        ("l_tax + null = 1", None),
        ("true and null", None),
        ("false and null", Some(false)),
        ("true or null", Some(true)),
        ("false or null", None),
        ("not null", None),
        ("l_comment like 'a%'", Some(true)),
        ("l_comment like 'a_c'", Some(true)),
        ("l_comment like 'a\\b' escape '\\'", Some(false)),
        ("l_comment not like '%b%'", Some(false)),
        ("l_comment like null", None),
        ("l_comment between 'a' and 'b'", Some(true)),
        ("l_comment < 'ab'", Some(false)),
    ] {
        assert_eq!(answer(text), expected, "{text}");
    }
}

#[test]
fn patterns() {
    for (text, pattern, escape, expected) in [
        ("é", "_", None, true),
        ("é", "__", None, false),
        ("", "", None, true),
        ("", "%", None, true),
        ("", "_", None, false),
        ("a%c", r"a\%c", Some('\\'), true),
        ("abc", r"a\%c", Some('\\'), false),
        ("a%c", r"a\%c", None, false),
        ("aXbXbc", "a%b_", None, true),
        ("mississippi", "%iss%ip%i", None, true),
        ("mississippi", "%iss%ipp", None, false),
        ("abc", "abc%%%", None, true),
    ] {
        assert_eq!(
            like(text, pattern, escape),
            expected,
            "{text} LIKE {pattern}"
        );
    }
}

#[test]
fn out_of_range() {
    let huge = Literal::Number {
        unscaled: i128::MAX,
        scale: 0,
    };
    let ten = Literal::Number {
        unscaled: 10,
        scale: 0,
    };
    assert_eq!(
        arithmetic(ArithmeticOp::Multiply, &huge, &ten),
        Err(EvalError::Overflow)
    );
    assert_eq!(
        arithmetic(ArithmeticOp::Add, &huge, &ten),
        Err(EvalError::Overflow)
    );
    let fine = Literal::Number {
        unscaled: 1,
        scale: 38,
    };
    assert_eq!(
        arithmetic(ArithmeticOp::Add, &huge, &fine),
        Err(EvalError::Overflow)
    );
    assert_eq!(compare(&huge, &fine), Ok(Some(Ordering::Greater)));
    let last = Literal::Date(i32::MAX);
    assert_eq!(
        arithmetic(ArithmeticOp::Add, &last, &ten),
        Err(EvalError::Overflow)
    );
    assert_eq!(compare(&last, &ten), Err(EvalError::Type));
}

#[test]
fn doubles_are_the_nearest() {
    let mut random = crate::compare::random::Random::new(9);
    for _ in 0..20_000 {
        let bits = random.below(126);
        let wide = u128::from(random.bits()) << 64 | u128::from(random.bits());
        let unscaled = (wide >> (127 - bits)) as i128;
        let scale = 1 + random.below(38) as u8;
        for unscaled in [unscaled, -unscaled] {
            // The standard library reads decimal text as the nearest double.
            let nearest: f64 = format!("{unscaled}e-{scale}").parse().unwrap();
            assert_eq!(
                number_to_double(unscaled, scale),
                nearest,
                "{unscaled}e-{scale}"
            );
        }
    }
    // Answers of DuckDB 2.0.0.
    for (unscaled, scale, double) in [
        (440_935_886_933_076_203_665, 4, 4.409_358_869_330_762_4e16),
        (-1_708_962_327_150_268_529, 2, -1.708_962_327_150_268_6e16),
        (
            -31_738_064_456_178_890_494_404,
            6,
            -3.173_806_445_617_889_2e16,
        ),
    ] {
        assert_eq!(number_to_double(unscaled, scale), double);
    }
}
