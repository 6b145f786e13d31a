//! Phases over a table of numbers whose limits are known, and between two ports over dpb's own NAT and firewall.

mod numbers;
mod ports;
