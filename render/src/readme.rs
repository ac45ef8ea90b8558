//! An answer as Markdown, which lies beside its files.

use crate::output::{Flag, Rendered};
use crate::request::{Request, Stage};

/// The README of an answer.
pub fn readme(request: &Request, rendered: &Rendered) -> String {
    let cluster = &request.place.cluster;
    let what = match rendered.phase {
        None => "a new cluster".to_owned(),
        Some(phase) => format!("phase `{phase}` of a change of the issuer"),
    };
    let issuers = rendered.flags.iter().filter(|flag| flag.name == "service-account-issuer");
    let mut issuers = issuers.map(|flag| flag.value.as_str());
    let mut text = format!(
        "# Cluster {cluster} on {}: {what}\n\nNew tokens name the issuer `{}`",
        rendered.distribution,
        issuers.next().unwrap_or_default()
    );
    match &rendered.signing_key {
        Some(key) => text.push_str(&format!(" and are signed with key `{key}`.\n")),
        None => text.push_str(". Keys stay what they are.\n"),
    }
    for issuer in issuers {
        text.push_str(&format!("Tokens of `{issuer}` are accepted as well.\n"));
    }
    if !rendered.verifying_keys.is_empty() {
        text.push_str("\nTokens of these keys are accepted. Publish all of them before the first signs, since relying parties reject\ntokens of a key that they have not seen:\n\n");
        rendered.verifying_keys.iter().for_each(|key| text.push_str(&format!("- `{key}`\n")));
    }
    text.push_str(&format!("\n## Steps\n\n{}\n## Before the next phase\n\n", steps(rendered)));
    text.push_str(&format!("- on every node, the flags below are in effect: `{}`\n", rendered.proof));
    rendered.checks.iter().for_each(|check| text.push_str(&format!("- {check}\n")));
    if !rendered.warnings.is_empty() {
        text.push_str("\n## Known to break\n\n");
        rendered.warnings.iter().for_each(|warning| text.push_str(&format!("- {warning}\n")));
    }
    let flags: String = rendered.flags.iter().map(|flag| format!("{}\n", flag.argument())).collect();
    text.push_str(&format!("\n## kube-apiserver flags\n\n```\n{flags}```\n"));
    text + &audiences(request, &rendered.flags)
}

fn steps(rendered: &Rendered) -> String {
    let mut text = String::new();
    for (number, step) in rendered.steps.iter().enumerate() {
        let end = if step.commands.is_empty() { "." } else { ":" };
        text.push_str(&format!("{}. {}{end}\n", number + 1, step.what));
        step.commands.iter().for_each(|command| text.push_str(&format!("\n       {command}\n")));
    }
    text
}

/// `--api-audiences` defaults to the issuers, so that saying nothing is right until somebody has said something.
fn audiences(request: &Request, flags: &[Flag]) -> String {
    if flags.iter().any(|flag| flag.name == "api-audiences") {
        return String::new();
    }
    let issuers = flags.iter().filter(|flag| flag.name == "service-account-issuer");
    let issuers: Vec<&str> = issuers.map(|flag| flag.value.as_str()).collect();
    let mut text = format!(
        "
`--api-audiences` is left out on purpose: it follows the issuers. Where a cluster sets it, every issuer must be
in it, or tokens without an audience of their own are refused (`--audience` of `chancery render` adds others):

```
--api-audiences={}
```
",
        issuers.join(",")
    );
    if matches!(&request.stage, Stage::New { accepted } if accepted.is_empty()) {
        text.push_str(
            "
On a cluster that is already running, these flags alone refuse every token in use. There, go through the phases of
`chancery render` with the issuer that it has as `--from`.
",
        );
    }
    text
}
