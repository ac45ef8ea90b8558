//! The three calls, of both packages, by a client of their own: what is signed, what is refused and in which words.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::chancery;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::signer::{Nothing, SignResponse, SignerClient, SignerProcess};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::Code;

use crate::stage::{ISSUER, claims, encoded};

const PACKAGES: [&str; 2] = ["v1", "v1alpha1"];

/// A signer with one RSA key, and further arguments.
async fn signer(arguments: &[&str]) -> Result<(Scratch, KeyFile, SignerProcess)> {
    let dir = Scratch::new("signer")?;
    let key = KeyFile::new(&dir, "sa")?;
    let private = key.private.display().to_string();
    let signer = SignerProcess::start(
        &dir,
        ISSUER,
        &[&["--signing-key-file", &private, "--max-token-expiration", "2h"], arguments].concat(),
    )
    .await?;
    Ok((dir, key, signer))
}

fn verify(key: &KeyFile, claims: &str, signed: &SignResponse) -> Result<()> {
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&signed.header)?)?;
    ensure!(header == json!({ "alg": "RS256", "kid": key.kid, "typ": "JWT" }), "{header}");
    let public = pem::parse(key.public_pem()?)?;
    let message = format!("{}.{claims}", signed.header);
    let signature = URL_SAFE_NO_PAD.decode(&signed.signature)?;
    // The verification takes the key without what names its algorithm.
    let bits = public.contents().get(24..).context("no RSA key")?;
    ensure!(RSA_PKCS1_2048_8192_SHA256.verify_sig(bits, message.as_bytes(), &signature).is_ok());
    Ok(())
}

#[tokio::test]
async fn both_packages_are_answered_alike() -> Result<()> {
    let (_dir, key, signer) = signer(&["--refresh-hint", "7s"]).await?;
    for package in PACKAGES {
        let client = signer.client(package).await?;
        let claims = encoded(claims("vault", 600));
        verify(&key, &claims, &client.sign(&claims).await?)?;
        // Claims are signed as they came: spaces and the order of members are the caller's.
        let odd =
            encoded(format!(r#"{{ "exp" : 700,"iat":100, "iss":"{ISSUER}" , "aud":"a" , "z": [ 1.50 ] }}"#));
        verify(&key, &odd, &client.sign(&odd).await?)?;

        let fetched = client.fetch_keys().await?;
        ensure!(fetched.refresh_hint_seconds == 7 && fetched.data_timestamp.is_some());
        let [only] = fetched.keys.as_slice() else { anyhow::bail!("{fetched:?}") };
        assert_eq!(only.key, key.public_key()?.spki_der());
        assert_eq!((only.key_id.as_str(), only.exclude_from_oidc_discovery), (key.kid.as_str(), false));
        assert_eq!(client.metadata().await?, 7200);
        let unknown = client.call::<_, Nothing>("Verify", Nothing {}).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented);
    }
    let client = signer.client("v2").await?;
    assert_eq!(client.metadata().await.unwrap_err().code(), Code::Unimplemented);
    Ok(())
}

#[tokio::test]
async fn what_is_not_signed_is_refused_in_plain_words_and_logged_without_a_claim() -> Result<()> {
    let (_dir, _key, signer) = signer(&[]).await?;
    let good = claims("s3cr3t-audience", 600);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims.to_string()
    };
    let ending = |text: &str| format!("{}{text}", good.to_string().trim_end_matches('}'));
    let plain = good.to_string();
    let refused = [
        ("nothing", String::new()),
        ("no base64", "!".to_owned()),
        ("padding", format!("{}=", encoded(&plain))),
        ("base64 with + and /", format!("{}+/", encoded(&plain))),
        ("no JSON", encoded("claims")),
        ("a list", encoded(json!([good]))),
        ("trailing data", encoded(format!("{plain}{{}}"))),
        ("a member twice", encoded(ending(r#"}},"iss":"https://evil.example"}"#))),
        ("a member in two spellings", encoded(plain.replacen('{', r#"{"ISS":"https://evil.example","#, 1))),
        (
            "a nested member twice",
            encoded(plain.replacen(r#""namespace""#, r#""namespace":"x","namespace""#, 1)),
        ),
        ("another issuer", encoded(with("iss", json!("https://s3cr3t.example")))),
        ("the issuer with a slash", encoded(with("iss", json!(format!("{ISSUER}/"))))),
        ("a fraction of a second", encoded(with("exp", json!(1.5)))),
        ("a time as text", encoded(with("iat", json!("1")))),
        ("too long a life", encoded(claims("s3cr3t-audience", 7201))),
        ("no audience", encoded(with("aud", json!([])))),
    ];
    for package in PACKAGES {
        let client = signer.client(package).await?;
        for (what, claims) in &refused {
            let status = client.sign(claims).await.err().with_context(|| format!("{what} was signed"))?;
            assert_eq!(status.code(), Code::InvalidArgument, "{what}");
            assert_eq!(status.message(), "these claims are not signed here; the signer's log says why");
        }
        // A mebibyte is refused before it is read.
        let long = encoded(with("x", json!("s3cr3t".repeat(1 << 17))));
        assert_eq!(client.sign(&long).await.unwrap_err().code(), Code::OutOfRange);
        client.sign(&encoded(&plain)).await?;
    }
    let log = signer.log();
    assert!(log.contains("not signed:") && !log.contains("s3cr3t") && !log.contains("evil"), "{log}");
    assert!(!log.contains("eyJ"), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_is_too_much_is_turned_away_at_once_and_keys_are_still_had() -> Result<()> {
    let (_dir, _key, signer) = signer(&["--concurrency", "4"]).await?;
    let client = signer.client("v1").await?;
    let claims = encoded(claims("vault", 600));
    let mut calls = JoinSet::new();
    for _ in 0..400 {
        let (client, claims): (SignerClient, String) = (client.clone(), claims.clone());
        calls.spawn(async move { client.sign(&claims).await.map(drop) });
    }
    let other = signer.client("v1").await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        other.fetch_keys().await?;
        slowest = slowest.max(begun.elapsed());
    }
    let (mut signed, mut shed) = (0, 0);
    for answer in calls.join_all().await {
        match answer {
            Ok(()) => signed += 1,
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                shed += 1;
            }
        }
    }
    println!("{signed} signed, {shed} turned away, FetchKeys meanwhile in {slowest:?} at most");
    ensure!(signed > 0 && shed > 0 && signed + shed == 400);
    client.sign(&claims).await?;
    ensure!(signer.log().contains("turned away"));
    Ok(())
}

#[tokio::test]
async fn the_socket_is_for_its_user_alone_and_a_second_signer_is_refused_by_name() -> Result<()> {
    let (dir, key, mut first) = signer(&[]).await?;
    let mode = std::fs::metadata(first.socket())?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let socket = first.socket().display().to_string();
    let private = key.private.display().to_string();
    let arguments = ["signer", "--socket", &socket, "--issuer", ISSUER, "--signing-key-file", &private];
    let second = chancery::run(&arguments).await?;
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains(&format!("process {}", first.process().id())), "{}", second.stderr);
    // Looking is allowed beside it.
    assert_eq!(chancery::run(&[arguments.as_slice(), &["--check"]].concat()).await?.success()?, "ok\n");

    let client = first.client("v1").await?;
    let claims = encoded(claims("vault", 600));
    client.sign(&claims).await?;
    assert_eq!(first.terminate().await?, Some(0));
    assert!(!dir.join("signer.sock").exists());
    assert!(first.log().contains("stopping"));

    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))?;
    let open = chancery::run(&arguments).await?;
    assert!(open.code == Some(1) && open.stderr.contains("chmod go-w"), "{}", open.stderr);
    Ok(())
}

#[tokio::test]
async fn lifetimes_are_recorded_before_they_are_signed_and_shown() -> Result<()> {
    let (dir, key, signer) = {
        let dir = Scratch::new("signer-state")?;
        let state = dir.path().display().to_string();
        let port = e2e::ports::free_address()?;
        let (own, key, signer) =
            signer(&["--state-dir", &state, "--api-audience", "api", "--admin-listen", &port]).await?;
        ((dir, own, port), key, signer)
    };
    let client = signer.client("v1").await?;
    let recorded = || -> Result<Value> {
        let mut entries = std::fs::read_dir(dir.0.path())?.flatten();
        let file = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("signer-record"));
        let record: Value = serde_json::from_slice(&std::fs::read(file.context("no record")?.path())?)?;
        Ok(record.pointer(&format!("/signed/{}", key.kid)).cloned().unwrap_or_default())
    };
    for (audience, seconds, external, api) in [
        ("vault", 600, 600, 0),
        ("api", 3600, 600, 3600),
        ("vault", 60, 600, 3600),
        ("vault", 7200, 7200, 3600),
    ] {
        client.sign(&encoded(claims(audience, seconds))).await?;
        assert_eq!(recorded()?, json!({ "externalSeconds": external, "apiServerSeconds": api }));
    }
    let page = reqwest::get(format!("http://{}/metrics", dir.2)).await?.text().await?;
    let expected =
        format!(r#"chancery_signer_max_lifetime_seconds{{kid="{}",class="external"}} 7200"#, key.kid);
    assert!(page.contains(&expected), "{page}");
    assert!(page.contains(r#"chancery_signer_sign_total{outcome="signed"} 4"#), "{page}");
    let ready = reqwest::get(format!("http://{}/readyz", dir.2)).await?;
    assert_eq!(ready.status().as_u16(), 200);
    Ok(())
}
