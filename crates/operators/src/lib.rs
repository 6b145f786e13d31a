//! dpb operators.
