//! Explanations of measurements: what kind of work an operator is (`dpb characterize`), what a platform is good at (`dpb rank`), and
//! what is worth moving to a device (`dpb advise`). Everything here is computed from records and streams of events. Only [`source`]
//! brings events: it runs a program and watches it. Nothing here times anything.

pub mod advice;
pub mod components;
pub mod dpubench;
pub mod profile;
pub mod rank;
pub mod source;
pub mod trace;
