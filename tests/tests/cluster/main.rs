//! The service against real kube-apiservers: key sources, leader election, replicas, manifests; and what is exported for
//! those who make clusters.

mod bench;
mod canary;
mod cells;
mod election;
mod exports;
mod issuer_objects;
mod kubeadm;
mod lost;
mod manifests;
mod migration;
mod rendered;
mod replicas;
mod sources;
mod union;
