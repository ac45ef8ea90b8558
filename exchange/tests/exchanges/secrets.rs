//! No token is in an error, in what Debug prints, or in a log, whatever a server repeats.

use std::io::Write;
use std::sync::{Arc, Mutex};

use chancery_exchange::provider::aws::AUDIENCE;
use chancery_exchange::provider::token_exchange::{TokenExchange, operator_endpoint};
use chancery_exchange::{Provider, UnverifiedToken};
use serde_json::json;

use crate::aws::{chain, runner};
use crate::fake::clouds::sts_error;
use crate::fake::issuer::{Given, claims, token};
use crate::fake::{Fake, Reply};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The parts of a token by which it would be known: none of them may be anywhere.
fn parts(token: &str) -> Vec<String> {
    token.split('.').skip(1).map(|part| part[..part.len().min(24)].to_owned()).collect()
}

#[tokio::test]
async fn s0_06_a_canary_is_in_no_error_no_debug_and_no_log() {
    // While there is one subscriber alone, a place that logs asks that of the thread that comes there first: another test's,
    // which has none, and the place stays silent for everybody.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let log = Log::default();
    let writer = log.clone();
    let logs = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let guard = tracing_subscriber::util::SubscriberInitExt::set_default(
        logs.with_writer(move || writer.clone()).finish(),
    );
    let canary = token(&claims(AUDIENCE));
    let echo = |call: &crate::fake::Call| String::from_utf8_lossy(&call.body).into_owned();
    let mut seen = format!("{:?}", UnverifiedToken::parse(&canary).unwrap());
    let replies: [fn(String) -> Reply; 6] = [
        |echo| sts_error(400, "AccessDenied", &echo),
        |echo| sts_error(400, &echo, &echo),
        |echo| Reply::new(503, echo),
        |echo| Reply::new(200, echo),
        |echo| Reply::json(400, &json!({ "error": echo, "error_description": echo })),
        |echo| {
            Reply::json(400, &json!({ "error": "invalid_grant", "error_description": format!("x{echo}y") }))
        },
    ];
    for reply in replies {
        let fake = Fake::start(move |call| reply(echo(call))).await;
        let aws = chain(&fake.url, Given::new([canary.clone()]));
        let server = TokenExchange::new(operator_endpoint(&fake.url).unwrap(), AUDIENCE.to_owned());
        let mut other = aws.clone();
        other.provider = Provider::TokenExchange(Box::new(server));
        for chain in [aws, other] {
            let error = runner().run(&chain).await.unwrap_err();
            let json = serde_json::to_string(error.failure()).unwrap();
            seen.push_str(&format!("{error}\n{error:?}\n{error:#?}\n{json}\n{:?}\n", chain.provider));
        }
    }
    drop(guard);
    seen.push_str(&String::from_utf8_lossy(&log.0.lock().unwrap()));
    assert!(seen.contains("asked for patience"), "the log was looked at");
    for part in parts(&canary) {
        assert!(!seen.contains(&part), "{part} is in\n{seen}");
    }
}
