//! What must be called so that a cloud trusts an issuer, decided without calling it.
//!
//! Each cloud has a room of its own with the same shape: what is wanted, what was observed, `plan`. A plan is the exact
//! calls in their order, each with its reason and the permission it needs; `chancery trust … plan` prints that value
//! and `apply` makes those calls. What carries another issuer's mark is never touched.

use std::fmt;

use serde::Serialize;

pub mod aws;
pub mod azure;
pub mod gcp;

/// One call of a cloud's API, exactly as it is made, save for authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// `GET`, `POST`, `PUT`, `PATCH`.
    pub method: &'static str,
    /// The whole URL with its query.
    pub url: String,
    /// What is sent.
    pub body: Option<Body>,
    /// The permission that the cloud checks for it, in the cloud's own spelling.
    pub permission: &'static str,
    /// Why it is made.
    pub reason: String,
}

/// What a [`Call`] sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// `application/x-www-form-urlencoded`, in this order.
    Form(Vec<(String, String)>),
    /// `application/json`.
    Json(serde_json::Value),
}

/// The calls that bring a registration to where it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustPlan {
    /// What is changed, in order; nothing when the registration is as it should be.
    pub calls: Vec<Call>,
    /// What differs and is left alone, in words.
    pub notes: Vec<String>,
}

/// Why a registration may not be touched, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct TrustBlocked {
    /// What stands in the way.
    pub what: String,
    /// What helps.
    pub remedy: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}
