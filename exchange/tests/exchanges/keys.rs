//! Two inputs that differ have two keys in the cache, and the same input has one.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use chancery_exchange::key::CacheKey;
use chancery_exchange::provider::aws::SessionLimits;
use chancery_exchange::registry::Registry;
use chancery_exchange::service_account::{ServiceAccount, ServiceAccountName, ServiceAccounts, TokenRequest};
use chancery_exchange::subject::ServiceAccountSource;
use chancery_exchange::transport::{Transport, TransportOptions};
use chancery_exchange::{ExchangeError, Provider, UnverifiedToken};
use proptest::prelude::*;

use crate::aws::chain;
use crate::fake::issuer::Given;

static TRANSPORT: LazyLock<Transport> =
    LazyLock::new(|| Transport::new(TransportOptions::default()).unwrap());

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inputs {
    account: &'static str,
    uid: String,
    role: &'static str,
    policy: Option<String>,
    policy_arns: Vec<String>,
    seconds: Option<u32>,
    audiences: Vec<String>,
    issuer: Option<String>,
    registry: Option<&'static str>,
}

/// Nobody is asked for a key.
struct Nobody;

#[async_trait]
impl ServiceAccounts for Nobody {
    fn cluster(&self) -> &str {
        "https://cluster.example"
    }

    async fn read(&self, _: &ServiceAccountName) -> Result<ServiceAccount, ExchangeError> {
        panic!("a key was asked for")
    }

    async fn token(&self, _: &TokenRequest) -> Result<UnverifiedToken, ExchangeError> {
        panic!("a key was asked for")
    }
}

fn key(inputs: &Inputs) -> CacheKey {
    let mut chain = chain("https://sts.example/", Given::new([String::new()]));
    let name = inputs.account.parse().unwrap();
    let account = ServiceAccount { name, uid: inputs.uid.clone(), annotations: BTreeMap::new() };
    chain.source =
        Arc::new(ServiceAccountSource { cluster: Arc::new(Nobody), account, seconds: 600, bound: None });
    let Provider::Aws(aws) = &mut chain.provider else { panic!() };
    aws.role = inputs.role.parse().ok();
    aws.session = SessionLimits {
        duration_seconds: inputs.seconds,
        policy: inputs.policy.clone(),
        policy_arns: inputs.policy_arns.clone(),
    };
    chain.expectation.audiences.clone_from(&inputs.audiences);
    chain.expectation.issuer.clone_from(&inputs.issuer);
    chain.registry = inputs.registry.map(|host| Registry::new(host.parse().unwrap()).unwrap());
    chain.key(&TRANSPORT)
}

/// Few texts, among them those that separators would confuse, so that equal inputs come as well.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(",".to_owned()),
        Just("a".to_owned()),
        Just("a,a".to_owned()),
        Just("a\na".to_owned())
    ]
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let accounts = prop_oneof![Just("team-a/app"), Just("team-b/app"), Just("team-a/a")];
    let roles =
        prop_oneof![Just("arn:aws:iam::123456789012:role/a"), Just("arn:aws:iam::123456789012:role/b")];
    let registries =
        proptest::option::of(prop_oneof![Just("gcr.io"), Just("eu.gcr.io"), Just("public.ecr.aws")]);
    let list = || proptest::collection::vec(text(), 0..3);
    let seconds = proptest::option::of(900_u32..902);
    let option = || proptest::option::of(text());
    (accounts, text(), roles, (option(), list(), seconds), list(), option(), registries).prop_map(
        |(account, uid, role, (policy, policy_arns, seconds), audiences, issuer, registry)| Inputs {
            account,
            uid,
            role,
            policy,
            policy_arns,
            seconds,
            audiences,
            issuer,
            registry,
        },
    )
}

/// Changes one thing, or nothing.
fn neighbour(inputs: &Inputs, other: &Inputs, which: usize) -> Inputs {
    let mut changed = inputs.clone();
    match which {
        0 => changed.account = other.account,
        1 => changed.uid.clone_from(&other.uid),
        2 => changed.role = other.role,
        3 => changed.policy.clone_from(&other.policy),
        4 => changed.policy_arns.clone_from(&other.policy_arns),
        5 => changed.seconds = other.seconds,
        6 => changed.audiences.clone_from(&other.audiences),
        7 => changed.issuer.clone_from(&other.issuer),
        8 => changed.registry = other.registry,
        _ => {}
    }
    changed
}

proptest! {
    #[test]
    fn c_07_distinct_inputs_give_distinct_keys(one in inputs(), other in inputs(), which in 0_usize..10) {
        let near = neighbour(&one, &other, which);
        prop_assert_eq!(one == near, key(&one) == key(&near), "{:?}\n{:?}", one, near);
        prop_assert_eq!(one == other, key(&one) == key(&other));
    }
}

/// fluxcd/pkg 3758de38: what one caller added to a shared list of options stood in another's.
#[test]
fn r0_23_what_one_call_adds_is_in_no_other() {
    let base = chain("https://sts.example/", Given::new([String::new()]));
    let before = base.key(&TRANSPORT);
    let with = |host: &str, audience: &str| {
        let mut call = base.clone();
        call.registry = Registry::new(host.parse().unwrap()).ok();
        call.expectation.audiences.push(audience.to_owned());
        let Provider::Aws(aws) = &mut call.provider else { panic!() };
        aws.session.policy_arns.push(audience.to_owned());
        call
    };
    let one = with("public.ecr.aws", "one");
    let other = with("123456789012.dkr.ecr.eu-central-1.amazonaws.com", "other");
    for (call, audience) in [(&one, "one"), (&other, "other")] {
        let Provider::Aws(aws) = &call.provider else { panic!() };
        assert_eq!(aws.session.policy_arns, [audience]);
        assert_eq!(call.expectation.audiences, ["sts.amazonaws.com", audience]);
    }
    assert_eq!(base.key(&TRANSPORT), before);
    assert!(one.key(&TRANSPORT) != other.key(&TRANSPORT) && one.key(&TRANSPORT) != before);
}
