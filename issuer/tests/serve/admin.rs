//! The operators' port.

use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::listener::Connections;
use chancery_core::Withdrawals;
use chancery_core::visibility::Visibility;
use chancery_issuer::admin::{Admin, AdminConfig, Observations};
use chancery_issuer::conditions::{ConditionStore, ConditionType, Subject, Verdict};
use chancery_issuer::index::Publication;
use chancery_issuer::known_keys::KnownKeys;
use chancery_issuer::metrics::Metrics;
use chancery_issuer::roster::{Declared, OpenIssuer, Roster};
use chancery_issuer::visibility::VisibilitySnapshot;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::served::{ISSUER, PATIENCE, ask, documents_of};

#[tokio::test]
async fn operators_read_life_readiness_and_metrics() {
    let config = AdminConfig { listen: "127.0.0.1:0".parse().unwrap() };
    let metrics = Arc::new(Metrics::new("1.2.3"));
    let record = Visibility::new(["issuer URL"], Duration::from_secs(60)).record();
    let snapshot = VisibilitySnapshot::observed(record, Instant::now(), Duration::from_secs(960));
    let shown = watch::Sender::new(snapshot);
    let conditions = Arc::new(ConditionStore::default());
    let (issuers, issuer) = (Roster::default(), ISSUER.parse().unwrap());
    issuers.join(&issuer, Declared::default());
    let (publish, publications) = watch::channel(None);
    issuers.opened(
        &issuer,
        OpenIssuer { publications, visibility: shown.subscribe(), known: KnownKeys::default() },
    );
    let observations = Observations { issuers, conditions: conditions.clone() };
    let admin = Admin::bind(&config, metrics, observations, &Connections::default()).await.unwrap();
    let address = admin.address();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(admin.run(stopped));
    let get = async |path: &str| {
        ask(TcpStream::connect(address).await.unwrap(), "GET", path, &[("Host", "anything")]).await
    };

    assert_eq!(get("/livez").await.status, 200);
    let unready = get("/readyz").await;
    assert_eq!(unready.status, 503);
    assert!(unready.body.contains(ISSUER), "{}", unready.body);

    let publication =
        Publication { documents: documents_of(ISSUER), withdrawals: Withdrawals::default(), decision: 1 };
    publish.send_replace(Some(Arc::new(publication)));
    assert_eq!((get("/readyz").await.status, get("/readyz").await.body.as_str()), (200, "ready\n"));
    assert!(get("/readyz?verbose").await.body.contains(ISSUER));

    let metrics = get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(metrics.body.contains(r#"chancery_build_info{version="1.2.3"} 1"#), "{}", metrics.body);
    assert_eq!(get("/openid/v1/jwks").await.status, 404, "the documents are elsewhere");

    let seen = get("/visibility?kid=JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU&for=1h").await;
    assert_eq!((seen.status, seen.header("content-type").unwrap()), (200, "application/json"));
    let seen: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(seen["issuers"][0]["issuer"], ISSUER);
    assert_eq!(seen["issuers"][0]["key"]["because"][0], "issuer URL has not been read since the start");
    let refused = get("/visibility?kid=short").await;
    assert!(refused.status == 400 && refused.body.contains("kid"), "{}", refused.body);

    let subject = Subject::target(&ISSUER.parse().unwrap(), "bucket");
    conditions.set(&subject, &Verdict::bad(ConditionType::Published, "Failed", "no answer"));
    let found: serde_json::Value = serde_json::from_str(&get("/conditions").await.body).unwrap();
    assert_eq!(found["conditions"][0]["subject"], "target bucket");
    assert_eq!(found["conditions"][0]["status"], "False");

    stop.send(true).unwrap();
    timeout(PATIENCE, running).await.expect("it to end").unwrap();
}
