//! What everything of Google's shares: credentials, and calls of its REST APIs.

mod credentials;
mod rest;

pub(crate) use credentials::load;
pub(crate) use rest::{GoogleClient, RestError};
