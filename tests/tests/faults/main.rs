//! The worst that can happen to what is published: crashes, refusals, other writers, strangers, disasters.

mod drift;
mod restore;
mod writes;
