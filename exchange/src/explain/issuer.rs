//! The documents of a token's issuer, read as whoever verifies the token reads them.

use chancery_core::IssuerUrl;
use chancery_core::discovery::ObservedDiscovery;
use chancery_core::jwks::ObservedJwks;
use chancery_core::quoted::one_line;
use chancery_wire::{Endpoint, EndpointRule, HttpRequest};
use http::Method;
use http::header::{ACCEPT, HeaderValue};

use super::{EXCERPT, Explanation};
use crate::error::{ExchangeError, Stage};
use crate::preflight::{Difference, wording};
use crate::token::UnverifiedToken;
use crate::transport::Transport;

/// How many key ids are listed.
const LISTED: usize = 20;

impl Explanation {
    /// Reads the discovery document and the JWKS of the token's issuer, and adds what whoever verifies the token would
    /// stumble over: they are not there, they are another issuer's, they do not have the token's key.
    pub async fn check_issuer(&mut self, transport: &Transport, token: &UnverifiedToken) {
        let issuer = token.claims().iss.clone().unwrap_or_default();
        let found = match published(transport, &issuer).await {
            Ok(kids) => key_of(token, &kids),
            Err(difference) => Some(difference),
        };
        self.issuer = Some(issuer);
        if let Some(difference) = found {
            self.passes &= !difference.refused;
            self.differences.push(difference);
        }
    }
}

/// The key ids that an issuer publishes.
async fn published(transport: &Transport, issuer: &str) -> Result<Vec<String>, Difference> {
    let url: IssuerUrl = issuer.parse().map_err(|error| unread(issuer, format!("{error}")))?;
    let discovery = read(transport, &url.discovery_url()).await.map_err(|why| unread(issuer, why))?;
    let discovery = ObservedDiscovery::parse(&discovery)
        .map_err(|error| unread(issuer, format!("no discovery document: {error}")))?;
    if discovery.issuer != issuer {
        return Err(Difference {
            claim: "iss",
            came: format!("{:?}", one_line(issuer, EXCERPT)),
            expected: format!(
                "{:?}, as the issuer's own document says",
                one_line(&discovery.issuer, EXCERPT)
            ),
            hint: wording::difference(issuer, &discovery.issuer),
            refused: true,
            is_of_time: false,
        });
    }
    let jwks = read(transport, &discovery.jwks_uri).await.map_err(|why| unread(issuer, why))?;
    let jwks = ObservedJwks::parse(&jwks).map_err(|error| unread(issuer, format!("no JWKS: {error}")))?;
    Ok(jwks.entries.into_iter().filter_map(|entry| entry.kid).collect())
}

async fn read(transport: &Transport, url: &str) -> Result<Vec<u8>, String> {
    let endpoint = Endpoint::parse(url, &EndpointRule::any_host()).map_err(|error| error.to_string())?;
    let request =
        HttpRequest::new(Method::GET, &endpoint).header(ACCEPT, HeaderValue::from_static("application/json"));
    let answer = transport.send(Stage::Preflight, request).await;
    let answer = answer.map_err(|error: ExchangeError| error.to_string())?;
    if answer.status != http::StatusCode::OK {
        return Err(format!("{url} answers {}", answer.status.as_u16()));
    }
    Ok(answer.body.to_vec())
}

/// What may be readable from elsewhere is a warning.
fn unread(issuer: &str, why: String) -> Difference {
    Difference {
        claim: "iss",
        came: format!("{:?}, whose documents cannot be read here: {why}", one_line(issuer, EXCERPT)),
        expected: "a discovery document and a JWKS that anybody reads".to_owned(),
        hint: "whoever verifies the token reads them: try it from there (`chancery verify`)".to_owned(),
        refused: false,
        is_of_time: false,
    }
}

fn key_of(token: &UnverifiedToken, kids: &[String]) -> Option<Difference> {
    let kid = token.header().kid.as_deref()?;
    if kids.iter().any(|published| published == kid) {
        return None;
    }
    let listed: Vec<String> = kids.iter().take(LISTED).map(|kid| one_line(kid, EXCERPT)).collect();
    Some(Difference {
        claim: "kid",
        came: format!("{:?}", one_line(kid, EXCERPT)),
        expected: match listed.as_slice() {
            [] => "a key that the issuer publishes; it publishes none".to_owned(),
            listed => format!("a key that the issuer publishes: {}", listed.join(", ")),
        },
        hint: "the key is revoked or retired, or not published yet: nobody who reads the issuer now takes the token"
            .to_owned(),
        refused: true,
        is_of_time: false,
    })
}
