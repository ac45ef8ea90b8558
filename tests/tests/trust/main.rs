//! `chancery trust`: clouds that are made to trust an issuer.

mod aws;
mod azure;
mod bootstrap;
mod gcp;
