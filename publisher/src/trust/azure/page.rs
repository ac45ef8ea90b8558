//! A list of federated identity credentials, as each of the two APIs gives it.

use chancery_core::trust::azure::Registered;
use serde::Deserialize;

use crate::azure::api::AzureAnswer;

/// One page of a list.
pub(super) struct Page {
    pub(super) registered: Vec<Registered>,
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
struct PageBody {
    value: Vec<Entry>,
    #[serde(default, rename = "nextLink", alias = "@odata.nextLink")]
    next: Option<String>,
}

/// Azure Resource Manager puts the members into `properties`, Microsoft Graph does not.
#[derive(Deserialize)]
struct Entry {
    name: String,
    properties: Option<Members>,
    #[serde(flatten)]
    members: Members,
}

#[derive(Deserialize)]
struct Members {
    #[serde(default)]
    issuer: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    audiences: Option<Vec<String>>,
    #[serde(default)]
    description: Option<String>,
}

impl Page {
    pub(super) fn read(answer: &AzureAnswer) -> Result<Self, String> {
        let body: PageBody = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("{} with no list of credentials ({error})", answer.status))?;
        let registered = body.value.into_iter().map(|entry| {
            let members = entry.properties.unwrap_or(entry.members);
            Registered {
                name: entry.name,
                issuer: members.issuer.unwrap_or_default(),
                subject: members.subject.unwrap_or_default(),
                audiences: members.audiences.unwrap_or_default(),
                description: members.description,
            }
        });
        Ok(Self { registered: registered.collect(), next: body.next })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_a_list_are_read() {
        let arm = json!({
            "value": [{
                "id": "/…", "name": "one", "type": "Microsoft.ManagedIdentity/…",
                "properties": { "issuer": "i", "subject": "s", "audiences": ["a"] },
            }],
            "nextLink": "https://management.azure.com/next",
        });
        let graph = json!({
            "@odata.context": "…",
            "@odata.nextLink": "https://management.azure.com/next",
            "value": [{ "id": "…", "name": "one", "issuer": "i", "subject": "s", "audiences": ["a"], "description": null }],
        });
        for list in [arm, graph] {
            let page = Page::read(&AzureAnswer::of(200, None, list.to_string().into_bytes())).unwrap();
            assert_eq!(page.next.as_deref(), Some("https://management.azure.com/next"));
            let [one] = page.registered.try_into().unwrap();
            let expected = Registered {
                name: "one".to_owned(),
                issuer: "i".to_owned(),
                subject: "s".to_owned(),
                audiences: vec!["a".to_owned()],
                description: None,
            };
            assert_eq!(one, expected);
        }
        assert!(Page::read(&AzureAnswer::of(200, None, b"<html>".to_vec())).is_err());
    }
}
