//! What every client of Azure shares: whose credentials it uses, how requests are sent, what an error says.

use std::error::Error;

use chancery_wire::error_chain;

pub(crate) mod api;
pub(crate) mod credential;
pub(crate) mod sas;
pub(crate) mod transport;

/// What lies behind an error of the SDK, without a URL, which may hold a signature.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
    error_chain::describe(error, |error| match error.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_timeout() => "no answer in time".to_owned(),
        // Its own words repeat the URL; what it stands for comes next.
        Some(_) => String::new(),
        None => first_line(&error.to_string()),
    })
}

/// Azure's messages go on with the request's id and time, and those of the SDK with a link.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
