//! What cannot be done is refused, with the remedy.

use super::*;

#[track_caller]
fn refused(name: &str, request: &Request) -> String {
    match distribution(name).render(request) {
        Ok(rendered) => panic!("{name} took it: {rendered:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn versions_that_take_one_issuer_refuse_every_phase_and_take_a_new_cluster() {
    for (name, old, new, remedy) in [
        ("talos", "1.12.9", Some("1.13"), "upgrade to Talos 1.13"),
        ("k3s", "v1.23.1+k3s1", Some("v1.24.0+k3s1"), "upgrade to 1.24"),
        ("rke2", "1.23.1", Some("1.24"), "upgrade to 1.24"),
        ("kops", "1.28.4", Some("1.28.5"), "upgrade to kOps 1.28.5"),
        ("k0s", "1.34.1", Some("1.35.0"), "upgrade to k0s 1.35"),
        ("kamaji", "25.12.1-edge", Some("26.5.1-edge"), "upgrade to Kamaji 26.5"),
        ("typhoon", "1.36.0", None, "make a new cluster"),
        ("eks-anywhere", "0.25", None, "make a new cluster"),
    ] {
        distribution(name).render(&at(old, None)).unwrap();
        for phase in Phase::ALL {
            let error = refused(name, &at(old, Some(phase)));
            assert!(error.contains(remedy) && error.contains("cannot accept a second issuer"), "{error}");
            if let Some(new) = new {
                distribution(name).render(&at(new, Some(phase))).unwrap();
            }
        }
    }
}

#[test]
fn a_version_before_the_first_form_is_too_old() {
    for distribution in Distribution::all() {
        let error = refused(distribution.as_str(), &at("0.1", None));
        assert!(error.contains("0.1 is too old") && error.contains("upgrade first"), "{error}");
    }
}

#[test]
fn openshift_has_no_phase_of_acceptance_and_makes_its_keys_itself() {
    let error = refused("openshift", &sample(Some(Phase::Accept)));
    assert!(error.contains("`--phase switch`") && error.contains("single step"), "{error}");
    distribution("openshift").render(&sample(Some(Phase::Switch))).unwrap();
    let error = refused("openshift", &with_keys(sample(Some(Phase::Switch)), (RSA, OTHER_RSA)));
    assert!(error.contains("next-bound-service-account-signing-key"), "{error}");
}

#[test]
fn keys_that_cannot_be_changed_are_refused_and_the_issuer_alone_is_not() {
    for (name, version, words) in [
        ("kind", "0.32", "make a new cluster, or change the issuer alone"),
        ("talos", "1.13", "upgrade to Talos 1.14"),
        ("kamaji", "26.5", "change the issuer alone"),
    ] {
        for phase in Phase::ALL {
            let request = at(version, Some(phase));
            distribution(name).render(&request).unwrap();
            distribution(name).render(&with_keys(request.clone(), (RSA, RSA))).unwrap();
            let error = refused(name, &with_keys(request, (RSA, OTHER_RSA)));
            assert!(error.contains(words) && error.contains("signing key"), "{error}");
        }
    }
}

#[test]
fn elliptic_curves_are_refused_where_rsa_alone_is_taken() {
    for name in ["k3s", "rke2", "openshift"] {
        let error = refused(name, &with_keys(sample(None), (P256, P256)));
        assert!(
            error.contains("RSA keys alone") && error.contains("keygen new --algorithm rsa-2048"),
            "{error}"
        );
    }
    distribution("kubeadm").render(&with_keys(sample(None), (P256, RSA))).unwrap();
}

#[test]
fn what_cannot_stand_in_flags_is_refused() {
    let from = |from: &[&str]| {
        let from = from.iter().map(|text| (*text).to_owned()).collect();
        let stage = Stage::Change { from, from_jwks_uri: None, phase: Phase::Accept };
        refused("kubeadm", &Request { stage, ..sample(None) })
    };
    assert!(from(&[]).contains("--from"));
    assert!(from(&[NEW]).contains("given twice"));
    assert!(from(&[OLD, OLD]).contains("given twice"));
    for text in
        ["", "a b", "a,b", "a\n--insecure", "\"", "a'b", "a\\b", "$HOME", "`id`", "a|b", "a&b", "über"]
    {
        assert!(from(&[text]).contains("cannot be written into a flag"), "{text:?}");
    }
    let mut request = sample(None);
    request.place.key_directory = "/etc/my keys".to_owned();
    assert!(refused("systemd", &request).contains("cannot be written into a flag"));
    // What is no URL is fine for kube-apiserver, and not for the document of Talos.
    let stage = Stage::Change { from: vec!["api".to_owned()], from_jwks_uri: None, phase: Phase::Accept };
    let request = Request { stage, ..sample(None) };
    distribution("kubeadm").render(&request).unwrap();
    assert!(refused("talos", &request).contains("takes URLs alone"));
}

#[test]
fn names_that_nobody_has_are_refused_with_those_that_are_known() {
    let error = "rancher".parse::<Distribution>().unwrap_err().to_string();
    assert!(error.contains("kubeadm, kind, cluster-api, k3s, rke2, talos"), "{error}");
    assert!("publish".parse::<Phase>().unwrap_err().to_string().contains("accept, switch, wait or drop"));
}
