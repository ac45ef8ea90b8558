//! AWS Signature Version 4, computed from its description and without AWS's code, so that what we sign is checked by
//! somebody else: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use aws_lc_rs::{digest, hmac};

pub mod verify;

/// What a signature is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `YYYYMMDD`
    pub date: String,
    /// `us-east-1`
    pub region: String,
    /// `iam`
    pub service: String,
}

impl Scope {
    /// As it stands in a credential and in what is signed.
    pub fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

/// A request in the parts that are signed.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `POST`
    pub method: &'a str,
    /// As it stands on the wire.
    pub path: &'a str,
    /// As it stands on the wire; empty where there is none.
    pub query: &'a str,
    /// The signed headers by their lower-case names, sorted.
    pub headers: &'a [(&'a str, &'a str)],
    /// The whole body.
    pub body: &'a [u8],
}

/// `X-Amz-Date`: `YYYYMMDDTHHMMSSZ`.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The names of the signed headers, as `SignedHeaders` lists them.
pub fn signed_headers(headers: &[(&str, &str)]) -> String {
    headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

/// The signature in lower-case hex.
pub fn signature(secret: &str, scope: &Scope, timestamp: &str, parts: Parts<'_>) -> String {
    let canonical = canonical(parts);
    let hash = sha256(canonical.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{timestamp}\n{}\n{hash}", scope.text());
    let key = [scope.date.as_str(), &scope.region, &scope.service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, text| keyed(&key, text));
    hex(&keyed(&key, &text))
}

fn canonical(parts: Parts<'_>) -> String {
    let mut query: Vec<String> =
        parts.query.split('&').filter(|pair| !pair.is_empty()).map(with_value).collect();
    query.sort();
    let headers: String = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}:{}\n", value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    [
        parts.method,
        parts.path,
        &query.join("&"),
        &headers,
        &signed_headers(parts.headers),
        &sha256(parts.body),
    ]
    .join("\n")
}

fn with_value(pair: &str) -> String {
    if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of <https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-test-suite.html>, `get-vanilla`.
    #[test]
    fn the_published_example_is_reproduced() {
        let scope = Scope {
            date: "20150830".to_owned(),
            region: "us-east-1".to_owned(),
            service: "service".to_owned(),
        };
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let parts = Parts { method: "GET", path: "/", query: "", headers: &headers, body: b"" };
        assert_eq!(
            signature("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", &scope, "20150830T123600Z", parts),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }
}
