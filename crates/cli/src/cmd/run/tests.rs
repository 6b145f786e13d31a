//! Which tests of a box `--filter` leaves.

use super::*;
use crate::testing;

fn boxed() -> MeasurementBox {
    let families = crate::backends::families(&[], dpb_operators::registry::Operators::DPB);
    let text = r#"{ "tasks": [
        { "task": "op", "parameters": { "operator": "crc32c", "size": ["4KiB", 64], "seconds": "200ms" } },
        { "task": "storage", "parameters": { "block": ["4096", "1MiB"], "direct": [true, "no"] } } ] }"#;
    let globals = testing::globals(families);
    let (plugins, changes) = (Plugins::default(), Changes::default());
    let read = MeasurementBox::read("b.json", text, &plugins, &changes, &globals);
    read.unwrap_or_else(|failure| panic!("{}", failure.message))
}

/// The titles of the tests that these filters leave.
fn left(filters: &[&str]) -> Result<Vec<String>, String> {
    let filters: Vec<_> = filters
        .iter()
        .map(|text| filter(text).expect("a filter"))
        .collect();
    let mut asked = boxed();
    narrow(&mut asked, &filters).map_err(|failure| failure.message)?;
    Ok(asked.tests.iter().map(Test::title).collect())
}

#[test]
fn filters_compare_values() {
    let first = ["op operator=crc32c size=4096 seconds=200ms"];
    for one in ["size=4KiB", "size=4096", "size=1KiB..8KiB"] {
        assert_eq!(left(&[one]).expect(one), first, "{one}");
    }
    assert_eq!(left(&["seconds=0.2"]).expect("op").len(), 2);
    let direct = left(&["direct=yes", "block=4KiB"]).expect("storage");
    assert_eq!(direct, ["storage block=4096 direct=yes"]);
    // The default is a value too.
    assert_eq!(left(&["file_size=1024MiB"]).expect("storage").len(), 4);
    assert_eq!(
        left(&["task=storage", "direct=false"])
            .expect("storage")
            .len(),
        2
    );
    assert_eq!(left(&["size=65"]).expect("nothing"), [""; 0]);
}

#[test]
fn a_filter_that_no_test_understands_is_refused() {
    let why = left(&["colour=red"]).expect_err("no such parameter");
    assert!(
        why.contains("no test of this box has such a parameter"),
        "{why}"
    );
    let why = left(&["size=4K"]).expect_err("no size");
    assert!(why.contains("--filter size: `4K`: write `4KiB`"), "{why}");
}
