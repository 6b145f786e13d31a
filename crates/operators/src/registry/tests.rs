//! Parameters that are files.

use dpb_core::{
    Material,
    spec::{Domain, NO_FILE, Parameter},
};

use super::*;
use crate::network;

/// An operator that is prepared with a file.
const WITH_FILE: Entry = Entry {
    name: "lookup",
    parameters: &[Parameter {
        name: "routes",
        values: Domain::File,
        default: NO_FILE,
        meaning: "one prefix a line",
    }],
    parse: |given| {
        let routes = given.file("routes")?;
        let routes = Material::public(routes.unwrap_or_else(|| b"generated".to_vec()));
        Ok(OpSpec::custom("lookup", [("routes", routes.into())]).into())
    },
    ..network::crc::CRC32C
};

fn routes(bytes: &[u8]) -> OpSpec {
    OpSpec::custom("lookup", [("routes", Material::public(bytes).into())])
}

#[test]
fn a_files_content_is_in_the_spec() {
    let path = std::env::temp_dir().join(format!("dpb-registry-{}", std::process::id()));
    std::fs::write(&path, b"10.0.0.0/8 1\n").expect("writes");
    let given = format!("routes={}", path.display());
    let spec = WITH_FILE.spec(&given);
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(spec, Ok(routes(b"10.0.0.0/8 1\n")));
    let said = WITH_FILE.spec(&given).expect_err("is gone").to_string();
    assert!(said.starts_with(&format!("lookup: {given}: cannot be read: ")));
}

#[test]
fn without_a_file_its_content_is_generated() {
    assert_eq!(WITH_FILE.default_spec(), routes(b"generated"));
    assert_eq!(WITH_FILE.spec("routes=-"), Ok(routes(b"generated")));
    assert_eq!(WITH_FILE.cases(), [Case::from(routes(b"generated"))]);
    let said = WITH_FILE.spec("routes=").expect_err("empty").to_string();
    assert_eq!(said, "lookup: routes=: not FILE");
}
