use std::str::FromStr as _;
use std::time::Duration;

use chancery_core::drift::DriftKind;
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, Visibility};
use http::StatusCode;

use super::*;

fn issuer() -> IssuerUrl {
    "https://id.example.com".parse().unwrap()
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key_id(letter: &str) -> KeyId {
    KeyId::from_str(&format!("{}A", letter.repeat(42))).unwrap()
}

fn line(metrics: &Metrics, now: i64, start: &str) -> Option<String> {
    let text = metrics.render(second(now)).unwrap();
    text.lines().find(|line| line.starts_with(start)).map(str::to_owned)
}

#[test]
fn every_metric_is_rendered_under_its_documented_name() {
    let metrics = Metrics::new("1.2.3");
    let target = TargetLabels::new(&issuer(), "bucket");
    let source = SourceLabels::new(&issuer(), "file");
    metrics.leads(true);
    metrics.keys_are(&issuer(), [(&key_id("A"), KeyState::Live, second(10))]);
    metrics.sources().read(&source, second(11));
    metrics.sources().failed(&source);
    metrics.published(&target, PublishResult::Written, second(12));
    metrics.foreign_keys_are(&target, 2);
    let sink = SinkLabels::new(&issuer(), "vault");
    metrics.sinks().uploaded(&sink, PublishResult::Written, second(14));
    metrics.sinks().uploaded(&sink, PublishResult::Blocked, second(15));
    metrics.sinks().foreign_keys_are(&sink, 1);
    metrics.verified(&issuer(), [Severity::Warning], second(13));
    metrics.visibility().drifted(&target, &DriftKind::Vanished);
    metrics.objects().are("collided", 3);
    metrics.requests().answered(StatusCode::OK);
    metrics.certificate_reloaded(CertificateReload::Replaced);
    metrics.certificate_expires("/tls.crt", second(99));
    let text = metrics.render(second(15)).unwrap();
    for expected in [
        r#"chancery_build_info{version="1.2.3"} 1"#,
        "chancery_leader 1",
        r#"chancery_keys{issuer="https://id.example.com",state="live"} 1"#,
        r#"chancery_keys{issuer="https://id.example.com",state="retained"} 0"#,
        r#"chancery_source_last_success_timestamp_seconds{issuer="https://id.example.com",source="file"} 11"#,
        r#"chancery_source_failures_total{issuer="https://id.example.com",source="file"} 1"#,
        r#"chancery_publish_total{issuer="https://id.example.com",target="bucket",result="written"} 1"#,
        r#"chancery_last_publish_timestamp_seconds{issuer="https://id.example.com",target="bucket"} 12"#,
        r#"chancery_target_up_to_date{issuer="https://id.example.com",target="bucket"} 1"#,
        r#"chancery_foreign_keys{issuer="https://id.example.com",target="bucket"} 2"#,
        r#"chancery_issuer_objects{state="collided"} 3"#,
        r#"chancery_uploads_total{issuer="https://id.example.com",sink="vault",result="blocked"} 1"#,
        r#"chancery_last_upload_timestamp_seconds{issuer="https://id.example.com",sink="vault"} 14"#,
        r#"chancery_sink_up_to_date{issuer="https://id.example.com",sink="vault"} 0"#,
        r#"chancery_sink_foreign_keys{issuer="https://id.example.com",sink="vault"} 1"#,
        r#"chancery_last_verify_timestamp_seconds{issuer="https://id.example.com"} 13"#,
        r#"chancery_verify_findings{issuer="https://id.example.com",severity="warning"} 1"#,
        r#"chancery_verify_findings{issuer="https://id.example.com",severity="error"} 0"#,
        r#"chancery_drift_total{issuer="https://id.example.com",target="bucket",kind="Vanished"} 1"#,
        r#"chancery_http_requests_total{code="200"} 1"#,
        r#"chancery_certificate_reload_total{result="replaced"} 1"#,
        "chancery_certificate_expiry_timestamp_seconds{certificate=\"/tls.crt\"} 99",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
    }
    let age = line(&metrics, 15, "chancery_key_age_seconds{").unwrap();
    assert!(age.contains(key_id("A").as_str()) && age.ends_with(" 5.0"), "{age}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_key_that_is_gone_has_no_age_any_more() {
    let metrics = Metrics::new("0");
    let other: IssuerUrl = "https://other.example".parse().unwrap();
    metrics.keys_are(&other, [(&key_id("B"), KeyState::Live, second(0))]);
    metrics.keys_are(&issuer(), [(&key_id("A"), KeyState::Live, second(0))]);
    assert!(metrics.render(second(1)).unwrap().contains(key_id("A").as_str()));
    metrics.keys_are(&issuer(), [(&key_id("A"), KeyState::Withdrawn, second(0))]);
    let text = metrics.render(second(1)).unwrap();
    assert!(!text.contains(key_id("A").as_str()), "{text}");
    assert!(text.contains(key_id("B").as_str()), "another issuer's keys stay: {text}");
}

#[test]
fn a_failed_publication_keeps_the_time_of_the_last_good_one() {
    let metrics = Metrics::new("0");
    let target = TargetLabels::new(&issuer(), "bucket");
    metrics.published(&target, PublishResult::Unchanged, second(5));
    metrics.published(&target, PublishResult::Failed, second(9));
    let last = line(&metrics, 9, "chancery_last_publish_timestamp_seconds").unwrap();
    assert!(last.ends_with(" 5"), "{last}");
    let up_to_date = line(&metrics, 9, "chancery_target_up_to_date{").unwrap();
    assert!(up_to_date.ends_with(" 0"), "{up_to_date}");
}

#[test]
fn what_has_not_happened_is_absent_rather_than_zero() {
    let metrics = Metrics::new("0");
    for name in ["chancery_certificate_expiry", "chancery_last_publish", "chancery_key_age"] {
        assert_eq!(line(&metrics, 0, name), None, "{name}");
    }
}

#[test]
fn a_view_has_edges_a_longest_age_and_a_time_for_each_key_seen_or_wanted() {
    let metrics = Metrics::new("0");
    let mut record = Visibility::new(["issuer URL"], Duration::from_secs(60));
    let mut observation = Observation::of_copy("issuer URL", [key_id("A")], Duration::ZERO);
    let lifetime = Some(Duration::from_secs(600));
    let seen = EdgeKeys { kids: [key_id("A")].into(), lifetime, ..EdgeKeys::default() };
    observation.edges = [
        ("192.0.2.1".to_owned(), EdgeObservation::Read(seen)),
        ("192.0.2.2".to_owned(), EdgeObservation::Unreadable("refused".to_owned())),
    ]
    .into();
    record.observe(observation);
    let record = record.record();
    let view = ViewLabels::new(&issuer(), "issuer URL");
    metrics.visibility().observed(&view, record.views().next().unwrap().1, std::iter::once(&key_id("B")));
    let text = metrics.render(second(15)).unwrap();
    for expected in [
        r#"chancery_longest_max_age_seconds{issuer="https://id.example.com",view="issuer URL"} 600"#,
        r#"chancery_edges{issuer="https://id.example.com",view="issuer URL"} 2"#,
        r#"chancery_edges_readable{issuer="https://id.example.com",view="issuer URL"} 1"#,
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
    }
    let times = text.lines().filter(|line| line.starts_with("chancery_key_visible_seconds{"));
    assert!(
        times.clone().all(|line| line.ends_with(" 0")) && times.count() == 2,
        "one seen, one wanted: {text}"
    );
    let strangers = (0..1000).map(|number| KeyId::from_str(&format!("{number:042}A")).unwrap());
    let mut crowded = Visibility::new(["issuer URL"], Duration::from_secs(60));
    crowded.observe(Observation::of_copy("issuer URL", strangers.chain([key_id("A")]), Duration::ZERO));
    let crowded = crowded.record();
    metrics.visibility().observed(&view, crowded.views().next().unwrap().1, std::iter::once(&key_id("A")));
    let text = metrics.render(second(15)).unwrap();
    let times = text.lines().filter(|line| line.starts_with("chancery_key_visible_seconds{"));
    assert!(times.clone().any(|line| line.contains(key_id("A").as_str())));
    assert_eq!(times.count(), 17, "a stranger's keys are counted up to a bound");
    let gone = Visibility::new(["issuer URL"], Duration::from_secs(60)).record();
    metrics.visibility().observed(&view, gone.views().next().unwrap().1, std::iter::empty());
    assert_eq!(line(&metrics, 15, "chancery_key_visible_seconds{"), None, "a key that is gone has no time");
}
