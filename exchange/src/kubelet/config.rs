//! Kubelet's configuration of its plugins
//! (<https://kubernetes.io/docs/reference/config-api/kubelet-config.v1/#kubelet-config-k8s-io-v1-CredentialProviderConfig>),
//! and what of it keeps kubelet from starting, or fails in silence: then an image is pulled without a login.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{API_VERSION, pattern, rbac};

const CONFIG_VERSION: &str = "kubelet.config.k8s.io/v1";

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name, for programs.
    pub code: &'static str,
    /// Where, as `providers[0].matchImages[1]`.
    pub place: String,
    /// What is wrong, and what to do.
    pub words: String,
}

/// What is looked at beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Manifests among which the right of nodes is looked for. Without any it is not looked for.
    pub rbac: Vec<Value>,
    /// Images of which at least one plugin should be asked.
    pub images: Vec<String>,
}

/// Everything that is wrong with a configuration.
pub fn check(config: &Value, context: &Context) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    if config["kind"] != "CredentialProviderConfig" || config["apiVersion"] != CONFIG_VERSION {
        found.add(
            "config-kind",
            "",
            &format!("expected `kind: CredentialProviderConfig` of `{CONFIG_VERSION}`"),
        );
    }
    let providers = config["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if providers.is_empty() {
        found.add("config-empty", "providers", "no plugin is configured");
    }
    let mut names = BTreeSet::new();
    for (place, provider) in providers.iter().enumerate() {
        let place = format!("providers[{place}]");
        if let Some(name) = provider["name"].as_str()
            && !names.insert(name)
        {
            let words = "a second plugin of this name: kubelet refuses to start; a plugin with a second audience needs a name of its own, as a link to the same program";
            found.add("name-twice", &format!("{place}.name"), words);
        }
        provider_check(provider, &place, &mut found);
        if let (Some(audience), false) = (audience(provider), context.rbac.is_empty())
            && !rbac::allows(&context.rbac, audience)
        {
            let words = format!(
                "nodes may not ask for tokens with the audience {audience:?}, so kubelet gets none; apply\n{}",
                rbac::manifest(audience)
            );
            found.add(
                "audience-rbac",
                &format!("{place}.tokenAttributes.serviceAccountTokenAudience"),
                &words,
            );
        }
    }
    for image in &context.images {
        if !providers
            .iter()
            .flat_map(|provider| texts(&provider["matchImages"]))
            .any(|pattern| pattern::matches(pattern, image))
        {
            found.add(
                "image-unmatched",
                "providers",
                &format!("no plugin is asked for {image}: no pattern matches it"),
            );
        }
    }
    found.0
}

/// The audiences that plugins ask tokens for.
pub fn audiences(config: &Value) -> BTreeSet<&str> {
    config["providers"].as_array().into_iter().flatten().filter_map(audience).collect()
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, code: &'static str, place: &str, words: &str) {
        self.0.push(Finding { code, place: place.to_owned(), words: words.to_owned() });
    }
}

fn provider_check(provider: &Value, place: &str, found: &mut Findings) {
    let name = provider["name"].as_str().unwrap_or_default();
    if name.is_empty() || name.contains(['/', ' ']) || matches!(name, "." | "..") {
        found.add(
            "name",
            &format!("{place}.name"),
            "expected the name of the program in kubelet's folder of plugins",
        );
    }
    if provider["apiVersion"] != API_VERSION {
        let words = format!("expected {API_VERSION}: older versions carry no token of a ServiceAccount");
        found.add("api-version", &format!("{place}.apiVersion"), &words);
    }
    let patterns = texts(&provider["matchImages"]);
    if patterns.is_empty() {
        found.add("match-images", &format!("{place}.matchImages"), "no pattern: the plugin is never asked");
    }
    for (number, text) in patterns.iter().enumerate() {
        if let Some(fault) = pattern::fault(text) {
            found.add(
                "match-images",
                &format!("{place}.matchImages[{number}]"),
                &format!("{text:?}: {fault}"),
            );
        }
    }
    if !provider["defaultCacheDuration"].as_str().is_some_and(is_duration) {
        let words = "expected a duration as Go writes it, as 0s or 5m: it is required, and the plugin's own answer goes before it";
        found.add("cache-duration", &format!("{place}.defaultCacheDuration"), words);
    }
    for (place, object) in
        [(place.to_owned(), provider), (format!("{place}.tokenAttributes"), &provider["tokenAttributes"])]
    {
        if object.get("cacheKeyType").is_some() {
            let words = "no field of the configuration: the plugin's answer has it, with Image, Registry or Global; here it is `tokenAttributes.cacheType`";
            found.add("cache-key-type", &format!("{place}.cacheKeyType"), words);
        }
    }
    token_check(provider, &format!("{place}.tokenAttributes"), found);
}

fn token_check(provider: &Value, place: &str, found: &mut Findings) {
    let token = &provider["tokenAttributes"];
    if token.is_null() {
        found.add(
            "token-attributes",
            place,
            "missing: kubelet sends no token, and the plugin has no identity",
        );
        return;
    }
    if audience(provider).is_none() {
        found.add(
            "audience",
            &format!("{place}.serviceAccountTokenAudience"),
            "missing: name the audience that the other side expects",
        );
    }
    let passes_on = texts(&provider["args"]).windows(2).any(|args| args == ["--to", "direct"])
        || texts(&provider["args"]).contains(&"--to=direct");
    match token["cacheType"].as_str() {
        Some("Token") => {}
        Some("ServiceAccount") if passes_on => found.add(
            "cache-type",
            &format!("{place}.cacheType"),
            "the token itself is the login, and ends with its pod; expected `Token`",
        ),
        Some("ServiceAccount") => {}
        _ => found.add("cache-type", &format!("{place}.cacheType"), "required since Kubernetes 1.34: `ServiceAccount` where every pod of a ServiceAccount gets the same login, otherwise `Token`"),
    }
    let requires = token["requireServiceAccount"].as_bool();
    if requires.is_none() {
        found.add(
            "require-service-account",
            &format!("{place}.requireServiceAccount"),
            "required: true, or false where the plugin is to be asked without a token as well",
        );
    }
    let (required, optional) = (
        texts(&token["requiredServiceAccountAnnotationKeys"]),
        texts(&token["optionalServiceAccountAnnotationKeys"]),
    );
    if !required.is_empty() && requires != Some(true) {
        found.add(
            "annotation-keys",
            &format!("{place}.requiredServiceAccountAnnotationKeys"),
            "needs `requireServiceAccount: true`",
        );
    }
    if required.iter().any(|key| optional.contains(key)) {
        found.add(
            "annotation-keys",
            &format!("{place}.optionalServiceAccountAnnotationKeys"),
            "has a key that is required as well; kubelet refuses to start",
        );
    }
}

fn audience(provider: &Value) -> Option<&str> {
    provider
        .pointer("/tokenAttributes/serviceAccountTokenAudience")?
        .as_str()
        .filter(|audience| !audience.is_empty())
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A duration as Go writes it: numbers, each with a unit.
fn is_duration(text: &str) -> bool {
    let mut left = text;
    if left == "0" {
        return true;
    }
    while !left.is_empty() {
        let unit = left.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let units = ["ns", "us", "µs", "ms", "h", "m", "s"];
        let rest = units.iter().find_map(|name| unit.strip_prefix(name));
        match rest {
            Some(rest) if unit.len() < left.len() => left = rest,
            _ => return false,
        }
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests;
