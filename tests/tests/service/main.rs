//! The service as its operator and its relying parties meet it.

mod argocd;
mod closed_loop;
mod command_line;
mod documents;
mod exchange;
mod fleet;
mod hanging;
mod life;
mod quickstart;
mod relying_parties;
mod ring;
mod status;
mod visibility;
mod webhook;
