//! What is to be checked before the next phase, and what is known to break: the same everywhere.

use chancery_core::lint::{Severity, lint_text};
use chancery_core::profile::RelyingParty;

use crate::request::Phase;
use crate::row::{Row, Scene};

/// What has to be so before the next phase; of a new cluster and of the last phase, in the end.
pub(crate) fn checks(scene: &Scene<'_>) -> Vec<String> {
    let issuer = &scene.request.issuer;
    let documents =
        format!("`chancery verify {issuer}` ends with 0: its documents are visible, with {}", keys(scene));
    let check = |phase: Phase| {
        format!(
            "`chancery migrate check {phase} --plan migration.yaml` ends with 0: it asks every kube-apiserver itself"
        )
    };
    let discovery = format!(
        "every kube-apiserver by its own address, never through a load balancer: `kubectl get --raw /.well-known/openid-configuration` has the issuer `{}`",
        scene.state.signs_for()
    );
    let token = format!(
        "`kubectl create token default` has `iss` {}{}",
        scene.state.signs_for(),
        scene.state.keys.first().map(|key| format!(" and `kid` {}", key.key_id())).unwrap_or_default()
    );
    match scene.phase() {
        None => vec![documents, discovery, token],
        Some(Phase::Accept) => vec![
            check(Phase::Accept),
            documents,
            format!(
                "`chancery trust aws | azure | gcp plan --issuer {issuer}` ends with 0 for each cloud that is used, and what names the issuer there (roles, federated credentials, grants) names both"
            ),
        ],
        Some(Phase::Switch) => vec![check(Phase::Switch), discovery, token],
        Some(Phase::Wait) => vec![
            check(Phase::Wait),
            "no pod is older than the switch that reads its token once: `kubectl get pods -A --sort-by=.metadata.creationTimestamp`, and `serviceaccount_stale_tokens_total` of kube-apiserver does not grow; restart those that are".to_owned(),
            "no token in a Secret is in use, if the key changes too: `kubectl get secrets -A --field-selector type=kubernetes.io/service-account-token`".to_owned(),
        ],
        Some(Phase::Drop) => vec![
            check(Phase::Drop),
            "`chancery migrate issuer --plan migration.yaml` says what is left: the old issuer at relying parties, then its documents".to_owned(),
        ],
    }
}

fn keys(scene: &Scene<'_>) -> String {
    if !scene.has_keys() {
        return "every key that the cluster verifies with".to_owned();
    }
    let ids: Vec<String> = scene.state.keys.iter().map(|key| format!("`{}`", key.key_id())).collect();
    ids.join(" and ")
}

/// What is known to break.
pub(crate) fn warnings(scene: &Scene<'_>, row: &Row) -> Vec<String> {
    let findings = lint_text(scene.request.issuer.as_str(), &RelyingParty::USUAL).into_iter();
    let findings = findings.filter(|finding| finding.severity > Severity::Note);
    let mut warnings: Vec<String> = findings.map(|finding| finding.to_string()).collect();
    if scene.request.version.is_none() {
        warnings.push(format!("no version of {} was given: this is for the newest", row.version_of));
    }
    if let Some(phase) = scene.phase() {
        warnings.extend(breakers(phase).iter().map(|text| (*text).to_owned()));
    }
    warnings.extend(row.known.iter().map(|text| (*text).to_owned()));
    warnings
}

/// Components that are known to break, in the phase in which they do.
fn breakers(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Accept => &[],
        Phase::Switch | Phase::Wait => &[
            "whatever reads its token once keeps the old one: dashboards, CNI plugins and older clients did (kubernetes/kubernetes#107031, kubernetes/website#31236, gardener/gardener#5817)",
        ],
        Phase::Drop => &[
            "where `--api-audiences` is not set it follows the issuers: a workload that asks for the old issuer as its audience is refused from now on; keep it with `--audience`",
        ],
    }
}
