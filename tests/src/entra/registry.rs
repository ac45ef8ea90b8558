//! Federated identity credentials, as Azure Resource Manager and Microsoft Graph keep them
//! (<https://learn.microsoft.com/rest/api/managedidentity/federated-identity-credentials>,
//! <https://learn.microsoft.com/graph/api/resources/federatedidentitycredential>).

use hyper::Method;
use serde_json::{Map, Value, json};

use super::{Answer, Asked, Credential, Identity, Kind, PAGE, Shared, WRITING};

const ARM_READ: &str = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/read";
const ARM_WRITE: &str = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials/write";
const GRAPH: &str = "Application.ReadWrite.OwnedBy";
const API_VERSION: &str = "api-version=2023-01-31";
const LIMIT: usize = 20;

type Refusable<T> = Result<T, Answer>;

/// What a request is about.
struct Place {
    /// Which identity, by position.
    identity: usize,
    is_arm: bool,
    /// Which credential, if it names one.
    name: Option<String>,
}

/// What somebody else's write under way makes of ours.
pub(super) fn concurrent() -> Answer {
    Answer::error(
        409,
        "ConcurrentFederatedIdentityCredentialsWritesForSingleManagedIdentity",
        "Too many Federated Identity Credentials are written concurrently for the managed identity. Concurrent Federated Identity Credentials writes under the same managed identity are not supported.",
    )
}

impl Shared {
    pub(super) async fn registry(&self, asked: &Asked) -> Answer {
        match self.answer(asked).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    async fn answer(&self, asked: &Asked) -> Refusable<Answer> {
        let place = self.place(asked)?;
        self.authorize(asked, place.is_arm)?;
        match (&asked.method, place.is_arm, &place.name) {
            (&Method::GET, _, None) => self.list(asked, &place),
            (&Method::PUT, true, Some(_))
            | (&Method::POST, false, None)
            | (&Method::PATCH, false, Some(_)) => self.write(asked, &place).await,
            _ => Err(Answer::error(405, "MethodNotAllowed", "The method is not allowed here.")),
        }
    }

    fn place(&self, asked: &Asked) -> Refusable<Place> {
        let state = self.state();
        let found = state.identities.iter().enumerate().find_map(|(position, identity)| {
            let (root, is_arm) = match &identity.kind {
                Kind::Managed(id) => (id.clone(), true),
                Kind::Application => (format!("/v1.0/applications(appId='{}')", identity.client_id), false),
            };
            let rest = asked.path.strip_prefix(&format!("{root}/federatedIdentityCredentials"))?;
            let name = match rest {
                "" => None,
                rest => Some(rest.strip_prefix('/')?.to_owned()),
            };
            Some(Place { identity: position, is_arm, name })
        });
        let place =
            found.ok_or_else(|| Answer::error(404, "ResourceNotFound", "The resource was not found."))?;
        let expected = if place.is_arm { API_VERSION } else { "" };
        let query = asked.query.split('&').find(|part| !part.starts_with("$skip")).unwrap_or_default();
        if query != expected {
            return Err(Answer::error(400, "MissingApiVersionParameter", &format!("the query is {query:?}")));
        }
        Ok(place)
    }

    fn authorize(&self, asked: &Asked, is_arm: bool) -> Refusable<()> {
        let needed = match (is_arm, &asked.method) {
            (false, _) => GRAPH,
            (true, &Method::GET) => ARM_READ,
            (true, _) => ARM_WRITE,
        };
        let mut state = self.state();
        let issued = asked.bearer.as_ref().and_then(|token| state.issued.get(token)).cloned();
        let unauthenticated =
            || Answer::error(401, "InvalidAuthenticationToken", "The access token is invalid.");
        let (client, resource) = issued.ok_or_else(unauthenticated)?;
        if resource != self.url {
            return Err(Answer::error(
                401,
                "InvalidAuthenticationTokenAudience",
                &format!("it is for {resource}"),
            ));
        }
        let caller = state.by_client(&client).map_err(|_| unauthenticated())?;
        if caller.permissions.contains(needed) {
            return Ok(());
        }
        let message = format!("The client does not have authorization to perform action '{needed}'.");
        Err(Answer::error(403, "AuthorizationFailed", &message))
    }

    fn list(&self, asked: &Asked, place: &Place) -> Refusable<Answer> {
        let skip = asked.query.split('&').find_map(|part| part.strip_prefix("$skiptoken=")?.parse().ok());
        let skip: usize = skip.unwrap_or(0);
        let state = self.state();
        let all =
            state.identities.get(place.identity).map(|one| one.credentials.as_slice()).unwrap_or_default();
        let shown: Vec<Value> =
            all.iter().skip(skip).take(PAGE).map(|one| shown(one, place.is_arm)).collect();
        let mut body = json!({ "value": shown });
        if let Some(members) = body.as_object_mut().filter(|_| skip + PAGE < all.len()) {
            let version = if place.is_arm { format!("{API_VERSION}&") } else { String::new() };
            let next = format!("{}{}?{version}$skiptoken={}", self.url, asked.path, skip + PAGE);
            members.insert(if place.is_arm { "nextLink" } else { "@odata.nextLink" }.to_owned(), json!(next));
        }
        Ok(Answer::of(200, body))
    }

    async fn write(&self, asked: &Asked, place: &Place) -> Refusable<Answer> {
        let credential = parsed(asked, place)?;
        if let Some(interruption) = self.state().interruptions.pop_front() {
            return Err(interruption);
        }
        let busy = self.with(place, |identity| std::mem::replace(&mut identity.writing, true))?;
        if busy {
            return Err(concurrent());
        }
        tokio::time::sleep(WRITING).await;
        self.with(place, |identity| {
            identity.writing = false;
            keep(identity, &asked.method, credential)
        })?
    }

    fn with<T>(&self, place: &Place, work: impl FnOnce(&mut Identity) -> T) -> Refusable<T> {
        let mut state = self.state();
        let identity = state.identities.get_mut(place.identity);
        identity.map(work).ok_or_else(|| Answer::error(404, "ResourceNotFound", "It is gone."))
    }
}

/// Puts a credential where it belongs, by the rules that hold for every identity.
fn keep(identity: &mut Identity, method: &Method, credential: Credential) -> Refusable<Answer> {
    let is_arm = method == Method::PUT;
    let same = |one: &Credential| one.name.eq_ignore_ascii_case(&credential.name);
    let pair = |one: &Credential| one.issuer == credential.issuer && one.subject == credential.subject;
    if identity.credentials.iter().any(|one| !same(one) && pair(one)) {
        return Err(if is_arm {
            Answer::error(
                409,
                "Conflict",
                "Issuer and subject combination already exists for this Managed Identity.",
            )
        } else {
            invalid("The combination of issuer and subject must be unique for the application.")
        });
    }
    let shown = shown(&credential, is_arm);
    let full = identity.credentials.len() >= LIMIT;
    match (identity.credentials.iter_mut().find(|one| same(one)), method) {
        (Some(_), &Method::POST) => Err(invalid("A credential of this name exists.")),
        (Some(there), _) => {
            *there = credential;
            Ok(Answer::of(if is_arm { 200 } else { 204 }, shown))
        }
        (None, &Method::PATCH) => Err(Answer::error(404, "Request_ResourceNotFound", "It does not exist.")),
        (None, _) if full => Err(invalid("The maximum of 20 federated identity credentials is reached.")),
        (None, _) => {
            identity.credentials.push(credential);
            Ok(Answer::of(201, shown))
        }
    }
}

fn invalid(message: &str) -> Answer {
    Answer::error(400, "InvalidFederatedIdentityCredentialValue", message)
}

/// The credential that a write is about. A member that the API does not have is refused, as is one that is missing.
fn parsed(asked: &Asked, place: &Place) -> Refusable<Credential> {
    if asked.content_type != "application/json" {
        return Err(Answer::error(415, "UnsupportedMediaType", &asked.content_type));
    }
    let mut body: Map<String, Value> =
        serde_json::from_slice(&asked.body).map_err(|error| invalid(&error.to_string()))?;
    if place.is_arm {
        let inner = body.remove("properties");
        if !body.is_empty() {
            return Err(invalid(&format!("unknown members: {:?}", body.keys())));
        }
        let Some(Value::Object(properties)) = inner else { return Err(invalid("no properties")) };
        body = properties;
    }
    let mut text = |name: &str| match body.remove(name) {
        Some(Value::String(text)) => Ok(text),
        other => Err(invalid(&format!("{name} is {other:?}"))),
    };
    let name = match &place.name {
        Some(name) => name.clone(),
        None => text("name")?,
    };
    let (issuer, subject) = (text("issuer")?, text("subject")?);
    let description = if place.is_arm { None } else { text("description").ok() };
    let audience = match body.remove("audiences").as_ref().and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::String(audience)]) => audience.clone(),
        other => return Err(invalid(&format!("exactly one audience: {other:?}"))),
    };
    if !body.is_empty() {
        return Err(invalid(&format!("unknown members: {:?}", body.keys())));
    }
    let credential = Credential { name, issuer, subject, audience, description };
    if is_legal(&credential) { Ok(credential) } else { Err(invalid(&format!("{credential:?}"))) }
}

/// `^[a-zA-Z0-9]{1}[a-zA-Z0-9-_]{2,119}$` for the name, 1 to 600 characters for the others.
fn is_legal(credential: &Credential) -> bool {
    let Credential { name, issuer, subject, audience, description } = credential;
    let named = (3..=120).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let texts = [issuer, subject, audience].into_iter().chain(description);
    named
        && issuer.starts_with("https://")
        && texts.into_iter().all(|text| (1..=600).contains(&text.chars().count()))
}

fn shown(credential: &Credential, is_arm: bool) -> Value {
    let Credential { name, issuer, subject, audience, description } = credential;
    let members = json!({ "issuer": issuer, "subject": subject, "audiences": [audience] });
    if is_arm {
        let kind = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials";
        return json!({ "id": format!("/{name}"), "name": name, "type": kind, "properties": members });
    }
    json!({
        "id": format!("id-of-{name}"), "name": name, "issuer": issuer, "subject": subject,
        "audiences": [audience], "description": description,
    })
}
