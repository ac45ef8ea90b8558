//! The words of admission v1: what kube-apiserver asks, and what it is answered
//! (`staging/src/k8s.io/api/admission/v1/types.go`). No network here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_core::quoted::one_line;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decision::Decision;
use crate::patch::patch;
use crate::pod::Pod;

/// The only version of the question. Every Kubernetes since 1.16 asks in it if it is told that we take it.
const VERSION: &str = "admission.k8s.io/v1";

/// The longest warning that reaches whoever sent the pod, in characters; kube-apiserver drops what goes beyond 4096 in all.
const LONGEST_WARNING: usize = 250;

/// A pod to be looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Echoed in the answer.
    pub uid: String,
    /// The namespace, which the pod itself need not say.
    pub namespace: String,
    /// The pod; `None` where the request is about something that we leave as it is.
    pub pod: Option<Value>,
}

/// A request that is no question of a kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; expected an AdmissionReview of {VERSION} for a pod. Register this webhook as `chancery webhook registration` prints it"
)]
pub struct BadQuestion(String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    resource: Resource,
    #[serde(default, rename = "subResource")]
    sub_resource: Option<String>,
    object: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Resource {
    #[serde(default)]
    resource: String,
}

/// Reads a request's body.
///
/// # Errors
/// When it is none of kube-apiserver's, or has no pod where it says that it has one.
pub fn question(body: &[u8]) -> Result<Question, BadQuestion> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| BadQuestion(format!("the body is no AdmissionReview: {error}")))?;
    if review.api_version != VERSION || review.kind != "AdmissionReview" {
        return Err(BadQuestion(format!("a {:?} of {:?} came", review.kind, review.api_version)));
    }
    let request = review.request.ok_or_else(|| BadQuestion("there is no `request` in it".to_owned()))?;
    let is_new_pod = request.resource.resource == "pods"
        && request.operation == "CREATE"
        && request.sub_resource.is_none_or(|part| part.is_empty());
    let pod = is_new_pod.then_some(request.object.unwrap_or_default());
    if pod.as_ref().is_some_and(|pod| !pod.is_object()) {
        return Err(BadQuestion("its `object` is no pod".to_owned()));
    }
    Ok(Question { uid: request.uid, namespace: request.namespace, pod })
}

/// The answer that lets something in as it is.
pub fn let_in(uid: &str) -> Value {
    review(json!({ "uid": uid, "allowed": true }))
}

/// The answer that a decision is.
pub fn answer(uid: &str, pod: Pod<'_>, decision: &Decision) -> Value {
    let warnings: Vec<String> = decision
        .warnings
        .iter()
        .map(|text| one_line(&format!("chancery: {text}"), LONGEST_WARNING))
        .collect();
    let mut response = json!({ "uid": uid, "allowed": decision.refusals.is_empty() });
    let Some(fields) = response.as_object_mut() else { return let_in(uid) };
    if !warnings.is_empty() {
        fields.insert("warnings".to_owned(), json!(warnings));
    }
    if !decision.refusals.is_empty() {
        let reasons: Vec<String> = decision.refusals.iter().map(ToString::to_string).collect();
        fields.insert(
            "status".to_owned(),
            json!({ "code": 403, "reason": "Forbidden", "message": reasons.join("; ") }),
        );
    }
    let patch = patch(pod, &decision.plan);
    if !patch.is_empty() {
        fields.insert("patchType".to_owned(), json!("JSONPatch"));
        fields.insert("patch".to_owned(), json!(STANDARD.encode(Value::Array(patch).to_string())));
    }
    review(response)
}

fn review(response: Value) -> Value {
    json!({ "apiVersion": VERSION, "kind": "AdmissionReview", "response": response })
}
