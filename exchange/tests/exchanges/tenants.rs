//! Many tenants in one process, against a cluster and an STS that write down in which order they are asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chancery_exchange::cache::{Cache, CacheOptions, Purge};
use chancery_exchange::metrics::{Metrics, Object};
use chancery_exchange::provider::aws::AUDIENCE;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::service_account::{
    ServiceAccount, ServiceAccountName, ServiceAccounts, TokenRequest, refused,
};
use chancery_exchange::tenancy::annotations::ROLE_ARN;
use chancery_exchange::tenancy::{Cloud, Operation, Tenancy, Tenants};
use chancery_exchange::{CredentialKind, ExchangeError, UnverifiedToken};
use serde_json::json;

use crate::aws::{HOST, chain, ecr_answer, runner};
use crate::fake::clouds::{ROLE, sts};
use crate::fake::issuer::{Given, claims, token};
use crate::fake::{Fake, Reply};

type Trace = Arc<Mutex<Vec<String>>>;

/// A cluster whose ServiceAccounts a test changes.
pub struct Cluster {
    accounts: Mutex<BTreeMap<String, ServiceAccount>>,
    trace: Trace,
}

impl Cluster {
    pub fn of<const N: usize>(accounts: [(String, ServiceAccount); N]) -> Self {
        Self { accounts: Mutex::new(BTreeMap::from(accounts)), trace: Trace::default() }
    }

    /// What it was asked since it was last looked.
    pub fn trace(&self) -> Vec<String> {
        std::mem::take(&mut *self.trace.lock().unwrap())
    }

    /// Every ServiceAccount is deleted.
    pub fn forget(&self) {
        self.accounts.lock().unwrap().clear();
    }
}

#[async_trait]
impl ServiceAccounts for Cluster {
    fn cluster(&self) -> &str {
        "https://cluster.example"
    }

    async fn read(&self, name: &ServiceAccountName) -> Result<ServiceAccount, ExchangeError> {
        self.trace.lock().unwrap().push(format!("get {name}"));
        let found = self.accounts.lock().unwrap().get(&name.to_string()).cloned();
        found.ok_or_else(|| refused(404, "not found", name))
    }

    async fn token(&self, request: &TokenRequest) -> Result<UnverifiedToken, ExchangeError> {
        let body = request.body()?;
        let audiences = body["spec"]["audiences"].clone();
        self.trace.lock().unwrap().push(format!("token {} {audiences} {}", request.account, request.seconds));
        let mut claims = claims(audiences[0].as_str().unwrap());
        claims["sub"] = json!(request.account.subject());
        let token = token(&claims);
        UnverifiedToken::parse(&token).map_err(|error| error.at("the cluster"))
    }
}

struct World {
    sts: Fake,
    cluster: Arc<Cluster>,
    trace: Trace,
    tenants: Tenants,
}

fn account(name: &str, uid: &str, role: &str) -> (String, ServiceAccount) {
    let (name, account) = annotated(name, &[(ROLE_ARN, role)]);
    (name, ServiceAccount { uid: uid.to_owned(), ..account })
}

pub fn annotated(name: &str, annotations: &[(&str, &str)]) -> (String, ServiceAccount) {
    let annotations =
        annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    (
        name.to_owned(),
        ServiceAccount { name: name.parse().unwrap(), uid: format!("uid of {name}"), annotations },
    )
}

/// A world with one ServiceAccount, whose STS gives keys to whoever comes with a good token.
async fn world() -> World {
    let trace = Trace::default();
    let traced = trace.clone();
    let sts = Fake::start(move |call| {
        traced.lock().unwrap().push("sts".to_owned());
        sts(call)
    })
    .await;
    let accounts = Mutex::new(BTreeMap::from([account("team-a/app", "u-1", ROLE)]));
    let cluster = Arc::new(Cluster { accounts, trace: trace.clone() });
    let cache = Cache::new(CacheOptions::default());
    let tenants = Tenants {
        tenancy: Tenancy { gate: true, default_service_account: None },
        cloud: Cloud::Aws {
            region: Some("eu-central-1".parse().unwrap()),
            endpoint: Some(operator_sts(&sts.url).unwrap()),
        },
        cluster: cluster.clone(),
        token_seconds: 600,
        registry_endpoint: None,
        own: Some(Arc::new(chain(&sts.url, Given::new([token(&claims(AUDIENCE))])))),
        runner: runner(),
        metrics: Arc::new(Metrics::new(&cache)),
        cache,
    };
    World { sts, cluster, trace, tenants }
}

pub fn operation(service_account: Option<&str>) -> Operation {
    Operation {
        scopes: Vec::new(),
        namespace: "team-a".to_owned(),
        service_account: service_account.map(str::to_owned),
        registry: None,
        object: None,
    }
}

impl World {
    fn trace(&self) -> Vec<String> {
        std::mem::take(&mut *self.trace.lock().unwrap())
    }

    async fn get(&self, service_account: Option<&str>) -> Result<(), ExchangeError> {
        self.tenants.credential(&operation(service_account)).await.map(|_| ())
    }

    fn change(&self, account: (String, ServiceAccount)) {
        self.cluster.accounts.lock().unwrap().insert(account.0, account.1);
    }
}

const ASKED: &str = r#"token team-a/app ["sts.amazonaws.com"] 600"#;

#[tokio::test]
async fn r0_03_r0_04_r0_06_r0_25_the_steps_come_in_their_order_and_a_hit_skips_those_after_the_look() {
    let world = world().await;
    world.get(Some("app")).await.unwrap();
    assert_eq!(world.trace(), ["get team-a/app", ASKED, "sts"]);
    world.get(Some("app")).await.unwrap();
    assert_eq!(world.trace(), ["get team-a/app"], "one reading of the ServiceAccount, and nothing else");
}

#[tokio::test]
async fn r0_01_without_a_service_account_the_cluster_is_asked_nothing() {
    let mut world = world().await;
    world.get(None).await.unwrap();
    assert_eq!(world.trace(), ["sts"]);
    world.tenants.tenancy.gate = false;
    world.get(None).await.unwrap();
    assert_eq!(world.trace(), [""; 0], "the gate does not concern it, and the cache holds it");
}

#[tokio::test]
async fn r0_02_a_service_account_that_fails_is_never_replaced_by_the_process_itself() {
    let world = world().await;
    world.get(Some("missing")).await.unwrap_err();
    assert_eq!(world.trace(), ["get team-a/missing"]);
    world.change(account("team-a/bare", "u-2", ""));
    let error = world.get(Some("bare")).await.unwrap_err();
    assert_eq!((error.code(), world.trace()), ("annotation-missing", vec!["get team-a/bare".to_owned()]));
    world.change(account("team-a/other", "u-3", ROLE));
    let error = world.get(Some("other")).await.unwrap_err();
    assert_eq!(error.code(), "aws-access-denied", "its own token was refused, and nobody else's was sent");
    assert_eq!(world.trace().last().unwrap(), "sts");
    assert_eq!(world.sts.count(), 1);
}

#[tokio::test]
async fn r0_09_with_the_gate_off_nothing_is_asked_of_anybody() {
    let mut world = world().await;
    world.tenants.tenancy.gate = false;
    assert_eq!(world.get(Some("app")).await.unwrap_err().code(), "tenancy-gate-off");
    assert_eq!(world.trace(), [""; 0]);
}

#[tokio::test]
async fn r0_11_with_the_lockdown_a_missing_default_is_the_administrators_and_never_the_process_itself() {
    let mut world = world().await;
    world.tenants.tenancy.default_service_account = Some("tenant".to_owned());
    let error = world.get(None).await.unwrap_err();
    assert_eq!(error.code(), "default-service-account-missing");
    assert!(error.to_string().contains("contact the administrator"), "{error}");
    assert_eq!(world.trace(), ["get team-a/tenant"]);
    let error = world.get(Some("missing")).await.unwrap_err();
    assert_eq!(error.code(), "service-account-missing");
    world.change(account("team-a/tenant", "u-2", ROLE));
    assert_eq!(world.get(None).await.unwrap_err().code(), "aws-access-denied", "the default acts as itself");
}

#[tokio::test]
async fn r0_05_s0_02_what_changes_at_the_service_account_counts_at_the_next_call() {
    let world = world().await;
    world.get(Some("app")).await.unwrap();
    world.trace();
    world.change(account("team-a/app", "u-1", "arn:aws:iam::123456789012:role/other"));
    assert_eq!(
        world.get(Some("app")).await.unwrap_err().code(),
        "aws-access-denied",
        "another role, another exchange"
    );
    world.change(account("team-a/app", "u-9", ROLE));
    world.trace();
    world.get(Some("app")).await.unwrap();
    assert_eq!(
        world.trace(),
        ["get team-a/app", ASKED, "sts"],
        "a ServiceAccount that was made anew is another"
    );
    world.cluster.accounts.lock().unwrap().clear();
    assert_eq!(
        world.get(Some("app")).await.unwrap_err().code(),
        "service-account-missing",
        "although it is cached"
    );
}

#[tokio::test]
async fn c_17_s0_02_a_purge_counts_at_the_next_call() {
    let world = world().await;
    world.get(Some("app")).await.unwrap();
    assert_eq!(world.tenants.cache.purge(&Purge::ServiceAccount("team-a/app".parse().unwrap())), 1);
    world.trace();
    world.get(Some("app")).await.unwrap();
    assert_eq!(world.trace().len(), 3);
}

#[tokio::test]
async fn r0_07_f21_the_final_login_is_what_is_kept_and_looked_for_before_every_leg() {
    let mut world = world().await;
    let traced = world.trace.clone();
    let ecr = Fake::start(move |_| {
        traced.lock().unwrap().push("ecr".to_owned());
        ecr_answer(&format!("https://{HOST}"))
    })
    .await;
    world.tenants.registry_endpoint = operator_sts(&ecr.url).ok();
    let mut pull = operation(Some("app"));
    pull.registry = Some(HOST.parse().unwrap());
    let login = world.tenants.credential(&pull).await.unwrap();
    assert!(matches!(login.kind, CredentialKind::Registry(_)));
    assert_eq!(world.trace(), ["get team-a/app", ASKED, "sts", "ecr"]);
    world.sts.script(vec![Reply::new(500, ""); 100]);
    world.tenants.credential(&pull).await.unwrap();
    assert_eq!(world.trace(), ["get team-a/app"], "also while STS is down");
    world.sts.script([]);
    assert_eq!(world.tenants.cache.len(), 1);
}

#[tokio::test]
async fn c_01_c_02_c_04_c_05_c_08_r0_20_r0_22_everything_that_matters_is_in_the_key() {
    let world = world().await;
    let transport = world.tenants.runner.transport();
    let base = chain(&world.sts.url, Given::new([String::new()]));
    let mut variants = vec![base.clone()];
    let mut vary = |change: &dyn Fn(&mut chancery_exchange::Chain)| {
        let mut chain = base.clone();
        change(&mut chain);
        variants.push(chain);
    };
    fn aws(chain: &mut chancery_exchange::Chain) -> &mut chancery_exchange::provider::AwsProvider {
        let chancery_exchange::Provider::Aws(aws) = &mut chain.provider else { panic!() };
        aws
    }
    vary(&|chain| aws(chain).role = ROLE.replace("app", "other").parse().ok());
    vary(&|chain| aws(chain).region = "eu-west-1".parse().unwrap());
    vary(&|chain| aws(chain).endpoint = operator_sts("https://sts.example/").unwrap());
    vary(&|chain| aws(chain).session.duration_seconds = Some(900));
    vary(&|chain| aws(chain).session.policy = Some("{}".to_owned()));
    vary(&|chain| aws(chain).session.policy_arns = vec!["arn".to_owned()]);
    vary(&|chain| chain.expectation.audiences = vec!["other".to_owned()]);
    vary(&|chain| {
        chain.registry = chancery_exchange::registry::Registry::new("gcr.io".parse().unwrap()).ok();
    });
    vary(&|chain| {
        chain.registry = chancery_exchange::registry::Registry::new("eu.gcr.io".parse().unwrap()).ok();
    });
    for (name, uid) in
        [("team-a/app", "u-1"), ("team-a/app", "u-2"), ("team-a/b", "u-1"), ("team-b/app", "u-1")]
    {
        vary(&|chain| {
            chain.source = Arc::new(chancery_exchange::subject::ServiceAccountSource {
                cluster: world.cluster.clone(),
                account: account(name, uid, ROLE).1,
                seconds: 600,
                bound: None,
            });
        });
    }
    let mut keys: Vec<_> = variants.iter().map(|chain| chain.key(transport)).collect();
    let options = [chancery_exchange::transport::TransportOptions {
        proxy: Some("http://proxy:3128".to_owned()),
        authorities: None,
    }];
    for options in options {
        keys.push(base.key(&chancery_exchange::transport::Transport::new(options).unwrap()));
    }
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert_eq!(base.key(transport), base.clone().key(transport));
}

#[tokio::test]
async fn c_15_each_object_has_its_own_counts_until_it_is_gone() {
    let world = world().await;
    let object = |name: &str| {
        let text = str::to_owned;
        Object { kind: text("Bucket"), namespace: text("team-a"), name: text(name), operation: text("read") }
    };
    let asked =
        |name: &str, account: &str| Operation { object: Some(object(name)), ..operation(Some(account)) };
    for _ in 0..3 {
        world.tenants.credential(&asked("one", "app")).await.unwrap();
    }
    world.tenants.credential(&asked("two", "app")).await.unwrap();
    world.tenants.credential(&asked("two", "nobody")).await.unwrap_err();
    let metrics = &world.tenants.metrics;
    let page = metrics.render().unwrap();
    let line = |name: &str, object: &str, more: &str, value: u32| {
        format!(
            "{name}{{kind=\"Bucket\",namespace=\"team-a\",name=\"{object}\",operation=\"read\"{more}}} {value}\n"
        )
    };
    let failed = ",class=\"permanent\",code=\"service-account-missing\"";
    for expected in [
        line("chancery_exchange_cache_hits_total", "one", "", 2),
        line("chancery_exchange_cache_misses_total", "one", "", 1),
        line("chancery_exchange_cache_hits_total", "two", "", 1),
        line("chancery_exchange_failures_total", "two", failed, 1),
        "chancery_exchange_exchanges_total 1\n".to_owned(),
        "chancery_exchange_cache_entries 1\n".to_owned(),
    ] {
        assert!(page.contains(&expected), "{expected} is missing in\n{page}");
    }
    for secret in ["ASIAEXAMPLE", "SESSION", ROLE, "system:serviceaccount"] {
        assert!(!page.contains(secret), "{secret} is in\n{page}");
    }
    metrics.forget("Bucket", "team-a", "two");
    assert!(!metrics.render().unwrap().contains("\"two\""));
}

#[cfg(feature = "aws-sdk")]
#[tokio::test]
async fn r0_19_r0_24_an_sdk_is_given_the_same_keys_and_never_keeps_what_is_gone() {
    use aws_credential_types::provider::ProvideCredentials as _;
    use chancery_exchange::bridge::AwsBridge;

    let world = world().await;
    let (cluster, sts, tenants) = (world.cluster, world.sts, Arc::new(world.tenants));
    let bridge = AwsBridge::of_tenant(tenants.clone(), operation(Some("app")));
    let keys = bridge.provide_credentials().await.unwrap();
    let given = tenants.credential(&operation(Some("app"))).await.unwrap();
    let CredentialKind::Aws(own) = &given.kind else { panic!() };
    assert_eq!(
        (keys.access_key_id(), keys.secret_access_key(), keys.session_token()),
        (own.access_key_id.as_str(), own.secret_access_key.expose(), Some("SESSION"))
    );
    assert_eq!(keys.expiry(), Some(given.expires_at.into()));
    assert_eq!(sts.count(), 1, "one exchange for both");
    assert_eq!(tenants.cache.purge(&Purge::All), 1);
    bridge.provide_credentials().await.unwrap();
    assert_eq!(sts.count(), 2, "a purge counts at the next call");
    cluster.accounts.lock().unwrap().clear();
    let error = bridge.provide_credentials().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("[service-account-missing]"), "{cause}");
    assert!(!format!("{bridge:?} {error:?}").contains("SECRET&KEY"));

    let other = crate::google::chain("http://127.0.0.1:9", crate::google::good(), None);
    let mut direct = other.clone();
    let audience = crate::google::audience();
    direct.provider = {
        let direct = chancery_exchange::provider::Direct { audience, is_api_server: false };
        chancery_exchange::Provider::Direct(direct)
    };
    let bridge = AwsBridge::new(Arc::new(direct), runner(), Cache::new(CacheOptions::default()));
    assert!(bridge.provide_credentials().await.is_err(), "a token is no keys");
}
