//! Any bytes as an item of the decoder `unsnappy`, and as what its encoder is given: see [`dpb_fuzz::Coder`].
#![no_main]

use dpb_fuzz::Coder;
use libfuzzer_sys::fuzz_target;

thread_local!(static CODER: Coder = Coder::new("unsnappy", "snappy", ""));

fuzz_target!(init: CODER.with(|coder| dpb_fuzz::plant(coder.seeds())), |bytes: &[u8]| {
    CODER.with(|coder| coder.run(bytes));
});
