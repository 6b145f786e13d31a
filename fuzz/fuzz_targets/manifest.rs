//! Any bytes as a plug-in's manifest, and as what its `run` printed: an error, or records that have the manifest's metrics alone and are
//! the same when they are read from a file.
#![no_main]

use dpb_cli::testing::ReadPlugin;
use dpb_core::measure::Reading;
use libfuzzer_sys::fuzz_target;

macro_rules! manifests {
    ($($name:literal),+) => {
        [$(include_str!(concat!("../../plugins/", $name, "/plugin.json"))),+]
    };
}

/// A manifest that takes much of what a `run` may print.
const USUAL: &str = r#"{"name":"p","summary":"s","metrics":[{"name":"run_ns","meaning":"m"},{"name":"bytes_per_s","meaning":"m"}]}"#;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    // The manifest, then an empty line, then the output.
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (manifest, output) = bytes.split_at(end.unwrap_or(bytes.len()));
    let usual = ReadPlugin::read(USUAL.as_bytes()).expect("a manifest");
    check(&usual, output);
    if let Ok(plugin) = ReadPlugin::read(manifest) {
        for (value, again) in plugin.defaults() {
            assert_eq!(Ok(value), again);
        }
        check(&plugin, output);
    }
});

fn check(plugin: &ReadPlugin, output: &[u8]) {
    let metrics: Vec<&str> = plugin.metrics().collect();
    let records = match plugin.results(output, 3) {
        Ok(records) => records,
        Err(why) => {
            assert!(!why.is_empty());
            return;
        }
    };
    assert!(!records.is_empty());
    for record in records {
        assert!(
            record
                .samples
                .keys()
                .all(|name| metrics.contains(&name.as_str()))
        );
        assert_eq!(record.parameters["repeat"].to_string(), "3");
        let line = serde_json::to_vec(&record).expect("a record is JSON");
        let read = Reading::of_bytes(&line);
        assert_eq!(read.damaged, [], "{}", String::from_utf8_lossy(&line));
        assert_eq!(read.records[0].record, record);
    }
}

/// The manifests of the plug-ins here and one with a parameter of each type, each with lines that its `run` could print.
fn seeds() -> Vec<Vec<u8>> {
    let every_type = r#"{"name":"p","summary":"s","time_limit":"2s","run_time":"1ms","metrics":[{"name":"run_ns","meaning":"m","better":"less","chart":false}],
"view":{"lead":["a"],"series":["h"],"sweeps":["a","b"],"fixed":["c"],"base":{"parameter":"h","value":"t","metric":"run_ns"}},"parameters":[
{"name":"a","meaning":"m","type":"size","default":"4KiB"},{"name":"b","meaning":"m","type":"count","minimum":1,"maximum":4,"default":2},
{"name":"c","meaning":"m","type":"number","default":0},{"name":"d","meaning":"m","type":"real","default":-1.5},
{"name":"e","meaning":"m","type":"time","default":"200ms"},{"name":"f","meaning":"m","type":"share","default":"5%"},
{"name":"g","meaning":"m","type":"rate","default":"2.5M"},{"name":"h","meaning":"m","type":"text","default":"t"},
{"name":"i","meaning":"m","type":"file"},{"name":"j","meaning":"m","type":"switch","default":true},
{"name":"k","meaning":"m","words":["yes","no"],"default":false}]}"#;
    let outputs = [
        r#"{"samples":{"run_ns":[1,2.5,1e9]},"counts":{"rows":3},"check":{"against":"a","compared":3}}"#,
        r#"{"samples":{"run_ns":[1e308,1.7e308,5e-324]},"parameters":{"x":1,"y":0.5,"z":"t","w":true},"evidence":{"kind":"measured"}}"#,
        r#"{"outcome":{"status":"unsupported","reason":"r"},"libraries":{"zlib":"1.3"}}"#,
        "{\"samples\":{\"bytes_per_s\":[1]}}\n{\"outcome\":{\"status\":\"failed\",\"reason\":\"r\"}}",
    ];
    let manifests = manifests!["openssl-speed", "perftest-client", "python-zlib"];
    let manifests = manifests.into_iter().chain([every_type, USUAL]);
    let with = |manifest: &str| {
        outputs.map(|output| format!("{}\n\n{output}", manifest.trim()).into_bytes())
    };
    manifests.flat_map(with).collect()
}
