//! The group in which keys are made: primes and generator of FIPS 186-4, appendix A, found from a seed that leaves nobody
//! a choice.
//!
//! The seed is the SHA-256 of the text `dpb: domain parameters for DSA 2048/256, 291`: 291 is the first number behind that
//! text for which the standard's procedure finds both primes, *p* after 62 further tries. A test goes through the whole
//! procedure again. The groups of RFC 5114 do not say where they come from, so they are none for this; finding a group
//! anew takes a second or more, and who verifies must know it anyway.

/// The prime *p*, of 2048 bits (A.1.1.2).
pub(super) const P: &str = "\
     9d5a1cd6404578a09d160aaabc1b188be561fae9896b47b497b715e772690669c7c9911504ba09fd63354c6628eacdafaa25\
     df12dc2a7baa5c34f8890aed72043b5c754666597d0740e20a16ced256d9dcc4f6e3eae7d028f425b218a15b316baff5e3dd\
     bcd1d18d0c255d5adbd2f97fd36545000dc1c3cb4e8bc7e45c137b6d455c96689609710ceb3c27fe791e44252e0f687db3ee\
     a78f7f85a8e5a55c3035b5c7cd7405e44cc9d67a689d1bcd1462239c37b5b708ddd412026bd9381091258415aee6f4407e00\
     ac72a7bfe818c93e221c4fa129878410bc6bf41baa7901fde2c517787f97c60e4c18a79fff3e2d692ae0cb0a8aeed9ab5b17\
     87be447fa57d";

/// The prime *q*, of 256 bits, which divides *p* − 1.
pub(super) const Q: &str = "d19f10041910e2fe32c863ef9a5379c5972c7c92ef6a2d7af529de5d1cbf4d17";

/// The generator *g* of the subgroup of order *q* (A.2.3, with index 1).
pub(super) const G: &str = "\
     6991fd85c4b4353b5dd6d7a4f3d9b8a6bc1bd3563c8a30becf98758adead29950981025686a0c7c80a09bb0a2faa3f0df49c\
     1e9fba658aa2662ddd9eff090fb21832263516bb4612441c144a9d30ee5d51fec57f8e79cc231106ad5ecf6ccaba0d6fa48d\
     6cdaa75b02436c79c307b66fa2cb320d2f79310068a820b5b205f8fce83be1016ecf2e397536e972f6fe469770cd24b553a6\
     d0f2462577a1e96aff6cb55e652885d0ec748fe7809ccadb71a082f13e375f5c4b77e500c794b3a80fe959472cec78f5fafb\
     c257038f7a0eff25645781ca81c68bdb7c18f7ff6e8a1ec540190248ff9ecd255d3694029f2b646319dcd84184567452cde2\
     fab60183ab5c";
