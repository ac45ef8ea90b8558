//! The waits that follow from the rows.

use super::*;
use crate::profile::RelyingParty::{
    Aws, AxumJwks, Common, Dotnet, GetJwks, GoOidc, Istio, Jose, Jose4j, Jwx, Kubernetes, Minio,
    OpenidconnectRs, Pyjwt, Vault, Zot,
};

fn seconds(parties: &[RelyingParty]) -> u64 {
    pre_publication_wait(parties).time.as_secs()
}

#[test]
fn nobody_declared_waits_for_the_slowest_that_was_measured_and_a_margin() {
    for parties in [&[][..], &RelyingParty::USUAL, &[Aws], &[Common, Pyjwt]] {
        assert_eq!(seconds(parties), 960, "{parties:?}");
    }
    assert!(pre_publication_wait(&[]).because.contains("no relying party is declared"));
}

#[test]
fn parties_that_are_known_to_read_sooner_shorten_the_wait_and_one_that_does_not_lengthens_it() {
    for (parties, expected) in [
        (&[GoOidc, Vault][..], 60),
        (&[GoOidc, Pyjwt], 90),
        (&[Pyjwt, Jwx], 960),
        (&[Dotnet], 360),
        (&[Istio, Aws], 1260),
        // What bounds these is the max-age that was served, which the visibility record knows.
        (&[Kubernetes, Jose4j], 61),
    ] {
        assert_eq!(seconds(parties), expected, "{parties:?}");
    }
    let wait = pre_publication_wait(&[Pyjwt, Istio, Aws]);
    assert_eq!(
        wait.because,
        "Istio reads the keys every 1200 s and not sooner for a key that it does not know"
    );
}

#[test]
fn whoever_reads_once_is_to_be_restarted_before_a_new_key_signs() {
    let wait = pre_publication_wait(&[OpenidconnectRs, Pyjwt, AxumJwks]);
    assert_eq!(wait.restart, [AxumJwks, OpenidconnectRs]);
    assert_eq!(wait.time.as_secs(), 90, "no wait helps them, so none is added");
    assert_eq!(
        pre_publication_wait(&RelyingParty::USUAL).restart,
        [],
        "MinIO reads again for every token that fails"
    );
}

#[test]
fn a_withdrawal_says_who_accepts_the_key_for_how_long_and_whom_to_restart() {
    let accepting = after_withdrawal(&[Jose, Zot, GoOidc, GetJwks, Minio, Aws, Jose4j]);
    let order: Vec<_> = accepting.iter().map(|one| one.party).collect();
    assert_eq!(order, [Minio, GetJwks, GoOidc, Aws, Jose, Zot, Jose4j]);
    let sentences: Vec<String> = accepting.iter().map(ToString::to_string).collect();
    assert_eq!(
        sentences[0],
        "MinIO STS accepts it until it is restarted; to end that at once, restart every MinIO server"
    );
    assert!(sentences[2].contains("a token of a key that it does not know"), "{sentences:?}");
    assert_eq!(sentences[3], "how long AWS IAM and STS accepts it is not documented");
    assert!(sentences[4].starts_with("jose (npm) accepts it for up to 600 s; "), "{sentences:?}");
}

#[test]
fn every_party_that_runs_somewhere_says_what_to_restart() {
    for party in RelyingParty::ALL {
        let cloud = party.profile().cache.lifetime == Lifetime::Undocumented;
        assert_eq!(party.profile().cache.restart.is_empty(), cloud, "{party}");
    }
}
