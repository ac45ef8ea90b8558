//! What is asked, whether the caller may, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::authentication::Authenticated;
use super::{ACCOUNT, Refusal, State, StoredProvider};

/// What AWS finds by itself when no thumbprint is given.
const FOUND: &str = "9e99a48a9960b14926bb7f3b02e22da2b0ab7280";

pub(super) fn perform(state: &mut State, call: &Authenticated) -> Result<String, Refusal> {
    let version = if call.action == "GetCallerIdentity" { "2011-06-15" } else { "2010-05-08" };
    let arguments = Arguments { call, taken: BTreeSet::from(["Action", "Version"].map(str::to_owned)) };
    if call.parameters.get("Version").map(String::as_str) != Some(version) {
        return Err(Refusal(400, "InvalidAction", format!("{} in another version", call.action)));
    }
    let result = match call.action.as_str() {
        "GetCallerIdentity" => arguments.end().map(|()| {
            let arn = format!("arn:aws:sts::{ACCOUNT}:assumed-role/chancery/session");
            format!("<Arn>{arn}</Arn><UserId>AROA:session</UserId><Account>{ACCOUNT}</Account>")
        }),
        "CreateOpenIDConnectProvider" => create(state, arguments),
        "GetOpenIDConnectProvider" => get(state, arguments),
        "AddClientIDToOpenIDConnectProvider" => add(state, arguments),
        "RemoveClientIDFromOpenIDConnectProvider" => remove(state, arguments),
        "TagOpenIDConnectProvider" => tag(state, arguments),
        other => Err(Refusal(400, "InvalidAction", format!("Could not find operation {other}"))),
    }?;
    state.calls.push(call.action.clone());
    let name = &call.action;
    Ok(format!("<{name}Response><{name}Result>{result}</{name}Result></{name}Response>"))
}

/// The parameters of a call; what no action has taken at the end is refused.
struct Arguments<'a> {
    call: &'a Authenticated,
    taken: BTreeSet<String>,
}

impl Arguments<'_> {
    fn optional(&mut self, name: &str) -> Option<String> {
        self.taken.insert(name.to_owned());
        self.call.parameters.get(name).cloned()
    }

    fn required(&mut self, name: &str) -> Result<String, Refusal> {
        let given = self.optional(name).filter(|value| !value.is_empty());
        given.ok_or_else(|| invalid(format!("{name} must have a value")))
    }

    fn list(&mut self, name: &str) -> Vec<String> {
        (1..).map_while(|number| self.optional(&format!("{name}.member.{number}"))).collect()
    }

    fn tags(&mut self) -> Result<BTreeMap<String, String>, Refusal> {
        let mut tags = BTreeMap::new();
        for number in 1.. {
            let Some(key) = self.optional(&format!("Tags.member.{number}.Key")) else { break };
            let value = self.optional(&format!("Tags.member.{number}.Value"));
            let value = value.ok_or_else(|| invalid(format!("the tag {key} has no value")))?;
            let legal = |c: char| c.is_alphanumeric() || " _.:/=+-@".contains(c);
            let sizes = (1..=128).contains(&key.len()) && value.len() <= 256;
            if !sizes
                || !key.chars().chain(value.chars()).all(legal)
                || tags.insert(key.clone(), value).is_some()
            {
                return Err(invalid(format!("the tag {key}")));
            }
        }
        Ok(tags)
    }

    fn end(&self) -> Result<(), Refusal> {
        let unknown = self.call.parameters.keys().find(|name| !self.taken.contains(*name));
        unknown.map_or(Ok(()), |name| Err(invalid(format!("{name} is no parameter of {}", self.call.action))))
    }
}

fn invalid(message: String) -> Refusal {
    Refusal(400, "ValidationError", message)
}

/// Whether the policy allows the action on the resource; other statements than plain ones are refused as a mistake.
fn authorize(policy: &Value, action: &str, resource: &str) -> Result<(), Refusal> {
    let names = |statement: &Value, key: &str, wanted: &str| {
        let value = statement.get(key);
        let several = value.and_then(Value::as_array).into_iter().flatten();
        several.chain(value.filter(|value| value.is_string())).any(|name| name.as_str() == Some(wanted))
    };
    let statements = policy.get("Statement").and_then(Value::as_array).into_iter().flatten();
    let allows = |statement: &&Value| {
        names(statement, "Effect", "Allow")
            && names(statement, "Action", action)
            && names(statement, "Resource", resource)
    };
    if statements.filter(allows).count() > 0 {
        return Ok(());
    }
    let message = format!(
        "User: arn:aws:sts::{ACCOUNT}:assumed-role/chancery/session is not authorized to perform: {action} on resource: {resource} because no identity-based policy allows the {action} action"
    );
    Err(Refusal(403, "AccessDenied", message))
}

fn arn(url: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{url}")
}

/// The provider's URL without the scheme, after the caller was found to have the right.
fn target(state: &State, arguments: &mut Arguments<'_>) -> Result<String, Refusal> {
    let given = arguments.required("OpenIDConnectProviderArn")?;
    authorize(&state.policy, &format!("iam:{}", arguments.call.action), &given)?;
    let url = given.strip_prefix(&arn("")).filter(|url| !url.contains("://"));
    url.map(str::to_owned).ok_or_else(|| invalid(format!("Invalid ARN: {given}")))
}

fn stored<'a>(state: &'a mut State, url: &str) -> Result<&'a mut StoredProvider, Refusal> {
    let missing =
        Refusal(404, "NoSuchEntity", format!("OpenIDConnect Provider not found for arn {}", arn(url)));
    state.providers.get_mut(url).ok_or(missing)
}

fn create(state: &mut State, mut arguments: Arguments<'_>) -> Result<String, Refusal> {
    let given = arguments.required("Url")?;
    let url =
        given.strip_prefix("https://").ok_or_else(|| invalid("Url must begin with https://".to_owned()))?;
    authorize(&state.policy, "iam:CreateOpenIDConnectProvider", &arn(url))?;
    let host = url.split('/').next().unwrap_or_default();
    if given.len() > 255 || host.is_empty() || host.contains(':') || url.contains(['?', '#']) {
        return Err(invalid(format!("Invalid Open ID Connect Provider URL {given}")));
    }
    let (ids, thumbprints) = (arguments.list("ClientIDList"), arguments.list("ThumbprintList"));
    let tags = arguments.tags()?;
    arguments.end()?;
    if !tags.is_empty() {
        authorize(&state.policy, "iam:TagOpenIDConnectProvider", &arn(url))?;
    }
    ids.iter().try_for_each(|id| check_id(id))?;
    let hex = |print: &String| print.len() == 40 && print.bytes().all(|byte| byte.is_ascii_hexdigit());
    if thumbprints.len() > 5 || !thumbprints.iter().all(hex) {
        return Err(invalid("ThumbprintList".to_owned()));
    }
    let audiences: BTreeSet<String> = ids.iter().cloned().collect();
    check_room(&audiences)?;
    if let Some(rival) = state.rival.take() {
        state.providers.insert(url.to_owned(), rival);
    }
    if state.providers.contains_key(url) {
        let message = format!("Provider with url {given} already exists.");
        return Err(Refusal(409, "EntityAlreadyExists", message));
    }
    let thumbprints = if thumbprints.is_empty() { vec![FOUND.to_owned()] } else { thumbprints };
    state.providers.insert(url.to_owned(), StoredProvider { audiences, thumbprints, tags });
    Ok(format!("<OpenIDConnectProviderArn>{}</OpenIDConnectProviderArn>", arn(url)))
}

fn check_id(id: &str) -> Result<(), Refusal> {
    if (1..=255).contains(&id.len()) { Ok(()) } else { Err(invalid(format!("the client id {id:?}"))) }
}

fn check_room(audiences: &BTreeSet<String>) -> Result<(), Refusal> {
    let message = "Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: 100".to_owned();
    if audiences.len() <= 100 { Ok(()) } else { Err(Refusal(409, "LimitExceeded", message)) }
}

fn get(state: &mut State, mut arguments: Arguments<'_>) -> Result<String, Refusal> {
    let url = target(state, &mut arguments)?;
    arguments.end()?;
    let StoredProvider { audiences, thumbprints, tags } = stored(state, &url)?;
    let members = |values: &mut dyn Iterator<Item = &String>| {
        values.map(|value| format!("<member>{}</member>", value.replace('&', "&amp;"))).collect::<String>()
    };
    let (ids, prints) = (members(&mut audiences.iter()), members(&mut thumbprints.iter()));
    let tags =
        tags.iter().map(|(key, value)| format!("<member><Key>{key}</Key><Value>{value}</Value></member>"));
    let tags = tags.collect::<String>();
    Ok(format!(
        "<ThumbprintList>{prints}</ThumbprintList><CreateDate>2026-01-01T00:00:00Z</CreateDate><ClientIDList>{ids}</ClientIDList><Url>{url}</Url><Tags>{tags}</Tags>"
    ))
}

fn add(state: &mut State, mut arguments: Arguments<'_>) -> Result<String, Refusal> {
    let url = target(state, &mut arguments)?;
    let id = arguments.required("ClientID")?;
    arguments.end()?;
    check_id(&id)?;
    let provider = stored(state, &url)?;
    let mut audiences = provider.audiences.clone();
    audiences.insert(id);
    check_room(&audiences)?;
    provider.audiences = audiences;
    Ok(String::new())
}

fn remove(state: &mut State, mut arguments: Arguments<'_>) -> Result<String, Refusal> {
    let url = target(state, &mut arguments)?;
    let id = arguments.required("ClientID")?;
    arguments.end()?;
    stored(state, &url)?.audiences.remove(&id);
    Ok(String::new())
}

fn tag(state: &mut State, mut arguments: Arguments<'_>) -> Result<String, Refusal> {
    let url = target(state, &mut arguments)?;
    let tags = arguments.tags()?;
    arguments.end()?;
    if tags.is_empty() {
        return Err(invalid("Tags must have a value".to_owned()));
    }
    let provider = stored(state, &url)?;
    provider.tags.extend(tags);
    if provider.tags.len() > 50 {
        Err(Refusal(409, "LimitExceeded", "50 tags".to_owned()))
    } else {
        Ok(String::new())
    }
}
