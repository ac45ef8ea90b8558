//! lease.
