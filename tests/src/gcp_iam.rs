//! A strict stand-in for the part of Google's IAM API that is about workload identity pools
//! (<https://docs.cloud.google.com/iam/docs/reference/rest/v1/projects.locations.workloadIdentityPools>): bearer token,
//! permissions, known parameters and fields, update masks, limits, deleted ids, long-running operations, quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Method, Request};
use serde_json::{Map, Value, json};

use self::rules::{Refusal, body, check_provider, check_texts, id, invalid, provider_body, text};
use crate::stand_in::{Answer, Api, StandIn, bearer, json, parameters};

mod rules;

/// Everything that registering and uploading is documented to need.
pub const PERMISSIONS: [&str; 5] = [
    "iam.workloadIdentityPools.get",
    "iam.workloadIdentityPools.create",
    "iam.workloadIdentityPoolProviders.get",
    "iam.workloadIdentityPoolProviders.create",
    "iam.workloadIdentityPoolProviders.update",
];
/// The project as its id and as its number.
const PROJECT: (&str, &str) = ("my-project", "123456789012");
/// A running stand-in.
#[derive(Debug)]
pub struct GcpIam {
    server: StandIn,
    iam: Arc<Iam>,
}

#[derive(Debug)]
struct Iam {
    token: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    granted: BTreeSet<&'static str>,
    /// By the name below `workloadIdentityPools/`.
    resources: BTreeMap<String, Value>,
    operations: BTreeMap<String, PendingOperation>,
    calls: Vec<String>,
    /// Statuses that the next calls are answered with.
    refusals: Vec<u16>,
    polls: usize,
    failure: Option<Value>,
    rival: Option<String>,
}

#[derive(Debug)]
struct PendingOperation {
    polls: usize,
    resource: String,
    outcome: Result<Value, Value>,
}

impl GcpIam {
    /// A project without pools. The bearer of `token` has [`PERMISSIONS`].
    pub async fn start(token: &str) -> Result<Self> {
        let state = State {
            granted: PERMISSIONS.into(),
            resources: BTreeMap::new(),
            operations: BTreeMap::new(),
            calls: Vec::new(),
            refusals: Vec::new(),
            polls: 0,
            failure: None,
            rival: None,
        };
        let iam = Arc::new(Iam { token: token.to_owned(), state: Mutex::new(state) });
        Ok(Self { server: StandIn::start(iam.clone()).await?, iam })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Grants exactly these permissions from now on.
    pub fn grant(&self, permissions: &[&'static str]) {
        self.iam.state().granted = permissions.iter().copied().collect();
    }

    /// Answers the next calls with these statuses, in this order.
    pub fn refuse(&self, statuses: &[u16]) {
        self.iam.state().refusals = statuses.to_vec();
    }

    /// Lets operations from now on be asked for `polls` times in vain before they are done.
    pub fn delay_operations(&self, polls: usize) {
        self.iam.state().polls = polls;
    }

    /// Lets the next operation end with this error, `google.rpc.Status`.
    pub fn fail_operation(&self, error: Value) {
        self.iam.state().failure = Some(error);
    }

    /// Lets another writer replace the uploaded keys right after the next operation has.
    pub fn overwrite_keys_once(&self, jwks: String) {
        self.iam.state().rival = Some(jwks);
    }

    /// The resource `POOL` or `POOL/providers/PROVIDER`.
    pub fn resource(&self, name: &str) -> Option<Value> {
        self.iam.state().resources.get(name).cloned()
    }

    /// Changes that resource as its administrator does.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        change(
            self.iam.state().resources.entry(name.to_owned()).or_insert_with(|| json!({ "state": "ACTIVE" })),
        );
    }

    /// The calls since it was asked last, as `METHOD PATH?QUERY -> STATUS` without what all paths begin with.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.iam.state().calls)
    }
}

impl Api for Iam {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let below =
            target.replace(&format!("/v1/projects/{}/locations/global/workloadIdentityPools", PROJECT.0), "");
        let mut state = self.state();
        let refused = (!state.refusals.is_empty()).then(|| state.refusals.remove(0));
        let result = match refused {
            Some(429) => Err((429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric".to_owned())),
            Some(status) => Err((status, "UNAVAILABLE", "The service is currently unavailable.".to_owned())),
            None if bearer(&request) != Some(&self.token) => {
                Err((401, "UNAUTHENTICATED", "Request had invalid authentication credentials.".to_owned()))
            }
            None => state.call(&request),
        };
        let mut answer = match result {
            Ok(body) => json(200, &body),
            Err((status, word, message)) => {
                json(status, &json!({ "error": { "code": status, "message": message, "status": word } }))
            }
        };
        if refused.is_some() {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("0"));
        }
        state.calls.push(format!("{} {below} -> {}", request.method(), answer.status().as_u16()));
        answer
    }
}

impl Iam {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn call(&mut self, request: &Request<Bytes>) -> Result<Value, Refusal> {
        let path = request.uri().path();
        let names = [PROJECT.0, PROJECT.1]
            .map(|name| format!("/v1/projects/{name}/locations/global/workloadIdentityPools"));
        let Some(rest) = names.iter().find_map(|prefix| path.strip_prefix(prefix.as_str())) else {
            return Err((403, "PERMISSION_DENIED", "Permission denied on resource project.".to_owned()));
        };
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        let query = parameters(request.uri().query().unwrap_or_default());
        match (request.method(), parts.as_slice()) {
            (&Method::GET, [.., "operations", _]) => self.poll(rest.trim_start_matches('/')),
            (&Method::GET, [pool]) => self.get(&query, "iam.workloadIdentityPools.get", pool),
            (&Method::GET, [pool, "providers", provider]) => {
                let name = format!("{pool}/providers/{provider}");
                self.get(&query, "iam.workloadIdentityPoolProviders.get", &name)
            }
            (&Method::POST, []) => {
                self.permitted("iam.workloadIdentityPools.create")?;
                let id = id(&query, "workloadIdentityPoolId")?;
                let body = body(request, &["displayName", "description", "disabled"])?;
                self.create(id, body)
            }
            (&Method::POST, [pool, "providers"]) => {
                self.permitted("iam.workloadIdentityPoolProviders.create")?;
                let id = id(&query, "workloadIdentityPoolProviderId")?;
                if self.resources.get(*pool).is_none_or(|pool| text(pool, "/state") == "DELETED") {
                    return Err((404, "NOT_FOUND", "Requested entity was not found.".to_owned()));
                }
                let body = provider_body(request)?;
                check_provider(&Value::Object(body.clone()))?;
                self.create(format!("{pool}/providers/{id}"), body)
            }
            (&Method::PATCH, [pool, "providers", provider]) => {
                self.permitted("iam.workloadIdentityPoolProviders.update")?;
                self.patch(&query, &format!("{pool}/providers/{provider}"), request)
            }
            _ => Err((404, "NOT_FOUND", "Method not found.".to_owned())),
        }
    }

    fn permitted(&self, permission: &'static str) -> Result<(), Refusal> {
        if self.granted.contains(permission) {
            return Ok(());
        }
        let message = format!("Permission '{permission}' denied on resource (or it may not exist).");
        Err((403, "PERMISSION_DENIED", message))
    }

    fn get(
        &self,
        query: &[(String, String)],
        permission: &'static str,
        name: &str,
    ) -> Result<Value, Refusal> {
        self.permitted(permission)?;
        if let Some((parameter, _)) = query.first() {
            return Err(invalid(format!("Unknown name \"{parameter}\": Cannot bind query parameter.")));
        }
        let found = self.resources.get(name).cloned();
        found.ok_or((404, "NOT_FOUND", "Requested entity was not found.".to_owned()))
    }

    fn create(&mut self, name: String, mut body: Map<String, Value>) -> Result<Value, Refusal> {
        check_texts(&Value::Object(body.clone()))?;
        // Deleted ones keep their ids.
        if self.resources.contains_key(&name) {
            return Err((409, "ALREADY_EXISTS", "Requested entity already exists".to_owned()));
        }
        body.insert(
            "name".to_owned(),
            json!(format!("projects/{}/locations/global/workloadIdentityPools/{name}", PROJECT.1)),
        );
        body.insert("state".to_owned(), json!("ACTIVE"));
        Ok(self.begin(name, Value::Object(body)))
    }

    fn patch(
        &mut self,
        query: &[(String, String)],
        name: &str,
        request: &Request<Bytes>,
    ) -> Result<Value, Refusal> {
        let [(parameter, mask)] = query else { return Err(invalid("expected updateMask alone")) };
        if parameter != "updateMask" || mask.is_empty() {
            return Err(invalid("update_mask is required"));
        }
        let body = Value::Object(provider_body(request)?);
        let mut provider = self
            .resources
            .get(name)
            .filter(|provider| text(provider, "/state") != "DELETED")
            .cloned()
            .ok_or((404, "NOT_FOUND", "Requested entity was not found.".to_owned()))?;
        let mut rest = body.clone();
        for field in mask.split(',') {
            let pointer = match field {
                "displayName"
                | "description"
                | "disabled"
                | "attributeMapping"
                | "attributeCondition"
                | "oidc.issuerUri"
                | "oidc.allowedAudiences"
                | "oidc.jwksJson" => {
                    format!("/{}", field.replace('.', "/"))
                }
                _ => return Err(invalid(format!("Invalid field mask {field}"))),
            };
            let value = body.pointer(&pointer).cloned();
            let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
            for (target, value) in [(&mut provider, value), (&mut rest, None)] {
                if let Some(object) = target.pointer_mut(parent).and_then(Value::as_object_mut) {
                    object.remove(last);
                    object.extend(value.map(|value| (last.to_owned(), value)));
                }
            }
        }
        // The real one ignores what the mask does not name; whoever sends it means something else than will happen.
        if rest != json!({}) && rest != json!({ "oidc": {} }) {
            return Err(invalid(format!("{rest} is not in the field mask")));
        }
        check_texts(&provider)?;
        check_provider(&provider)?;
        Ok(self.begin(name.to_owned(), provider))
    }

    /// The operation at whose end `resource` has this value.
    fn begin(&mut self, resource: String, value: Value) -> Value {
        let id = format!("{resource}/operations/op{}", self.operations.len());
        let outcome = self.failure.take().map_or(Ok(value), Err);
        let operation = PendingOperation { polls: self.polls, resource, outcome };
        let name = format!("projects/{}/locations/global/workloadIdentityPools/{id}", PROJECT.1);
        self.operations.insert(id, operation);
        json!({ "name": name, "metadata": { "@type": "type.googleapis.com/google.iam.v1.Metadata" } })
    }

    fn poll(&mut self, id: &str) -> Result<Value, Refusal> {
        let name = format!("projects/{}/locations/global/workloadIdentityPools/{id}", PROJECT.1);
        let operation =
            self.operations.get_mut(id).ok_or((404, "NOT_FOUND", "no such operation".to_owned()))?;
        if operation.polls > 0 {
            operation.polls -= 1;
            return Ok(json!({ "name": name }));
        }
        match operation.outcome.clone() {
            Ok(value) => {
                let mut stored = value.clone();
                if let (Some(keys), Some(rival)) = (stored.pointer_mut("/oidc/jwksJson"), self.rival.take()) {
                    *keys = json!(rival);
                }
                self.resources.insert(operation.resource.clone(), stored);
                Ok(json!({ "name": name, "done": true, "response": value }))
            }
            Err(error) => Ok(json!({ "name": name, "done": true, "error": error })),
        }
    }
}
