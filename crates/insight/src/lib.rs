//! Explanations of measurements: what kind of work an operator is (`dpb characterize`), what a platform is good at (`dpb rank`), and
//! what is worth moving to a device (`dpb advise`). Everything here is computed from records and streams of events that the caller
//! brings; nothing here measures.

pub mod components;
pub mod profile;
pub mod rank;
