//! TPC-H: schemas, generation, the queries' predicates.
