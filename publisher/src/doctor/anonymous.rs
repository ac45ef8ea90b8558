//! One document, read as anybody would.

use std::time::Duration;

use chancery_core::quoted::one_line;
use chancery_wire::{ClientOptions, HttpClient, HttpResponse};

use crate::limits::EXCERPT;
use crate::store::LARGEST_OBJECT;

/// One GET without credentials, proxy and redirect: a proxy of the environment would prove nothing about anybody else's
/// way. The error says why no answer came.
pub(super) async fn anonymous_read(url: &str, timeout: Duration) -> Result<HttpResponse, String> {
    let options = ClientOptions::new(timeout, LARGEST_OBJECT);
    let client = HttpClient::new(&options).map_err(|error| error.to_string())?;
    client.read_anonymously(url).await.map_err(|error| error.to_string())
}

/// A header of whoever answered, as a finding may repeat it.
pub(super) fn header_text(answer: &HttpResponse, name: &str) -> Option<String> {
    answer.header(name).map(|text| one_line(text, EXCERPT))
}
