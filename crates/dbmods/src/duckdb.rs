//! DuckDB, the peer: loaded at run time, so that nothing foreign is linked.
