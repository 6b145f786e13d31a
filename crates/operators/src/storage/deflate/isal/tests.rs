//! The declarations beside the library's header, and what the mapping of levels takes for granted.

use std::fmt::Write as _;
use std::mem::offset_of;

use super::*;
use crate::input;
use crate::storage::c;
use crate::storage::deflate::compressed_bytes_max;

/// Claims about the header's declarations that C's compiler can check.
fn claims() -> String {
    let mut c = String::new();
    macro_rules! claim {
        ($($field:ident)*) => {
            $(let _ = writeln!(
                c,
                "_Static_assert(offsetof(struct isal_zstream, {0}) == {1}, \"{0}\");",
                stringify!($field),
                offset_of!(sys::Stream, $field),
            );)*
        };
    }
    claim!(
        next_in avail_in total_in next_out avail_out total_out hufftables level level_buf_size level_buf end_of_stream flush
        gzip_flag hist_bits internal_state
    );
    let mut equal = |expression: &str, value: i64| {
        let _ = writeln!(c, "_Static_assert({expression} == {value}, \"{value}\");");
    };
    equal(
        "sizeof(struct isal_zstream)",
        size_of::<sys::Stream>() as i64,
    );
    equal("COMP_OK", sys::COMP_OK.into());
    equal("STATELESS_OVERFLOW", sys::STATELESS_OVERFLOW.into());
    equal("NO_FLUSH", sys::NO_FLUSH.into());
    equal("IGZIP_DEFLATE", sys::IGZIP_DEFLATE.into());
    equal("ISAL_DEF_MAX_LEVEL", IsaL::LEVEL_MAX.into());
    for (level, bytes) in sys::LEVEL_BYTES.into_iter().enumerate() {
        equal(&format!("ISAL_DEF_LVL{level}_DEFAULT"), bytes.into());
    }
    for function in sys::FUNCTIONS {
        let kind = match *function {
            "isal_deflate_stateless_init" => "void (*)(struct isal_zstream *)",
            "isal_deflate_stateless" => "int (*)(struct isal_zstream *)",
            "crc32_gzip_refl" => "uint32_t (*)(uint32_t, const unsigned char *, uint64_t)",
            "isal_adler32" => "uint32_t (*)(uint32_t, const unsigned char *, uint64_t)",
            other => panic!("{other} is not checked"),
        };
        let _ = writeln!(
            c,
            "_Static_assert(_Generic(&{function}, {kind}: 1, default: 0), \"{function}\");"
        );
    }
    c
}

const HEADERS: &str = "#include <stddef.h>\n#include <isa-l/crc.h>\n#include <isa-l/igzip_lib.h>\n";

#[test]
fn declarations_agree_with_the_header() {
    match c::compiles(HEADERS, &claims()) {
        Some(agreed) => agreed.unwrap_or_else(|why| panic!("{why}")),
        None => println!("skipped: no header or no compiler; apt-get install libisal-dev gcc"),
    }
}

#[test]
fn a_wrong_claim_is_seen() {
    let wrong = claims() + "_Static_assert(offsetof(struct isal_zstream, level) == 41, \"\");\n";
    if let Some(agreed) = c::compiles(HEADERS, &wrong) {
        assert!(agreed.is_err());
    }
}

fn library() -> Option<IsaL> {
    let library = IsaL::detect();
    if library.is_none() {
        println!("skipped: no libisal.so.2; apt-get install libisal2");
    }
    library
}

/// Up to where the levels 1 and 2 are taken for each other.
#[test]
fn levels_one_and_two_compress_short_items_alike() {
    let Some(library) = library() else { return };
    let deflated = |level: u32, plain: &[u8]| {
        let mut encoder = Encoder::new(library, 2);
        let stream = &mut *encoder.stream;
        let mut slot = vec![0; compressed_bytes_max(plain.len())];
        // SAFETY: as in `Encoder::deflate`.
        let status = unsafe {
            (library.0.isal_deflate_stateless_init)(stream);
            stream.level = level;
            stream.level_buf = encoder.tables.as_mut_ptr();
            stream.level_buf_size = encoder.tables.len() as u32;
            stream.end_of_stream = 1;
            (stream.next_in, stream.avail_in) = (plain.as_ptr(), plain.len() as u32);
            (stream.next_out, stream.avail_out) = (slot.as_mut_ptr(), slot.len() as u32);
            (library.0.isal_deflate_stateless)(stream)
        };
        assert_eq!(status, sys::COMP_OK);
        slot.truncate(stream.total_out as usize);
        slot
    };
    for len in [0, 1, 100, 1000, 2048, 4000, 4096] {
        let plain = input::text(3, len, 1).bytes;
        assert_eq!(deflated(1, &plain), deflated(2, &plain), "{len}");
    }
    // Else the rule would be too narrow.
    let plain = input::text(3, 1 << 16, 1).bytes;
    assert!(deflated(2, &plain).len() < deflated(1, &plain).len());
}

#[test]
fn the_version_is_that_of_the_file() {
    let Some(_) = library() else { return };
    assert!(IsaL::version().starts_with("2."), "{}", IsaL::version());
}
