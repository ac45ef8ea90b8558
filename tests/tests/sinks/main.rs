//! Relying parties that are given the keys themselves.

mod config_map;
mod follow;
mod refusals;
mod vault_jwt;
