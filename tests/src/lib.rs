//! The real neighbours of Chancery, for the end-to-end suites in `tests/tests/`.
//!
//! Each server is a struct: starting it runs the real program on free loopback ports and returns when the server
//! answers, or fails with the end of its log; dropping it kills the program. [`binary::skipped`] comes first in
//! every test that needs one of them.
//!
//! | what it is in the suites | module |
//! |---|---|
//! | clusters: their ServiceAccount tokens, and relying parties of another cluster's | [`etcd`], [`cluster`], [`kube_apiserver`] |
//! | an S3 target, and a relying party that gives credentials for a token | [`minio`] |
//! | a second S3 target, written independently | [`versitygw`]; [`s3_server`]: what both are |
//! | an Azure Blob target | [`azurite`] |
//! | Microsoft Entra: its token endpoint, Azure Resource Manager and Microsoft Graph, as far as trust is concerned | [`entra`] |
//! | relying parties built on libraries in Go, Python, JavaScript and Java | [`token_verifier`] |
//! | ourselves, as a separate process | [`chancery`], and [`site`]: where it runs; [`signer`]: as kube-apiserver's external signer |
//! | what lies between us and a server, fails, and notes what it was asked | [`fault_proxy`], [`request_log`] |
//! | a GCS target | [`fake_gcs`], behind [`gcs_gate`]: its rights |
//! | what gives access tokens of Google's | [`google_sts`] |
//! | the API that makes Google trust an issuer | [`gcp_iam`] |
//! | relying parties that are given the keys themselves | [`vault_jwt`] (Vault's own code), [`vault`] and [`key_api`] (ours) |
//! | one more address of an issuer's host, which lags, caches or lies | [`edge`] |
//! | a folder that stops answering | [`hang`] |
//! | a reader who never looks away | [`witness`] |
//! | two writers whose every step is directed | [`interleave`] |
//!
//! Under them lie [`binary`] (where the programs are), [`process`] (children that never outlive us), [`ports`],
//! [`scratch`] (folders), [`wait`] (the only way to wait), [`authority`] (certificates), [`key_file`] (signing keys),
//! [`http`], [`listening`] (the one accept loop), [`stand_in`] (servers of ours), [`tls_front`], [`relying_party`]
//! (whom one trusts, and what it said) and [`token`] (tokens that no server would issue).

pub mod authority;
pub mod aws_iam;
pub mod aws_query;
pub mod aws_s3;
pub mod azurite;
pub mod binary;
pub mod chancery;
pub mod cluster;
pub mod edge;
pub mod entra;
pub mod etcd;
pub mod fake_gcs;
pub mod fault_proxy;
pub mod gcp_iam;
pub mod gcs_gate;
pub mod google_sts;
pub mod hang;
pub mod http;
pub mod interleave;
pub mod key_api;
pub mod key_file;
pub mod kube_apiserver;
pub mod listening;
pub mod minio;
pub mod ports;
pub mod process;
pub mod relying_party;
pub mod request_log;
pub mod s3_server;
pub mod scratch;
pub mod signer;
pub mod sigv4;
pub mod site;
pub mod stand_in;
pub mod tls_front;
pub mod token;
pub mod token_verifier;
pub mod vault;
pub mod vault_jwt;
pub mod versitygw;
pub mod wait;
pub mod witness;
