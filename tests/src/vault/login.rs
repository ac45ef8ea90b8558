//! Logins: of workloads at the JWT method, and of whoever configures it at the Kubernetes method.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Answer, Policy, Rule, State, answer, configuration, jws, policy, refuse};

/// Clocks may differ by this many seconds.
const LEEWAY: u64 = 60;

/// A role of the JWT method.
#[derive(Clone, Debug)]
pub struct Role {
    /// The `aud` that a token must have.
    pub bound_audience: String,
    /// The `sub` that a token must have.
    pub bound_subject: String,
}

/// A role of the Kubernetes method.
#[derive(Clone, Debug)]
pub struct KubernetesRole {
    subject: String,
    audience: String,
    policy: Policy,
    lease_seconds: u64,
}

impl KubernetesRole {
    /// The role of one ServiceAccount, whose logins may do what these rules say for a time.
    pub fn of(
        (namespace, name): (&str, &str),
        audience: &str,
        rules: &[Rule<'_>],
        lease_seconds: u64,
    ) -> Self {
        let subject = format!("system:serviceaccount:{namespace}:{name}");
        Self { subject, audience: audience.to_owned(), policy: policy(rules), lease_seconds }
    }
}

impl State {
    pub(super) fn jwt_login(&self, body: &Value) -> Answer {
        match self.verify(body) {
            Ok(subject) => answer(&json!({ "auth": {
                "client_token": "hvs.of-a-workload", "display_name": format!("jwt-{subject}"),
                "policies": ["default"], "lease_duration": 3600, "renewable": true,
            } })),
            Err(error) => refuse(400, &format!("{error:#}")),
        }
    }

    fn verify(&self, body: &Value) -> Result<String> {
        let text = |name: &str| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let role =
            self.roles.get(text("role").context("missing role")?).context("role could not be found")?;
        let stored = self.configuration.clone().context("could not load configuration")?;
        let stored = Value::Object(stored);
        let claims = jws::verified(text("jwt").context("missing token")?, &configuration::keys(&stored))?;
        check_times(&claims)?;
        let bound = stored.get("bound_issuer").and_then(Value::as_str).unwrap_or_default();
        ensure!(bound.is_empty() || claims.get("iss") == Some(&json!(bound)), "invalid issuer (iss) claim");
        ensure!(has_audience(&claims, &role.bound_audience), "invalid audience (aud) claim");
        ensure!(claims.get("sub") == Some(&json!(role.bound_subject)), "invalid subject (sub) claim");
        Ok(role.bound_subject.clone())
    }

    pub(super) fn kubernetes_login(&mut self, body: &Value) -> Answer {
        let fields = body.as_object().map(|body| body.keys().map(String::as_str).collect::<BTreeSet<_>>());
        if fields != Some(BTreeSet::from(["jwt", "role"])) {
            return refuse(400, &format!("expected jwt and role, got {fields:?}"));
        }
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(role) = self.kubernetes_roles.get(text("role")).cloned() else {
            return refuse(400, &format!("invalid role name {:?}", text("role")));
        };
        let claims = jws::verified(text("jwt"), &self.kubernetes_keys);
        let fits = |claims: &Value| {
            check_times(claims).is_ok()
                && has_audience(claims, &role.audience)
                && claims.get("sub") == Some(&json!(role.subject))
        };
        if !claims.as_ref().is_ok_and(fits) {
            // The real one may say more; a proxy in front may even repeat what was sent.
            return refuse(403, &format!("permission denied: {}", text("jwt")));
        }
        let token = self.new_token(role.policy);
        answer(
            &json!({ "auth": { "client_token": token, "lease_duration": role.lease_seconds, "renewable": true } }),
        )
    }
}

fn check_times(claims: &Value) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let time = |name: &str| claims.get(name).and_then(Value::as_u64);
    ensure!(time("exp").context("no exp")? + LEEWAY > now, "token is expired (exp)");
    ensure!(time("nbf").is_none_or(|begin| begin < now + LEEWAY), "token not yet valid (nbf)");
    Ok(())
}

fn has_audience(claims: &Value, bound: &str) -> bool {
    match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(|audience| audience == bound),
        Some(audience) => audience == bound,
        None => false,
    }
}
