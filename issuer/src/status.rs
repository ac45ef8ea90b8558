//! The status page of the operators' port: how every issuer stands, the worst first, and what to do about it.
//!
//! ```text
//!  roster, conditions, metrics ──reading──▶ snapshot ──overview, issuer_page (pure)──▶ model ──▶ JSON
//!                                                                                        └─templates─▶ HTML
//! ```
//!
//! | path | answer |
//! |---|---|
//! | `/status` | a page of a hundred issuers; `?state=`, `?find=` and `?page=` choose which |
//! | `/status/issuer?url=URL` | everything about one |
//! | `/status.json`, `/status/issuer.json?url=URL` | the same facts, in the form of [`model`] |
//!
//! Nothing can be changed here, and nothing is shown that the other pages of the port do not show: public halves, names
//! and errors, no secret and no token. The pages need no script, ask for nothing from elsewhere, and are in no cache.

mod answer;
pub mod html;
mod issuer_page;
mod keys;
mod may_sign;
pub mod model;
mod overview;
mod query;
mod reading;
mod remedy;
pub mod snapshot;
mod standing;
mod state;
mod views;

#[cfg(test)]
mod tests;

pub use answer::routes;
pub use issuer_page::issuer_page;
pub use overview::{PER_PAGE, overview};
pub use reading::Knowledge;
pub use standing::{Standing, problems, standing};
pub use state::State;
