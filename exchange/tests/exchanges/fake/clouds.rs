//! The token endpoints of three clouds, by their documented limits.

use serde_json::json;

use super::issuer::{claims, is_trusted, token, verify};
use super::{Call, Reply};

pub const ROLE: &str = "arn:aws:iam::123456789012:role/app";
pub const TENANT: &str = "aaaaaaaa-2222-3333-4444-555555555555";
pub const CLIENT: &str = "bbbbbbbb-2222-3333-4444-555555555555";
pub const POOL: &str = "projects/123/locations/global/workloadIdentityPools/pool/providers/cluster-a";

/// AWS STS: `AssumeRoleWithWebIdentity`.
pub fn sts(call: &Call) -> Reply {
    let fields = [
        "Action",
        "Version",
        "RoleArn",
        "RoleSessionName",
        "WebIdentityToken",
        "DurationSeconds",
        "Policy",
        "PolicyArns.member.1.arn",
    ];
    let form = match call.form(&fields) {
        Ok(form) => form,
        Err(problem) => return sts_error(400, "ValidationError", &problem),
    };
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let session = field("RoleSessionName");
    let legal = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if (field("Action"), field("Version")) != ("AssumeRoleWithWebIdentity", "2011-06-15") {
        return sts_error(400, "ValidationError", "action or version");
    }
    if !(2..=64).contains(&session.len()) || !session.chars().all(legal) {
        return sts_error(400, "ValidationError", "RoleSessionName");
    }
    let token = field("WebIdentityToken");
    if token.contains(char::is_whitespace) || !(4..=20_000).contains(&token.len()) {
        return sts_error(400, "InvalidIdentityToken", "The ID Token provided is not a valid JWT");
    }
    let duration: u32 = form.get("DurationSeconds").map_or(3600, |seconds| seconds.parse().unwrap_or(0));
    if !(900..=43_200).contains(&duration) {
        return sts_error(400, "ValidationError", "DurationSeconds");
    }
    match verify(token, "sts.amazonaws.com") {
        Err(problem) if problem.contains("ExpiredSignature") => {
            sts_error(400, "ExpiredTokenException", "Token expired")
        }
        Err(problem) if problem.contains("InvalidAudience") => {
            sts_error(400, "InvalidIdentityToken", "Incorrect token audience")
        }
        Err(problem) if problem.contains("InvalidIssuer") => sts_error(
            400,
            "InvalidIdentityToken",
            "No OpenIDConnect provider found in your account for https://id.example",
        ),
        Err(problem) => sts_error(400, "InvalidIdentityToken", &format!("signature: {problem}")),
        Ok(claims) if !is_trusted(&claims) || field("RoleArn") != ROLE => {
            sts_error(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
        }
        Ok(_) => {
            let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(duration.into());
            Reply::new(
                200,
                format!(
                    r#"<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Audience>sts.amazonaws.com</Audience><Credentials><SessionToken>SESSION</SessionToken><SecretAccessKey>SECRET&amp;KEY</SecretAccessKey><Expiration>{ends:.0}</Expiration><AccessKeyId>ASIAEXAMPLE</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"#
                ),
            )
        }
    }
}

pub fn sts_error(status: u16, code: &str, message: &str) -> Reply {
    let message = message.replace('&', "&amp;").replace('<', "&lt;");
    Reply::new(
        status,
        format!(
            r#"<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>req-42</RequestId></ErrorResponse>"#
        ),
    )
}

/// Microsoft Entra: the token endpoint of version 2.
pub fn entra(call: &Call) -> Reply {
    if call.path() != format!("/{TENANT}/oauth2/v2.0/token") {
        return aadsts(400, 90_002, "Tenant not found");
    }
    let fields = ["client_id", "scope", "client_assertion_type", "client_assertion", "grant_type"];
    let form = match call.form(&fields) {
        Ok(form) if form.len() == fields.len() => form,
        Ok(_) => return aadsts(400, 900_144, "a field is missing"),
        Err(problem) => return aadsts(400, 900_144, &problem),
    };
    let jwt_bearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    if form["client_assertion_type"] != jwt_bearer || form["grant_type"] != "client_credentials" {
        return aadsts(400, 70_003, "grant");
    }
    if form["client_id"] != CLIENT {
        return aadsts(400, 700_016, "Application was not found");
    }
    if !form["scope"].ends_with("/.default") {
        return aadsts(400, 70_011, "scope");
    }
    match verify(&form["client_assertion"], "api://AzureADTokenExchange") {
        Err(problem) if problem.contains("ExpiredSignature") => {
            aadsts(401, 700_024, "Client assertion is not within its valid time range")
        }
        Err(problem) if problem.contains("InvalidAudience") => aadsts(
            401,
            700_212,
            "No matching federated identity record found for presented assertion audience",
        ),
        Err(problem) if problem.contains("InvalidIssuer") => {
            aadsts(401, 700_211, "No matching federated identity record found for presented assertion issuer")
        }
        Err(problem) => aadsts(401, 700_027, &problem),
        Ok(claims) if !is_trusted(&claims) => aadsts(
            401,
            700_213,
            "No matching federated identity record found for presented assertion subject",
        ),
        Ok(_) => Reply::json(
            200,
            &json!({ "token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": "entra-token" }),
        ),
    }
}

pub fn aadsts(status: u16, number: u64, message: &str) -> Reply {
    let description = format!(
        "AADSTS{number}: {message}. Trace ID: t-1 Correlation ID: c-1 Timestamp: 2026-01-01 00:00:00Z"
    );
    Reply::json(
        status,
        &json!({ "error": "invalid_client", "error_description": description, "error_codes": [number], "trace_id": "t-1", "correlation_id": "c-1" }),
    )
}

/// Google: the Security Token Service, and IAM Service Account Credentials.
pub fn google(call: &Call) -> Reply {
    if let Some(rest) = call.path().strip_prefix("/v1/projects/-/serviceAccounts/") {
        return impersonate(call, rest);
    }
    let fields =
        ["grant_type", "audience", "scope", "requested_token_type", "subject_token", "subject_token_type"];
    let refused =
        |error: &str, words: &str| Reply::json(400, &json!({ "error": error, "error_description": words }));
    let form = match call.form(&fields) {
        Ok(form) if form.len() == fields.len() && call.path() == "/v1/token" => form,
        Ok(_) => return refused("invalid_request", "a field is missing"),
        Err(problem) => return refused("invalid_request", &problem),
    };
    let expected = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange".to_owned()),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token".to_owned()),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt".to_owned()),
    ];
    if let Some((name, _)) = expected.iter().find(|(name, value)| form[*name] != *value) {
        return refused("invalid_request", name);
    }
    if form["audience"] != format!("//iam.googleapis.com/{POOL}") {
        return refused(
            "invalid_target",
            "The target service indicated by the \"audience\" parameters is invalid",
        );
    }
    match verify(&form["subject_token"], &format!("https://iam.googleapis.com/{POOL}")) {
        Err(problem) if problem.contains("ExpiredSignature") => {
            refused("invalid_grant", "ID Token issued at 1 is stale to sign-in.")
        }
        Err(problem) => refused("invalid_grant", &problem),
        Ok(_) => Reply::json(
            200,
            &json!({ "access_token": "sts-token", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 3600 }),
        ),
    }
}

fn impersonate(call: &Call, rest: &str) -> Reply {
    let denied = |status: &str| {
        let message =
            "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).";
        Reply::json(403, &json!({ "error": { "code": 403, "message": message, "status": status } }))
    };
    let asked: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    let bearer = call.headers.get("authorization").is_some_and(|value| value == "Bearer sts-token");
    if call.method != "POST" || !bearer {
        return denied("INVALID_ARGUMENT");
    }
    if rest == "app@p.iam.gserviceaccount.com:generateIdToken" {
        let audience = asked["audience"].as_str().unwrap();
        assert_eq!(asked["includeEmail"], true);
        return Reply::json(200, &json!({ "token": token(&claims(audience)) }));
    }
    if asked["lifetime"] != "3600s" || !asked["scope"].is_array() {
        return denied("INVALID_ARGUMENT");
    }
    if rest != "app@p.iam.gserviceaccount.com:generateAccessToken" {
        return denied("PERMISSION_DENIED");
    }
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
    Reply::json(200, &json!({ "accessToken": "impersonated", "expireTime": ends.to_string() }))
}
