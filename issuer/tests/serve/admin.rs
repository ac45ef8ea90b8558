//! The operators' port.

use std::sync::Arc;

use chancery_issuer::admin::{Admin, AdminConfig};
use chancery_issuer::metrics::Metrics;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::served::{ISSUER, PATIENCE, ask, documents_of, no_documents};

#[tokio::test]
async fn operators_read_life_readiness_and_metrics() {
    let documents = no_documents(&[ISSUER]);
    let config = AdminConfig { listen: "127.0.0.1:0".parse().unwrap() };
    let admin = Admin::bind(&config, documents.clone(), Arc::new(Metrics::new("1.2.3"))).await.unwrap();
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

    documents.replace(&[documents_of(ISSUER)]).unwrap();
    assert_eq!((get("/readyz").await.status, get("/readyz").await.body.as_str()), (200, "ready\n"));
    assert!(get("/readyz?verbose").await.body.contains(ISSUER));

    let metrics = get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(metrics.body.contains(r#"chancery_build_info{version="1.2.3"} 1"#), "{}", metrics.body);
    assert_eq!(get("/openid/v1/jwks").await.status, 404, "the documents are elsewhere");

    stop.send(true).unwrap();
    timeout(PATIENCE, running).await.expect("it to end").unwrap();
}
