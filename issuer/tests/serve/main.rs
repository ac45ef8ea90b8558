//! The public server and the operators' port over real sockets, from outside.

mod admin;
mod drain;
mod http;
mod served;
mod tls;
