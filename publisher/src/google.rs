//! What everything of Google's shares: credentials.

mod credentials;

pub(crate) use credentials::load;
