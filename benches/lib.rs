//! Criterion harnesses and recorded results of dpb; what they share lives here.
