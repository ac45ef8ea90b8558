//! Rules about the key set.

use std::collections::BTreeSet;

use super::entries::{describe, name, quoted};
use super::{Case, Finding, Severity, key_ids};
use crate::jwks::{ObservedJwk, ObservedJwks};
use crate::key::KeyMaterial;
use crate::profile::{Acceptance, AlgorithmsFixed, KeyBudget, KeyRules, Profile, RelyingParty, UnknownKey};
use crate::{Algorithm, PublicKey};

pub(super) const MISSING: &str = "keys-missing";
pub(super) const PRIVATE_MEMBER: &str = "key-private-member";
pub(super) const UNKNOWN_TYPE: &str = "key-unknown-type";
pub(super) const UNREADABLE: &str = "key-unreadable";
pub(super) const ALGORITHM: &str = "key-algorithm";
pub(super) const SEVERAL_ALGORITHMS: &str = "keys-several-algorithms";
pub(super) const BREAKS_SET: &str = "key-breaks-set";
pub(super) const ALGORITHM_LABEL: &str = "key-algorithm-label";
pub(super) const CONFORMANCE: &str = "key-conformance";
pub(super) const RSA_TOO_SMALL: &str = "key-rsa-too-small";
pub(super) const RSA_TOO_LARGE: &str = "key-rsa-too-large";
pub(super) const TOO_MANY: &str = "keys-too-many";
pub(super) const MEMBERS: &str = "key-members";
pub(super) const USE: &str = "key-use";

/// Members that hold private or secret numbers (RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1).
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Members that every key has, so that no list needs to name them.
const PARAMETERS: [&str; 5] = ["n", "e", "crv", "x", "y"];

pub(super) fn rules(set: &ObservedJwks, parties: &[RelyingParty]) -> Vec<Finding> {
    let rules = [
        missing,
        private_member,
        unknown_type,
        unreadable,
        algorithm,
        several_algorithms,
        breaks_set,
        algorithm_label,
        conformance,
        rsa_too_small,
        rsa_too_large,
        too_many,
        key_ids::missing,
        key_ids::repeated,
        key_ids::foreign,
        members,
        other_use,
    ];
    rules.into_iter().filter_map(|rule| rule(&set.entries, parties)).collect()
}

fn missing(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    if entries.iter().any(|entry| entry.key.is_some()) {
        return None;
    }
    let case = Case {
        rule: MISSING,
        message: format!(
            "the JWKS has {} entries and none that Kubernetes could have signed with; expected at least one RSA, P-256, P-384 or P-521 key",
            entries.len()
        ),
        remedy: "publish the public halves of kube-apiserver's signing keys".to_owned(),
    };
    case.held_against(parties, |_| Acceptance::Refuses)
}

fn private_member(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let private = |entry: &ObservedJwk| entry.members.iter().any(|member| is_private(member));
    let case = Case {
        rule: PRIVATE_MEMBER,
        message: format!(
            "private or secret numbers are published: {}; expected public keys only",
            name(entries, private)?
        ),
        remedy:
            "treat the key as stolen: sign with a new one, then withdraw this one and every token it signed"
                .to_owned(),
    };
    case.held_against(parties, |_| Acceptance::Refuses)
}

fn unknown_type(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let odd = |entry: &ObservedJwk| !is_kubernetes_type(entry);
    let case = Case {
        rule: UNKNOWN_TYPE,
        message: format!(
            "key type other than RSA and EC: {}",
            describe(entries, odd, |entry| quoted(&entry.kty))?
        ),
        remedy:
            "publish it in a JWKS of its own: some parties refuse the whole set for one key they cannot parse"
                .to_owned(),
    };
    case.held_against(parties, |profile| {
        worst(entries.iter().filter(|entry| odd(entry)).map(|entry| {
            let known = profile.keys.key_types.contains(&entry.kty.as_str());
            if known { Acceptance::Accepts } else { fate_of_the_set(&profile.keys) }
        }))
    })
}

fn unreadable(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let broken = |entry: &ObservedJwk| is_kubernetes_type(entry) && entry.key.is_none();
    let case = Case {
        rule: UNREADABLE,
        message: format!(
            "RSA or EC key that cannot be used: {}; expected base64url numbers, RSA of at least 1024 bits, or a point on P-256, P-384 or P-521",
            name(entries, broken)?
        ),
        remedy: "remove it, or render it again from its PEM file with `chancery keygen jwks`".to_owned(),
    };
    // Unlike an unknown type, a broken key is a reason to refuse the set by RFC 7517 too, so nobody promises more.
    case.held_against(parties, |profile| fate_of_the_set(&profile.keys).max(Acceptance::Doubtful))
}

fn algorithm(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let verdict = |profile: &Profile, entry: &ObservedJwk| {
        algorithm_of(entry).map_or(Acceptance::Accepts, |algorithm| profile.algorithms.of(algorithm))
    };
    let disliked = |entry: &ObservedJwk| {
        parties.iter().any(|party| verdict(party.profile(), entry) != Acceptance::Accepts)
    };
    let of_key = |entry: &ObservedJwk| algorithm_of(entry).map_or("", Algorithm::as_str).to_owned();
    let case = Case {
        rule: ALGORITHM,
        message: format!(
            "keys that not everybody verifies: {}; expected RS256",
            describe(entries, disliked, of_key)?
        ),
        remedy: "sign with an RSA-2048 key, which every relying party takes".to_owned(),
    };
    case.held_against(parties, |profile| worst(entries.iter().map(|entry| verdict(profile, entry))))
}

/// A change of algorithm is no rotation for whoever fixed the algorithms when only the old one was published. A key set
/// passes through this state whenever its algorithm changes.
fn several_algorithms(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let algorithms: BTreeSet<Algorithm> = entries.iter().filter_map(algorithm_of).collect();
    if algorithms.len() < 2 {
        return None;
    }
    let names: Vec<_> = algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
    let case = Case {
        rule: SEVERAL_ALGORITHMS,
        message: format!(
            "keys of several algorithms in one set: {}; some parties verify with the algorithms that were there when they started",
            names.join(", ")
        ),
        remedy: "after the first key of another algorithm is published, and before it signs, restart or configure those parties"
            .to_owned(),
    };
    case.held_against(parties, |profile| match profile.cache.algorithms_fixed {
        AlgorithmsFixed::No | AlgorithmsFixed::Undocumented => Acceptance::Accepts,
        AlgorithmsFixed::UntilRestart | AlgorithmsFixed::UntilConfigured => Acceptance::Doubtful,
    })
}

fn breaks_set(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let fatal = |profile: &Profile, entry: &ObservedJwk| {
        algorithm_of(entry).is_some_and(|algorithm| profile.keys.fatal_algorithms.contains(&algorithm))
    };
    let named = describe(
        entries,
        |entry| parties.iter().any(|party| fatal(party.profile(), entry)),
        |entry| algorithm_of(entry).map_or("", Algorithm::as_str).to_owned(),
    )?;
    let case = Case {
        rule: BREAKS_SET,
        message: format!("one key makes somebody refuse the whole set, and every token with it: {named}"),
        remedy:
            "sign with an RSA-2048 key, or move that party to another library before the key is published"
                .to_owned(),
    };
    case.held_against(parties, |profile| {
        if entries.iter().any(|entry| fatal(profile, entry)) {
            Acceptance::Refuses
        } else {
            Acceptance::Accepts
        }
    })
}

fn algorithm_of(entry: &ObservedJwk) -> Option<Algorithm> {
    entry.key.as_ref().map(PublicKey::algorithm)
}

fn algorithm_label(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let mislabelled = |entry: &ObservedJwk| match (&entry.alg, algorithm_of(entry)) {
        (Some(label), Some(algorithm)) => label != algorithm.as_str(),
        _ => false,
    };
    let label = |entry: &ObservedJwk| {
        let expected = algorithm_of(entry).map_or("", Algorithm::as_str);
        format!("{} instead of {expected}", quoted(entry.alg.as_deref().unwrap_or_default()))
    };
    let case = Case {
        rule: ALGORITHM_LABEL,
        message: format!(
            "`alg` is not what kube-apiserver signs with: {}",
            describe(entries, mislabelled, label)?
        ),
        remedy: "write the algorithm that the key's type implies: RS256, ES256, ES384 or ES512".to_owned(),
    };
    case.held_against(parties, |profile| profile.keys.other_algorithm)
}

/// The conformance test `ServiceAccountIssuerDiscovery` (kubernetes#105942) verifies RS256 and ES256 alone.
fn conformance(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let untested =
        |entry: &ObservedJwk| matches!(algorithm_of(entry), Some(Algorithm::Es384 | Algorithm::Es512));
    let named = name(entries, untested)?;
    parties.contains(&RelyingParty::Kubernetes).then(|| Finding {
        rule: CONFORMANCE,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: format!("a cluster that signs with ES384 or ES512 fails Kubernetes' conformance test of its issuer: {named}"),
        remedy: "sign with RS256 or ES256 if the cluster must be conformant".to_owned(),
    })
}

fn rsa_too_small(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let expected = parties.iter().map(|party| *party.profile().keys.rsa_bits.start()).max()?;
    let expected = format!("at least {expected} bits (RFC 7518 section 3.3)");
    rsa_size(&RsaSizeRule { rule: RSA_TOO_SMALL, expected }, entries, parties, |rules, bits| {
        if bits < *rules.rsa_bits.start() { Acceptance::Refuses } else { Acceptance::Accepts }
    })
}

fn rsa_too_large(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let expected = parties.iter().map(|party| *party.profile().keys.rsa_bits.end()).min()?;
    let expected = format!("at most {expected} bits");
    rsa_size(&RsaSizeRule { rule: RSA_TOO_LARGE, expected }, entries, parties, |rules, bits| {
        if bits > *rules.rsa_bits.end() { Acceptance::Doubtful } else { Acceptance::Accepts }
    })
}

/// A rule about the size of RSA keys, and what it expects, in words.
struct RsaSizeRule {
    rule: &'static str,
    expected: String,
}

fn rsa_size(
    rule: &RsaSizeRule,
    entries: &[ObservedJwk],
    parties: &[RelyingParty],
    judge: impl Fn(&KeyRules, usize) -> Acceptance,
) -> Option<Finding> {
    let bits = |entry: &ObservedJwk| {
        let key = entry.key.as_ref().filter(|key| matches!(key.material(), KeyMaterial::Rsa { .. }));
        key.map(PublicKey::bits)
    };
    let verdict = |profile: &Profile, entry: &ObservedJwk| {
        bits(entry).map_or(Acceptance::Accepts, |bits| judge(&profile.keys, bits))
    };
    let disliked = |entry: &ObservedJwk| {
        parties.iter().any(|party| verdict(party.profile(), entry) != Acceptance::Accepts)
    };
    let sizes = describe(entries, disliked, |entry| format!("{} bits", bits(entry).unwrap_or_default()))?;
    let RsaSizeRule { rule, expected } = rule;
    let case = Case {
        rule,
        message: format!("RSA modulus of unusual size: {sizes}; expected {expected}"),
        remedy: "sign with an RSA-2048 key from `chancery keygen new`".to_owned(),
    };
    case.held_against(parties, |profile| worst(entries.iter().map(|entry| verdict(profile, entry))))
}

fn too_many(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let count = |kty: &str| entries.iter().filter(|entry| entry.kty == kty).count();
    let (rsa, ec, total) = (count("RSA"), count("EC"), entries.len());
    let exceeds = |budget: KeyBudget| {
        let over = |limit: Option<usize>, number| limit.is_some_and(|limit| number > limit);
        over(budget.rsa, rsa) || over(budget.ec, ec) || over(budget.total, total)
    };
    let budgets = parties.iter().map(|party| party.profile().keys.budget).filter(|budget| exceeds(*budget));
    let limit = budgets.flat_map(|budget| [budget.rsa, budget.ec, budget.total]).flatten().min()?;
    let case = Case {
        rule: TOO_MANY,
        message: format!(
            "the JWKS has {rsa} RSA keys, {ec} EC keys and {total} together; expected at most {limit}"
        ),
        remedy: "withdraw keys whose last token is dead; do not unite unrelated clusters under one issuer"
            .to_owned(),
    };
    case.held_against(parties, |profile| {
        let budget = profile.keys.budget;
        if exceeds(budget) { budget.beyond } else { Acceptance::Accepts }
    })
}

fn members(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let verdict = |rules: &KeyRules, member: &str| {
        let listed = rules.only_members.is_none_or(|list| list.contains(&member));
        if rules.refused_members.contains(&member) {
            Acceptance::Refuses
        } else if listed && !rules.checked_members.contains(&member) {
            Acceptance::Accepts
        } else {
            Acceptance::Doubtful
        }
    };
    // Private members have a rule of their own, which is worse.
    let optional = |entry: &ObservedJwk| -> Vec<String> {
        let optional = entry.members.iter().filter(|member| !PARAMETERS.contains(&member.as_str()));
        optional.filter(|member| !is_private(member)).cloned().collect()
    };
    let disliked = |entry: &ObservedJwk| -> Vec<String> {
        let by_anybody = |member: &String| {
            parties.iter().any(|party| verdict(&party.profile().keys, member) != Acceptance::Accepts)
        };
        optional(entry).into_iter().filter(by_anybody).collect()
    };
    let named = describe(
        entries,
        |entry| !disliked(entry).is_empty(),
        |entry| disliked(entry).iter().take(5).map(|member| quoted(member)).collect::<Vec<_>>().join(", "),
    )?;
    let case = Case {
        rule: MEMBERS,
        message: format!(
            "members beyond what kube-apiserver publishes: {named}; expected use, kty, kid, alg and the key's parameters"
        ),
        remedy: "leave them out".to_owned(),
    };
    case.held_against(parties, |profile| {
        worst(entries.iter().flat_map(optional).map(|member| verdict(&profile.keys, &member)))
    })
}

fn other_use(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let other = |entry: &ObservedJwk| entry.usage.as_deref().is_some_and(|usage| usage != "sig");
    let usage = |entry: &ObservedJwk| quoted(entry.usage.as_deref().unwrap_or_default());
    let case = Case {
        rule: USE,
        message: format!("`use` is not `sig`: {}", describe(entries, other, usage)?),
        remedy: "write `\"use\":\"sig\"`".to_owned(),
    };
    case.held_against(parties, |profile| profile.keys.other_use)
}

fn is_private(member: &str) -> bool {
    PRIVATE_MEMBERS.contains(&member)
}

fn is_kubernetes_type(entry: &ObservedJwk) -> bool {
    matches!(entry.kty.as_str(), "RSA" | "EC")
}

fn fate_of_the_set(rules: &KeyRules) -> Acceptance {
    match rules.unknown_key {
        UnknownKey::Ignored => Acceptance::Accepts,
        UnknownKey::Undocumented => Acceptance::Doubtful,
        UnknownKey::RejectsSet => Acceptance::Refuses,
    }
}

fn worst(verdicts: impl Iterator<Item = Acceptance>) -> Acceptance {
    verdicts.max().unwrap_or(Acceptance::Accepts)
}
