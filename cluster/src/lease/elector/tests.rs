//! Elections at an API server that keeps one Lease and leaves some requests unanswered.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, Response};
use kube::client::Body;
use tokio::time::sleep;

use super::*;
use crate::lease::Timing;

#[derive(Debug, Default)]
struct ApiServer {
    lease: Mutex<Option<Lease>>,
    /// How many requests from now on are never answered.
    unanswered: Mutex<usize>,
}

impl ApiServer {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
        let unanswered = {
            let mut left = self.unanswered.lock().unwrap();
            let unanswered = *left > 0;
            *left = left.saturating_sub(1);
            unanswered
        };
        if unanswered {
            std::future::pending::<()>().await;
        }
        let reads = request.method() == Method::GET;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut lease = self.lease.lock().unwrap();
        if !reads {
            *lease = Some(serde_json::from_slice(&body).unwrap());
        }
        let (status, body) = match lease.as_ref() {
            Some(lease) => (200, serde_json::to_vec(lease).unwrap()),
            None => (404, br#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#.to_vec()),
        };
        Ok(Response::builder().status(status).body(Full::from(body)).unwrap())
    }

    fn elector(self: &Arc<Self>, timing: Timing) -> (Elector, watch::Receiver<Term>) {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().answer(request));
        let config = LeaseConfig {
            namespace: "chancery".to_owned(),
            name: "issuer".to_owned(),
            identity: "a".to_owned(),
            timing,
        };
        Elector::new(Client::new(service, "chancery"), config).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_that_hangs_does_not_end_a_term_and_an_api_server_that_hangs_does() {
    let (server, timing) = (Arc::new(ApiServer::default()), Timing::default());
    let (elector, mut term) = server.elector(timing);
    let running = tokio::spawn(elector.run(std::future::pending()));
    term.wait_for(Term::is_leader).await.unwrap();

    // Whichever request of a renewal it is, and however often one hangs.
    for number in 0..6 {
        *server.unanswered.lock().unwrap() = 1;
        for _ in 0..20 {
            sleep(timing.retry_period() / 2).await;
            assert!(term.borrow().is_leader(), "request {number}");
        }
        sleep(Duration::from_millis(number * 300)).await;
    }
    *server.unanswered.lock().unwrap() = usize::MAX;
    sleep(timing.renew_deadline()).await;
    assert!(!term.borrow().is_leader(), "others may lead now");
    *server.unanswered.lock().unwrap() = 0;
    term.wait_for(Term::is_leader).await.unwrap();
    running.abort();
}
