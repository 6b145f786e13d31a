//! DOCA's backends on stand-ins for its libraries, three releases of them, each case in a process of its own.

mod doca_support;

use std::path::Path;

use doca_support::cases::{self, ERASURE, OPERATORS, STREAMS};
use doca_support::{FLAVOURS, Flavour, passes, run};

/// Runs `test` on the libraries of each flavour, or says why not.
fn on_each(test: impl Fn(Flavour, &Path)) {
    for flavour in FLAVOURS {
        match flavour.libraries() {
            Ok(libraries) => test(flavour, &libraries),
            Err(why) => println!("skipped: stand-in {}: {why}", flavour.name),
        }
    }
}

/// Runs `test` on the libraries of each flavour with each of `operators` that they have, or says which they have not.
fn with_each(operators: &[&str], test: impl Fn(&str, &Path)) {
    on_each(|flavour, libraries| {
        let (has, _) = flavour.operators(libraries);
        for operator in operators {
            match has.contains(operator) {
                true => test(operator, libraries),
                false => println!("skipped: {}: it has no {operator}", flavour.name),
            }
        }
    });
}

/// The program that the processes of the other tests run; no test by itself.
#[test]
fn child() {
    if let Ok(case) = std::env::var("DPB_DOCA_CASE") {
        cases::run(&case);
    }
}

#[test]
fn every_operator_conforms_or_says_why_not() {
    conform("conforms", &OPERATORS);
}

#[test]
fn streams_conform_or_say_why_not() {
    conform("conforms streams", &STREAMS);
}

#[test]
fn erasure_codes_conform_or_say_why_not() {
    conform("conforms erasure", &ERASURE);
}

#[test]
fn a_chain_runs_stage_by_stage() {
    on_each(|flavour, libraries| {
        let said = passes(libraries, "conforms chain", "");
        let (compiled, _) = flavour.operators(libraries);
        let has_both = ["copy", "sha256"]
            .iter()
            .all(|name| compiled.contains(name));
        assert_eq!(
            said.contains("conforms: chain\n"),
            has_both,
            "{}: {said}",
            flavour.name
        );
    });
}

fn conform(case: &str, operators: &[(&str, &str)]) {
    on_each(|flavour, libraries| {
        let said = passes(libraries, case, "");
        let (compiled, skipped) = flavour.operators(libraries);
        for why in skipped {
            println!("skipped: {}: {why}", flavour.name);
        }
        for (name, parameters) in operators {
            let is_there = said.contains(&format!("conforms: {name} {parameters}\n"));
            assert_eq!(
                is_there,
                compiled.contains(name),
                "{}: {name}: {said}",
                flavour.name
            );
        }
    });
}

#[test]
fn codes_of_the_most_blocks_are_computed() {
    let most = [
        ("erasure-encode", "data=128,parity=64"),
        (
            "erasure-recover",
            "data=128,parity=64,missing=0+127+128+191",
        ),
        ("erasure-recover", "data=1,parity=64,missing=0+1+64"),
    ];
    for (name, parameters) in most {
        with_each(&[name], |operator, libraries| {
            let case = format!("drives {operator} {parameters}");
            let said = passes(libraries, &case, "delay=3,shuffle=1");
            assert!(said.contains("40 jobs: 40 right, refused []"), "{said}");
        });
    }
}

#[test]
fn the_engine_is_asked_for_whole_blocks_alone() {
    with_each(&["erasure-encode"], |_, libraries| {
        let said = passes(libraries, "settles", "fail_submit=2");
        assert!(said.contains("one item is computed"), "{said}");
    });
}

#[test]
fn a_container_that_is_not_whole_is_refused() {
    with_each(&["inflate"], |_, libraries| {
        for faults in ["", "delay=3,shuffle=1,full=2"] {
            let said = passes(libraries, "unwraps", faults);
            assert!(said.contains("12 items of zlib end as they must"), "{said}");
            assert!(said.contains("15 items of gzip end as they must"), "{said}");
        }
    });
}

#[test]
fn late_completions_in_any_order_change_nothing() {
    on_each(|_, libraries| {
        passes(
            libraries,
            "conforms quickly",
            "delay=3,shuffle=1,starting=3,stop=5",
        );
    });
}

#[test]
fn a_job_that_is_late_is_waited_for_and_not_polled_for() {
    with_each(&["copy", "sha256"], |operator, libraries| {
        // A tenth of a second each, in which naps of the usual length would poll hundreds of times.
        let said = passes(libraries, &format!("waits {operator}"), "late=100,counts=1");
        // Work queues are polled.
        if said.contains("a file: false") {
            assert!(libraries.to_string_lossy().contains("jobs-2.2"), "{said}");
            return;
        }
        let number = |before, after| between(&said, before, after).parse::<u64>();
        let polls = number("waited for with ", " polls").expect("a number");
        let progressed = number("progressed ", " times").expect("a number");
        assert!(polls <= cases::WAITS * 4, "{said}");
        assert!(progressed <= cases::WAITS * 20, "{said}");
    });
}

#[test]
fn a_job_that_ends_before_anybody_waits_for_it_is_found() {
    with_each(&["copy"], |operator, libraries| {
        let said = passes(libraries, &format!("oversleeps {operator}"), "late=1");
        let polls = format!("{0} jobs were waited for with {0} polls", cases::WAITS);
        assert!(
            said.contains(&polls) || said.contains("a file: false"),
            "{said}"
        );
    });
}

#[test]
fn queues_that_are_waited_for_by_their_files_conform() {
    on_each(|_, libraries| {
        passes(libraries, "conforms quickly", "late=1");
    });
}

#[test]
fn an_engine_that_takes_few_tasks_at_a_time_gets_all_of_them() {
    with_each(&["copy", "rxpmatch"], |operator, libraries| {
        let drives = format!("drives {operator}");
        let said = passes(libraries, &drives, "full=3,shuffle=1");
        assert!(said.contains("40 jobs: 40 right, refused []"), "{said}");
    });
}

#[test]
fn a_submit_that_fails_is_one_errors_cause() {
    with_each(&["copy", "rxpmatch"], |operator, libraries| {
        // The fifth task is of one job alone, whatever its items.
        let said = passes(libraries, &format!("drives {operator}"), "fail_submit=5");
        assert!(
            said.contains("40 jobs: 39 right, refused [Device(22)]"),
            "{said}"
        );
        assert!(
            said.contains("DOCA_ERROR_UNEXPECTED (Unexpected error)"),
            "{said}"
        );
    });
}

#[test]
fn a_task_that_fails_refuses_its_item_or_its_job() {
    let operators = ["copy", "sha256", "rxpmatch", "erasure-encode"];
    with_each(&operators, |operator, libraries| {
        let drives = format!("drives {operator}");
        let said = passes(libraries, &drives, "fail_task=5,delay=4");
        assert!(
            said.contains("40 jobs: 39 right, refused [Device(17)]"),
            "{said}"
        );
        assert!(
            said.contains("DOCA_ERROR_IO_FAILED (Input/Output Operation Failed)"),
            "{said}"
        );
    });
}
#[test]
fn a_search_that_reports_less_than_it_found_refuses_its_item() {
    with_each(&["rxpmatch"], |operator, libraries| {
        let drives = format!("drives {operator}");
        let said = passes(libraries, &drives, "");
        assert!(said.contains("40 jobs: 40 right, refused []"), "{said}");
        // Where nothing matches, nothing is lost.
        let said = passes(libraries, &drives, "matches=0");
        let right = between(&said, "40 jobs: ", " right");
        let right: usize = right.parse().expect("a number");
        assert!(0 < right && right < 40, "{said}");
        let refused = vec!["Device(-1)"; 40 - right].join(", ");
        assert!(said.contains(&format!("refused [{refused}]")), "{said}");
        assert!(
            said.contains("found more matches than it reports"),
            "{said}"
        );
        let said = passes(libraries, &drives, "gives_up=5");
        assert!(
            said.contains("40 jobs: 39 right, refused [Device(-2)]"),
            "{said}"
        );
        assert!(said.contains("gave the search up"), "{said}");
    });
}

#[test]
fn rules_that_the_engine_reads_otherwise_are_refused_by_name() {
    with_each(&["rxpmatch"], |_, libraries| {
        let said = passes(libraries, "refuses rules", "");
        for why in [
            "ips: rule 1005: the engine takes no word boundary, `\\b` or `\\B`",
            "3:/a*/: rule 3: the engine takes no rule that matches no bytes",
            "4:/(?=a)b/: rules: line 1: lookahead is not regular",
        ] {
            assert!(said.contains(why), "{why}: {said}");
        }
    });
}

#[test]
fn what_left_with_a_release_is_said_to_have_left() {
    on_each(|flavour, libraries| {
        let has_left = flavour.release() != "2.2";
        let said = passes(libraries, "opens", "");
        let why = "RegEx left DOCA with 2.5; it needs 2.2 or earlier, and a BlueField-2";
        assert_eq!(
            said.contains(&format!("rxpmatch: Limited: {why}")),
            has_left,
            "{said}"
        );
    });
}

#[test]
fn a_queue_that_cannot_be_opened_says_which_call_failed() {
    on_each(|flavour, libraries| {
        let driver = "DOCA_ERROR_DRIVER (Driver (unspecified) error)";
        let said = passes(libraries, "opens queues", "fail_start=1");
        let expected = format!("copy on mlx5_0: doca_ctx_start: {driver}");
        assert!(said.contains(&expected), "{}: {said}", flavour.name);
        // The second queue finds no context left for it, and the first is none the worse.
        let said = passes(libraries, "opens queues", "engines=1");
        let expected = format!("copy on mlx5_0: doca_dma_create: {driver}");
        assert!(said.contains(&expected), "{}: {said}", flavour.name);
        assert!(said.contains("opened again"), "{}: {said}", flavour.name);
    });
}

#[test]
fn a_code_that_the_device_does_not_take_says_which_call_failed() {
    let operators = ["erasure-encode", "erasure-recover"];
    with_each(&operators, |operator, libraries| {
        let case = format!("refuses {operator}");
        let said = passes(libraries, &case, "blocks=13");
        let expected = "on mlx5_1: doca_ec_matrix_create: DOCA_ERROR_INVALID_VALUE";
        assert!(said.contains(expected), "{said}");
        let said = passes(libraries, &case, "blocks=14");
        assert!(said.contains("opened"), "{said}");
    });
}

#[test]
fn a_device_without_an_engine_says_so() {
    on_each(|_, libraries| {
        // Every bit: no work at all.
        let said = passes(libraries, "opens", "missing=0xffff");
        assert!(
            said.contains("finds no engine: mlx5_0 has no engine that dpb knows; mlx5_1"),
            "{said}"
        );
        // Compression alone.
        let said = passes(libraries, "opens", "missing=2");
        assert!(
            said.contains("deflate: needs an engine for deflate, which mlx5_0"),
            "{said}"
        );
        assert!(said.contains("DOCA_ERROR_NOT_SUPPORTED"), "{said}");
    });
}

#[test]
fn no_device_is_a_finding() {
    on_each(|_, libraries| {
        let said = passes(libraries, "opens", "devices=0");
        assert!(
            said.contains("finds no engine: no device; needs a BlueField card"),
            "{said}"
        );
        assert!(said.contains("devices: Missing: DOCA finds none"), "{said}");
    });
}

#[test]
fn each_device_has_engines_of_its_own() {
    on_each(|flavour, libraries| {
        let said = passes(libraries, "opens", "");
        assert!(
            said.contains("device mlx5_0: Found: 0000:03:00.0: copy"),
            "{said}"
        );
        assert!(
            said.contains("device mlx5_1: Found: 0000:04:00.0: copy"),
            "{said}"
        );
        assert!(
            said.contains(&format!(
                "Emulated {{ by: \"software behind a stand-in for DOCA {}",
                flavour.release()
            )),
            "{said}"
        );
        let said = passes(libraries, "opens mlx5_1", "");
        assert!(
            said.contains("sha256: needs an engine for sha256, which mlx5_1 ("),
            "{said}"
        );
        let said = passes(libraries, "opens 0000:03:00.0", "");
        assert!(said.contains("opened doca/0000:03:00.0"), "{said}");
        let said = passes(libraries, "opens mlx5_7", "");
        assert!(
            said.contains("no device `mlx5_7` with an engine; there are: mlx5_0, mlx5_1"),
            "{said}"
        );
    });
}

#[test]
fn memory_of_one_device_is_foreign_to_another() {
    on_each(|_, libraries| {
        let said = passes(libraries, "is foreign", "");
        assert!(said.contains("refused as foreign, each way"), "{said}");
    });
}

#[test]
fn an_unplugged_device_ends_its_jobs() {
    // Idle, and with tasks in flight.
    for at in [25, 20] {
        unplugged(at);
    }
}

fn unplugged(at: usize) {
    with_each(&["copy", "rxpmatch"], |operator, libraries| {
        let faults = format!("unplugged={at},delay=2");
        let said = passes(libraries, &format!("drives {operator}"), &faults);
        let right: usize = between(&said, "40 jobs: ", " right")
            .parse()
            .expect("a number");
        assert!(right < at, "{said}");
        // Every one that is not right has the device's own error.
        let refused = vec!["Device(21)"; 40 - right].join(", ");
        assert!(said.contains(&format!("refused [{refused}]")), "{said}");
        assert!(
            said.contains("DOCA_ERROR_DRIVER (Driver (unspecified) error)"),
            "{said}"
        );
    });
}

#[test]
fn a_wedged_device_keeps_its_buffers_and_hangs_nobody() {
    wedged("copy");
}

#[test]
fn a_wedged_search_keeps_what_it_reports_to() {
    wedged("rxpmatch");
}

fn wedged(operator: &str) {
    with_each(&[operator], |operator, libraries| {
        let output = run(libraries, &format!("wedges {operator}"), "wedged=7");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{errors}");
        assert!(said.contains("dropped two queues"), "{said}");
        assert_eq!(
            errors
                .matches("does not stop: what it may still write to is leaked")
                .count(),
            1,
            "{errors}"
        );
        assert!(!errors.contains("misuse"), "{errors}");
    });
}

#[test]
fn dropped_in_every_order_nothing_is_left() {
    let operators = ["copy", "rxpmatch", "erasure-recover"];
    with_each(&operators, |operator, libraries| {
        let drops = format!("drops {operator}");
        passes(libraries, &drops, "delay=3");
        passes(libraries, &drops, "delay=3,shuffle=1,stop=3,fail_task=11");
    });
}

#[test]
fn leaked_in_every_order_nothing_is_misused() {
    with_each(&["copy", "rxpmatch"], |operator, libraries| {
        let output = run(libraries, &format!("leaks {operator}"), "delay=3");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !errors.contains("misuse"),
            "{errors}"
        );
    });
}

#[test]
fn a_process_may_end_at_any_time() {
    on_each(|_, libraries| {
        let output = run(libraries, "exits", "delay=3");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert!(!errors.contains("misuse"), "{errors}");
    });
}

#[test]
fn without_libraries_the_reason_is_one_to_act_on() {
    let nowhere = Path::new("/nonexistent");
    let said = passes(nowhere, "opens", "");
    for part in [
        "not opened: libdoca_common does not load: /nonexistent/libdoca_common.so.3: cannot open shared object file",
        "install NVIDIA's doca-runtime packages",
        "library: Missing: libdoca_common does not load",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A library of DOCA's name that is something else.
#[test]
fn a_library_that_is_not_doca_is_named_with_what_it_lacks() {
    let folder = std::env::temp_dir().join(format!("dpb-doca-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let compiled =
        doca_support::compile("int doca_something;", &folder.join("libdoca_common.so.2"));
    if let Err(why) = compiled {
        println!("skipped: {why}");
        return;
    }
    let said = passes(&folder, "opens", "");
    std::fs::remove_dir_all(&folder).expect("removed");
    let lacks = "is not DOCA 2.2 or later: ";
    assert!(
        said.contains("library: Limited: ") && said.contains(lacks),
        "{said}"
    );
    assert!(said.contains("lacks doca_pe_create"), "{said}");
}

/// Releases that do not go together: an engine's library wants what the common one has not.
#[test]
fn a_library_of_another_release_is_one_that_does_not_load() {
    let Ok(stand_in) = FLAVOURS[1].libraries() else {
        println!("skipped: no C compiler; install gcc or clang");
        return;
    };
    let folder = std::env::temp_dir().join(format!("dpb-doca-mixed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for library in ["libdoca_common.so.2", "libdoca_compress.so.2"] {
        std::fs::copy(stand_in.join(library), folder.join(library)).expect("copied");
    }
    let source =
        "int of_another_release(void); int doca_dma_create(void) { return of_another_release(); }";
    let compiled = doca_support::compile(source, &folder.join("libdoca_dma.so.2"));
    compiled.unwrap_or_else(|said| panic!("{said}"));
    let said = passes(&folder, "opens", "");
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(
        said.contains("copy: Limited: libdoca_dma does not load: "),
        "{said}"
    );
    assert!(
        said.contains("undefined symbol: of_another_release"),
        "{said}"
    );
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("`{before}` in {text}"));
    rest.split_once(after)
        .unwrap_or_else(|| panic!("`{after}` in {rest}"))
        .0
}
