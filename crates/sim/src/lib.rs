//! dpb sim.
