//! Who is answered at all. Pure.
//!
//! A page in a browser, a server that fetches URLs for strangers and a proxy can all be made to send requests to the
//! loopback. None of them sends what is asked for here: a header of its own, the name of this machine as the host, and
//! no trace of having been passed on. The rules come in the order in which they are applied; the first that fails is
//! told, and nothing else.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use chancery_wire::Secret;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, FORWARDED, HOST, HeaderName, TRANSFER_ENCODING, VIA};
use http::uri::Authority;
use http::{HeaderMap, Method, Request};
use hyper::body::Body;

/// What a request must have.
pub(super) struct Guard {
    /// The port of the door, if it has one.
    pub(super) port: Option<u16>,
    /// By which the client shows that it means to ask this agent.
    pub(super) proof: Proof,
}

/// The header by which a client shows that it means to ask this agent.
pub(super) enum Proof {
    /// `Authorization` with the secret, word for word, as AWS's SDKs send `AWS_CONTAINER_AUTHORIZATION_TOKEN`.
    Authorization(Secret),
    /// `X-IDENTITY-HEADER` with the secret, as Azure's SDKs send `IDENTITY_HEADER`.
    IdentityHeader(Secret),
    /// `Metadata: true`, as Azure's SDKs send it.
    Metadata,
    /// `Metadata-Flavor: Google`, as Google's libraries send it.
    MetadataFlavor,
}

/// Which rule a request breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Forwarded,
    Host,
    Method,
    Body,
    Proof(&'static str),
}

impl Refusal {
    pub(super) fn status(self) -> u16 {
        match self {
            Self::Forwarded | Self::Host => 403,
            Self::Method => 405,
            Self::Body => 413,
            Self::Proof("Authorization" | "X-IDENTITY-HEADER") => 401,
            Self::Proof(_) => 403,
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Forwarded => {
                "the request was passed on by somebody (X-Forwarded-*, Forwarded, Via); ask directly"
            }
            Self::Host => {
                "the host is not this machine; ask for 127.0.0.1, [::1] or localhost and the agent's port"
            }
            Self::Method => "the method is not GET",
            Self::Body => "the request has a body; expected none",
            Self::Proof("Authorization") => {
                "Authorization is not the agent's token; set AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE to its file"
            }
            Self::Proof("X-IDENTITY-HEADER") => {
                "X-IDENTITY-HEADER is not the agent's token; set IDENTITY_HEADER to what its file holds"
            }
            Self::Proof("Metadata") => "the header `Metadata: true` is missing",
            Self::Proof(_) => "the header `Metadata-Flavor: Google` is missing",
        }
    }
}

impl Guard {
    pub(super) fn check<B: Body>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        if headers.keys().any(was_passed_on) {
            return Err(Refusal::Forwarded);
        }
        if !self.is_named(request) {
            return Err(Refusal::Host);
        }
        if request.method() != Method::GET {
            return Err(Refusal::Method);
        }
        let has_length = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
        if has_length || headers.contains_key(TRANSFER_ENCODING) || !request.body().is_end_stream() {
            return Err(Refusal::Body);
        }
        self.proof.check(headers)
    }

    /// Whether every name of the host in the request is this machine's: that of `Host`, and that of the URI where a
    /// client writes it there. One at least.
    fn is_named<B>(&self, request: &Request<B>) -> bool {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (_, Some(_)) => return false,
            (None, None) => None,
            (Some(host), None) => match Authority::try_from(host.as_bytes()) {
                Ok(host) => Some(host),
                Err(_) => return false,
            },
        };
        let of_uri = request.uri().authority();
        (host.is_some() || of_uri.is_some()) && host.iter().chain(of_uri).all(|name| self.is_here(name))
    }

    fn is_here(&self, name: &Authority) -> bool {
        let is_local =
            matches!(name.host(), "127.0.0.1" | "[::1]") || name.host().eq_ignore_ascii_case("localhost");
        // `Authority` keeps a port that is no number as a part of the text alone.
        let has_no_user = !name.as_str().contains('@');
        let of_text = name.as_str().strip_prefix(name.host()).unwrap_or(":");
        let port = if of_text.is_empty() { Some(80) } else { name.port_u16() };
        is_local && has_no_user && self.port.is_none_or(|own| port == Some(own))
    }
}

impl Proof {
    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let (name, shown, is_proven) = match self {
            Self::Authorization(secret) => {
                (AUTHORIZATION, "Authorization", is_secret(headers, AUTHORIZATION, secret))
            }
            Self::IdentityHeader(secret) => {
                let name = HeaderName::from_static("x-identity-header");
                (name.clone(), "X-IDENTITY-HEADER", is_secret(headers, name, secret))
            }
            Self::Metadata => {
                let name = HeaderName::from_static("metadata");
                let said =
                    headers.get(&name).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
                (name, "Metadata", said)
            }
            Self::MetadataFlavor => {
                let name = HeaderName::from_static("metadata-flavor");
                let said = headers.get(&name).is_some_and(|value| value == "Google");
                (name, "Metadata-Flavor", said)
            }
        };
        // Twice would mean two readers who each believe another one of them.
        let is_once = headers.get_all(name).iter().count() == 1;
        if is_proven && is_once { Ok(()) } else { Err(Refusal::Proof(shown)) }
    }
}

/// Compared in constant time, so that how long a refusal takes does not tell how much of the secret was right.
fn is_secret(headers: &HeaderMap, name: HeaderName, secret: &Secret) -> bool {
    let sent = headers.get(name).map(http::HeaderValue::as_bytes).unwrap_or_default();
    verify_slices_are_equal(sent, secret.expose().as_bytes()).is_ok()
}

fn was_passed_on(name: &HeaderName) -> bool {
    *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{Empty, Full};

    use super::*;

    const SECRET: &str = "c2VjcmV0LW9mLTEyOC1iaXRz";

    fn guard(proof: Proof) -> Guard {
        Guard { port: Some(9911), proof }
    }

    fn request(headers: &[(&str, &str)]) -> Request<Empty<Bytes>> {
        let mut request = Request::get("/credentials");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Empty::new()).unwrap()
    }

    fn told(proof: Proof, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        guard(proof).check(&request(headers))
    }

    #[test]
    fn w_04_a_request_to_another_host_is_refused() {
        let host = |host: &str| told(Proof::Metadata, &[("host", host), ("metadata", "true")]);
        for here in ["127.0.0.1:9911", "localhost:9911", "LocalHost:9911", "[::1]:9911"] {
            assert_eq!(host(here), Ok(()), "{here}");
        }
        for there in [
            "evil.example",
            "evil.example:9911",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:99111",
            "127.0.0.1:",
            "127.0.0.1.evil.example:9911",
            "localhost.:9911",
            "169.254.169.254:9911",
            "metadata.google.internal",
            "user@127.0.0.1:9911",
            "[::1]",
            "[::2]:9911",
            "",
        ] {
            assert_eq!(host(there), Err(Refusal::Host), "{there}");
        }
        assert_eq!(told(Proof::Metadata, &[("metadata", "true")]), Err(Refusal::Host), "no host");
        let twice = [("host", "127.0.0.1:9911"), ("host", "127.0.0.1:9911"), ("metadata", "true")];
        assert_eq!(told(Proof::Metadata, &twice), Err(Refusal::Host), "two hosts");
        let mut absolute = request(&[("host", "127.0.0.1:9911"), ("metadata", "true")]);
        *absolute.uri_mut() = "http://evil.example/credentials".parse().unwrap();
        assert_eq!(guard(Proof::Metadata).check(&absolute), Err(Refusal::Host), "as a proxy is asked");
        let socket = Guard { port: None, proof: Proof::Metadata };
        assert_eq!(socket.check(&request(&[("host", "localhost"), ("metadata", "true")])), Ok(()));
        assert_eq!(socket.check(&request(&[("host", "evil"), ("metadata", "true")])), Err(Refusal::Host));
    }

    #[test]
    fn w_04_a_request_that_was_passed_on_is_refused() {
        for name in ["x-forwarded-for", "x-forwarded-host", "X-Forwarded-Proto", "forwarded", "via"] {
            let headers = [("host", "127.0.0.1:9911"), ("metadata", "true"), (name, "x")];
            assert_eq!(told(Proof::Metadata, &headers), Err(Refusal::Forwarded), "{name}");
        }
    }

    #[test]
    fn w_04_a_request_with_a_body_or_another_method_is_refused() {
        let guard = guard(Proof::Metadata);
        let post = |method: &str| {
            let request = Request::builder().method(method).uri("/").header("host", "127.0.0.1:9911");
            request.header("metadata", "true").body(Empty::<Bytes>::new()).unwrap()
        };
        for method in ["POST", "PUT", "HEAD", "OPTIONS", "CONNECT"] {
            assert_eq!(guard.check(&post(method)), Err(Refusal::Method), "{method}");
        }
        let full = Request::get("/").header("host", "127.0.0.1:9911").header("metadata", "true");
        let full = full.body(Full::new(Bytes::from_static(b"x"))).unwrap();
        assert_eq!(guard.check(&full), Err(Refusal::Body));
        for body in [("content-length", "1"), ("transfer-encoding", "chunked")] {
            let headers = [("host", "127.0.0.1:9911"), ("metadata", "true"), body];
            assert_eq!(guard.check(&request(&headers)), Err(Refusal::Body), "{body:?}");
        }
    }

    #[test]
    fn w_04_a_request_without_the_header_of_its_shape_is_refused() {
        type Make = fn() -> Proof;
        let secret = || Secret::new(SECRET.to_owned());
        let host = ("host", "127.0.0.1:9911");
        let shapes: [(Make, &str, &str, &[&str]); 4] = [
            (|| Proof::Metadata, "metadata", "True", &["", "false", "yes", "1"]),
            (|| Proof::MetadataFlavor, "metadata-flavor", "Google", &["", "google", "true"]),
            (
                || Proof::Authorization(Secret::new(SECRET.to_owned())),
                "authorization",
                SECRET,
                &["", "c2Vj", "Bearer c2VjcmV0LW9mLTEyOC1iaXRz"],
            ),
            (
                || Proof::IdentityHeader(Secret::new(SECRET.to_owned())),
                "x-identity-header",
                SECRET,
                &["", "c2VjcmV0LW9mLTEyOC1iaXRy"],
            ),
        ];
        for (proof, name, right, wrong) in shapes {
            assert_eq!(told(proof(), &[host, (name, right)]), Ok(()), "{name}");
            assert!(matches!(told(proof(), &[host]), Err(Refusal::Proof(_))), "no {name}");
            assert!(told(proof(), &[host, (name, right), (name, right)]).is_err(), "{name} twice");
            for wrong in wrong {
                assert!(told(proof(), &[host, (name, wrong)]).is_err(), "{name}: {wrong}");
            }
        }
        assert_eq!(secret().expose(), SECRET);
    }
}
