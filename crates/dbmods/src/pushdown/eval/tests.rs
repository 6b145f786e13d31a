//! What the evaluator says, against DuckDB's answers written down.
