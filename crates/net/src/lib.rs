//! dpb net.
