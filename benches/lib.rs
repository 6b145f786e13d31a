//! The package of dpb's criterion harnesses, one file each in `criterion/`; it has no code of its own.
