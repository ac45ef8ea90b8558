//! `chancery doctor`: why something does not work.

mod azure_blob;
mod cluster;
mod s3;
