use std::collections::BTreeMap;

use chancery_core::PublicKey;
use chancery_core::key_file::read_public_keys;

use super::state::State;
use super::*;

mod files;
mod matrix;
mod refusals;

const NEW: &str = "https://id.example.com/prod";
const OLD: &str = "https://kubernetes.default.svc.cluster.local";

const RSA: &str = include_str!("tests/keys/rsa1.pub");
const OTHER_RSA: &str = include_str!("tests/keys/rsa2.pub");
const P256: &str = include_str!("tests/keys/ec.pub");

fn key(pem: &str) -> PublicKey {
    read_public_keys(pem).keys.pop().unwrap()
}

/// A request of a phase, or for a new cluster.
fn sample(phase: Option<Phase>) -> Request {
    let stage = match phase {
        None => Stage::New { accepted: Vec::new() },
        Some(phase) => Stage::Change { from: vec![OLD.to_owned()], from_jwks_uri: None, phase },
    };
    let place = Place {
        cluster: "prod".parse().unwrap(),
        namespace: "fleet".parse().unwrap(),
        directory: "/srv/a \"b\": c".to_owned(),
        key_directory: "/etc/kubernetes/pki".to_owned(),
    };
    Request { version: None, issuer: NEW.parse().unwrap(), stage, keys: None, audiences: Vec::new(), place }
}

fn at(version: &str, phase: Option<Phase>) -> Request {
    Request { version: Some(version.parse().unwrap()), ..sample(phase) }
}

/// The same with another key than before.
fn with_keys(request: Request, (new, old): (&str, &str)) -> Request {
    Request { keys: Some(Keys { new: key(new), old: vec![key(old)] }), ..request }
}

fn distribution(name: &str) -> Distribution {
    name.parse().unwrap()
}

#[track_caller]
fn files(name: &str, request: &Request) -> BTreeMap<String, String> {
    let rendered = distribution(name).render(request).unwrap_or_else(|error| panic!("{name}: {error}"));
    rendered.files.into_iter().map(|file| (file.path, file.content)).collect()
}

/// Every request that the table does not refuse, at the first version of every form.
fn all(mut then: impl FnMut(&Distribution, &Request, Rendered)) {
    for distribution in Distribution::all() {
        for form in distribution.row().forms {
            for phase in [None].into_iter().chain(Phase::ALL.map(Some)) {
                let plain = Request { version: Some(form.since), ..sample(phase) };
                for request in [with_keys(plain.clone(), (RSA, OTHER_RSA)), plain] {
                    if let Ok(rendered) = distribution.render(&request) {
                        then(&distribution, &request, rendered);
                    }
                }
            }
        }
    }
}

#[test]
fn what_signs_in_a_phase_is_accepted_in_the_ones_beside_it() {
    let requests = Phase::ALL.map(|phase| with_keys(sample(Some(phase)), (RSA, OTHER_RSA)));
    let states: Vec<State<'_>> = requests.iter().map(|request| State::of(request).unwrap()).collect();
    for pair in states.windows(2) {
        let [before, after] = pair else { panic!() };
        assert!(before.issuers.contains(&after.issuers[0]), "one replica is ahead: {pair:?}");
        assert!(before.keys.contains(&after.keys[0]), "one replica is ahead: {pair:?}");
    }
    let [accept, switch, wait, drop] = states.as_slice() else { panic!() };
    assert_eq!((accept.signs_for(), accept.keys[0]), (OLD, &key(OTHER_RSA)));
    assert_eq!((&accept.jwks_uri, &switch.jwks_uri), (&None, &Some(format!("{NEW}/openid/v1/jwks"))));
    for state in [switch, wait] {
        assert_eq!(state.issuers, [NEW, OLD]);
        assert_eq!(state.keys, [&key(RSA), &key(OTHER_RSA)]);
    }
    assert_eq!((&drop.issuers, &drop.keys), (&vec![NEW.to_owned()], &vec![&key(RSA)]));
}

#[test]
fn an_issuer_that_was_before_can_be_taken_again_and_several_stay_in_their_order() {
    let stage = |phase| Stage::Change {
        from: vec!["https://b.example".to_owned(), "https://c.example".to_owned()],
        from_jwks_uri: Some("https://b.example/keys.json".to_owned()),
        phase,
    };
    let flags = |phase| {
        let request = Request { stage: stage(phase), ..sample(None) };
        let flags = State::of(&request).unwrap().flags();
        flags.iter().map(Flag::argument).collect::<Vec<_>>()
    };
    let issuer = |url: &str| format!("--service-account-issuer={url}");
    let (b, c, new) = (issuer("https://b.example"), issuer("https://c.example"), issuer(NEW));
    let uri = |uri: &str| format!("--service-account-jwks-uri={uri}");
    assert_eq!(flags(Phase::Accept), [b.clone(), c.clone(), new.clone(), uri("https://b.example/keys.json")]);
    assert_eq!(flags(Phase::Switch), [new.clone(), b, c, uri(&format!("{NEW}/openid/v1/jwks"))]);
    assert_eq!(flags(Phase::Drop), [new, uri(&format!("{NEW}/openid/v1/jwks"))]);
}

#[test]
fn audiences_that_are_given_stand_beside_every_issuer() {
    let request =
        Request { audiences: vec![OLD.to_owned(), "vault".to_owned()], ..sample(Some(Phase::Drop)) };
    let flags = State::of(&request).unwrap().flags();
    assert_eq!(flags.last(), Some(&Flag::new("api-audiences", format!("{NEW},{OLD},vault"))));
}

#[test]
fn every_answer_says_what_to_do_how_to_see_it_and_what_to_check() {
    all(|distribution, request, rendered| {
        let readme = readme::readme(request, &rendered);
        assert!(!rendered.files.is_empty() && !rendered.steps.is_empty(), "{distribution}");
        assert!(rendered.checks.len() >= 2 && !rendered.proof.is_empty(), "{distribution}");
        for flag in &rendered.flags {
            assert!(readme.contains(&format!("\n{}\n", flag.argument())), "{distribution}: {readme}");
        }
        for id in &rendered.verifying_keys {
            assert!(readme.contains(id.as_str()), "{distribution}: {readme}");
        }
        for file in &rendered.files {
            // Of a wait nothing is put anywhere; kind mounts the folder.
            let is_named = readme.contains(file.path.rsplit('/').next().unwrap());
            let may_be_silent = rendered.phase == Some(Phase::Wait) || distribution.as_str() == "kind";
            assert!(is_named || may_be_silent, "{distribution} {}: {readme}", file.path);
        }
    });
}

#[test]
fn versions_are_read_as_their_makers_write_them() {
    let read = |text: &str| text.parse::<Version>();
    for (text, version) in [
        ("1.36", Version::new(1, 36)),
        ("v1.36.1+k3s1", Version::with_patch(1, 36, 1)),
        ("26.5.1-edge", Version::with_patch(26, 5, 1)),
        ("edge-26.5.1", Version::with_patch(26, 5, 1)),
        ("1.33.0-rc.1", Version::new(1, 33)),
    ] {
        assert_eq!(read(text), Ok(version), "{text}");
    }
    for text in ["", "1", "latest", "1.x", "1.2.3.4", "1.2foo", "1.99999999999"] {
        assert!(read(text).unwrap_err().to_string().contains("expected two or three numbers"), "{text}");
    }
    assert!(
        Version::with_patch(1, 28, 5) > Version::new(1, 28)
            && Version::new(1, 29) > Version::with_patch(1, 28, 5)
    );
}

#[test]
fn the_page_has_the_table_of_the_code() {
    let page = include_str!("../../docs/bootstrap.md");
    let matrix = matrix::matrix();
    assert!(page.contains(&matrix), "docs/bootstrap.md lacks this, which the code says:\n{matrix}");
}
