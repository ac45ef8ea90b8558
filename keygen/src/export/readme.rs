//! The README beside an export.

use super::flags::{Flag, command_line};
use super::{ExportFile, ExportRequest};

/// What to say for one distribution.
pub(super) struct Readme<'a> {
    /// The distribution as its makers write it.
    pub(super) title: &'a str,
    /// What to do with the files, as Markdown.
    pub(super) steps: &'a str,
    /// The flags that kube-apiserver ends up with.
    pub(super) flags: &'a [Flag],
}

pub(super) fn file(request: &ExportRequest<'_>, readme: &Readme<'_>) -> ExportFile {
    let signing = request.signing_key.public_key();
    let accepted: String = request
        .public_keys()
        .map(|key| format!("- `{}` {}, {}\n", key.key_id(), key.description(), key.algorithm()))
        .collect();
    let text = format!(
        "# Signing key of cluster {cluster} for {title}

New tokens name the issuer `{issuer}` and are signed with key `{kid}`.
kube-apiserver accepts tokens of these keys:

{accepted}
Publish all of them below the issuer before kube-apiserver signs with the first: relying parties reject tokens of a
key that they have not seen. The private files here are readable by their owner alone; keep it so where they go.

## Steps

{steps}
## kube-apiserver flags

```
{flags}```

{audiences}",
        cluster = request.cluster,
        title = readme.title,
        issuer = request.issuer,
        kid = signing.key_id(),
        steps = readme.steps,
        flags = command_line(readme.flags),
        audiences = audiences(request),
    );
    ExportFile::public("README.md", text)
}

/// `--api-audiences` defaults to the issuers, so that saying nothing is right until somebody has said something.
fn audiences(request: &ExportRequest<'_>) -> String {
    let issuers: Vec<&str> = request.issuers().map(chancery_core::IssuerUrl::as_str).collect();
    let mut text = format!(
        "`--api-audiences` is left out on purpose: it follows the issuers. Where a cluster sets it, every issuer must be
in it, or tokens without an audience of their own are refused:

```
--api-audiences={}
```
",
        issuers.join(",")
    );
    if request.accepted_issuers.is_empty() {
        text.push_str(
            "
On a cluster that is already running, keep its old issuer as a second `--service-account-issuer` after this one
(`--accepted-issuer` of the export), and its old key among the keys, until their last token is dead; without them every
token in use is refused at once.
",
        );
    }
    text
}
