//! The token endpoint: a ServiceAccount token for an Entra token
//! (<https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#third-case-access-token-request-with-a-federated-credential>).

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use serde_json::{Value, json};

use super::{AUDIENCE, Answer, Asked, Shared, TENANT};
use crate::token;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const FIELDS: [&str; 5] = ["client_assertion", "client_assertion_type", "client_id", "grant_type", "scope"];

impl Shared {
    pub(super) fn exchange(&self, asked: &Asked) -> Answer {
        self.given(asked).unwrap_or_else(|(code, error)| {
            let description = format!("AADSTS{code}: {error:#}");
            Answer::of(
                if code == 70021 || code == 700_211 { 400 } else { 401 },
                json!({ "error": "invalid_client", "error_description": description, "error_codes": [code] }),
            )
        })
    }

    /// The error is with its number.
    fn given(&self, asked: &Asked) -> Result<Answer, (u32, anyhow::Error)> {
        let form = form(asked).map_err(|error| (900_144, error))?;
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let assertion = field("client_assertion");
        let claims = token::claims(assertion).map_err(|error| (50_027, error))?;
        let claim = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (issuer, subject) = (claim("iss"), claim("sub"));
        let audiences = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => vec![claim("aud")],
        };
        let mut state = self.state();
        let jwks = state.shown.get(&issuer).cloned();
        let client = state.by_client(field("client_id")).map_err(|error| (700_016, error))?;
        let matching = client
            .credentials
            .iter()
            .any(|one| one.issuer == issuer && one.subject == subject && audiences.contains(&one.audience));
        if !matching {
            let error = anyhow::anyhow!(
                "no matching federated identity record found for {subject} of {issuer} for {audiences:?}"
            );
            return Err((700_211, error));
        }
        let jwks =
            jwks.with_context(|| format!("{issuer} shows nothing")).map_err(|error| (90_061, error))?;
        verify(assertion, &claims, &jwks).map_err(|error| (5_002_730, error))?;
        let scope = field("scope");
        let resource =
            scope.strip_suffix("/.default").context("no scope").map_err(|error| (70_011, error))?;
        let now = now();
        let token = json!({
            "iss": format!("https://sts.windows.net/{TENANT}/"), "aud": resource, "appid": client.client_id,
            "iat": now, "nbf": now, "exp": now + 3600, "number": state.issued.len(),
        });
        let token = self.signer.sign(&token).map_err(|error| (50_000, error))?;
        state.issued.insert(token.clone(), (field("client_id").to_owned(), resource.to_owned()));
        Ok(Answer::of(
            200,
            json!({ "token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": token }),
        ))
    }
}

fn form(asked: &Asked) -> Result<BTreeMap<String, String>> {
    ensure!(asked.method == Method::POST && asked.query.is_empty(), "expected a POST without a query");
    ensure!(asked.content_type == "application/x-www-form-urlencoded", "{} came", asked.content_type);
    let url = reqwest::Url::parse(&format!("http://form/?{}", std::str::from_utf8(&asked.body)?))?;
    let form: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    ensure!(form.keys().eq(FIELDS.iter()), "the fields are {:?}", form.keys());
    let is = |name, value| form.get(name).is_some_and(|there| there == value);
    ensure!(is("grant_type", "client_credentials"), "another grant type");
    ensure!(is("client_assertion_type", ASSERTION_TYPE), "another type of assertion");
    Ok(form)
}

/// Holds the token against what the issuer shows, as anyone can.
fn verify(assertion: &str, claims: &Value, jwks: &Value) -> Result<()> {
    let (signed, signature) = assertion.rsplit_once('.').context("no JWT")?;
    let kid = token::kid(assertion)?;
    let keys = jwks.get("keys").and_then(Value::as_array).context("no keys")?;
    let key = keys.iter().find(|key| key.get("kid").and_then(Value::as_str) == Some(&kid));
    let key = key.with_context(|| format!("the key {kid} is not published"))?;
    let number = |name| -> Result<Vec<u8>> {
        Ok(URL_SAFE_NO_PAD.decode(key.get(name).and_then(Value::as_str).context("no RSA key")?)?)
    };
    let components = PublicKeyComponents { n: number("n")?, e: number("e")? };
    let signature = URL_SAFE_NO_PAD.decode(signature)?;
    let verified = components.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature);
    ensure!(verified.is_ok(), "the signature does not hold");
    let seconds = |name| claims.get(name).and_then(Value::as_u64).unwrap_or_default();
    ensure!(seconds("exp") > now(), "it has expired");
    ensure!(
        claims.get("aud").is_some_and(|aud| aud.to_string().contains(AUDIENCE)),
        "it is for somebody else"
    );
    Ok(())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
