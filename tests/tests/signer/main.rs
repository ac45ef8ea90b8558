//! `chancery signer` as a real kube-apiserver's external signer (KEP-740), and as its own client meets it.

mod apiserver;
mod calls;
mod custody;
mod ring;
mod ring_stage;
mod stage;
