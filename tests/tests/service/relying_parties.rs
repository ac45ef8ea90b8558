//! Relying parties written by others read `chancery issuer` over TLS, and behave as their rows in the profile table say.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chancery_core::profile::{AlgorithmsFixed, Lifetime, RelyingParty, UnknownKid};
use e2e::binary;
use e2e::chancery::IssuerService;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::token::{self, TokenSigner};
use e2e::token_verifier::TokenVerifier;
use serde_json::{Value, json};

const AUDIENCE: &str = "relying-party";
const SUBJECT: &str = "system:serviceaccount:demo:app";
/// Issuers at the root of their host and below a path, both of the same keys.
const ISSUERS: [&str; 2] = ["", "/cluster-a"];

/// Enough to see whether each of them reaches the issuer.
const FLOOD: u32 = 60;

/// A verifier of `tests/servers`, and the row that describes it.
struct Party {
    program: &'static str,
    row: RelyingParty,
    /// The clock by which it keeps keys can be moved.
    moves_clock: bool,
}

/// An issuer of two paths whose folder of public keys the service watches.
struct Stage {
    party: &'static Party,
    site: Site,
    keys: Scratch,
    folder: PathBuf,
    published: Vec<KeyFile>,
    service: IssuerService,
}

impl Stage {
    /// The service runs and shows one RSA key.
    async fn new(party: &'static Party) -> Result<Self> {
        let (mut site, keys) = (Site::new()?, Scratch::new("keys")?);
        let folder = site.dir().join("keys");
        std::fs::create_dir(&folder)?;
        let first = KeyFile::new(&keys, "first")?;
        first.put_public_half_into(&folder)?;
        for issuer in ISSUERS {
            site.add_issuer_of_files(issuer, &[&folder], json!([]))?;
        }
        for issuer in site.config["issuers"].as_array_mut().into_iter().flatten() {
            issuer["retention"] = json!("1s");
        }
        let service = site.start_ready().await?;
        Ok(Self { party, site, keys, folder, published: vec![first], service })
    }

    /// Publishes a key beside the others, and returns when both issuers show it.
    async fn publish(&mut self, key: KeyFile) -> Result<()> {
        key.put_public_half_into(&self.folder)?;
        self.published.push(key);
        self.shows_what_is_published().await
    }

    /// Takes a key out again, and returns when neither issuer shows it.
    async fn withdraw(&mut self, kid: &str) -> Result<()> {
        for key in self.published.extract_if(.., |key| key.kid == kid) {
            std::fs::remove_file(self.folder.join(key.public.file_name().context("a name")?))?;
        }
        self.shows_what_is_published().await
    }

    async fn shows_what_is_published(&self) -> Result<()> {
        let kids: Vec<&str> = self.published.iter().map(|key| key.kid.as_str()).collect();
        for issuer in ISSUERS {
            self.site.shows(&self.site.url(issuer), &kids).await?;
        }
        Ok(())
    }

    fn first(&self) -> Result<TokenSigner> {
        TokenSigner::read(&self.keys.join("first.key"))
    }

    fn claims(&self, issuer: &str) -> Value {
        let now = jiff::Timestamp::now().as_second();
        json!({
            "iss": self.site.url(issuer), "sub": SUBJECT, "aud": [AUDIENCE],
            "iat": now - 5, "nbf": now - 5, "exp": now + 600,
        })
    }

    /// A token that is good as soon as its key is published.
    fn token(&self, signer: &TokenSigner) -> Result<String> {
        signer.sign(&self.claims(""))
    }

    /// A verifier of the issuer at the path `issuer` that has read its keys, since it has accepted a token of the first.
    async fn verifier(&self, issuer: &str) -> Result<TokenVerifier> {
        let (url, ca) = (self.site.url(issuer), self.site.authority().path());
        let mut verifier = TokenVerifier::start(self.party.program, &url, AUDIENCE, ca).await?;
        let token = self.first()?.sign(&self.claims(issuer))?;
        self.accepts(&mut verifier, &token, "a good token").await?;
        Ok(verifier)
    }

    async fn accepts(&self, verifier: &mut TokenVerifier, token: &str, what: &str) -> Result<()> {
        let verdict = verifier.verify(token).await?;
        ensure!(verdict == Ok(SUBJECT.to_owned()), "{} on {what}: {verdict:?}", self.party.program);
        Ok(())
    }

    async fn refuses(&self, verifier: &mut TokenVerifier, token: &str, what: &str) -> Result<()> {
        let verdict = verifier.verify(token).await?;
        ensure!(verdict.is_err(), "{} accepted {what}", self.party.program);
        Ok(())
    }

    /// Tokens that differ from a good one in one thing each. The last makes a verifier look for an unknown key.
    fn bad_tokens(&self, issuer: &str) -> Result<Vec<(&'static str, String)>> {
        let (signer, stranger) = (self.first()?, TokenSigner::generate()?);
        let claims = self.claims(issuer);
        let with = |name: &str, value: Value| {
            let mut changed = claims.clone();
            changed[name] = value;
            changed
        };
        let good = signer.sign(&claims)?;
        let public = std::fs::read(self.keys.join("first.pub"))?;
        Ok(vec![
            ("a token for another audience", signer.sign(&with("aud", json!(["someone-else"])))?),
            ("an expired token", signer.sign(&token::a_day_earlier(&claims))?),
            ("a token of another issuer", signer.sign(&with("iss", json!("https://other.example")))?),
            ("an issuer with a slash more", signer.sign(&with("iss", json!(self.site.url(issuer) + "/")))?),
            ("a foreign key under a published kid", stranger.sign_as(signer.kid(), &claims)?),
            ("a tampered token", token::with_claims(&good, &with("sub", json!("system:admin")))?),
            ("a token without a signature", token::unsigned(signer.kid(), &claims)),
            (
                "a token made with the public key as a secret",
                token::signed_with_secret(signer.kid(), &claims, &public),
            ),
            ("a token of an unpublished key", stranger.sign(&claims)?),
        ])
    }

    async fn tokens_are_told_apart_at_the_root_and_below_a_path(&self) -> Result<()> {
        for issuer in ISSUERS {
            let mut verifier = self.verifier(issuer).await?;
            for (what, token) in self.bad_tokens(issuer)? {
                self.refuses(&mut verifier, &token, what).await?;
            }
            let good = self.first()?.sign(&self.claims(issuer))?;
            self.accepts(&mut verifier, &good, "a good token after bad ones").await?;
        }
        Ok(())
    }

    /// A key is published while the verifier runs, and one whose token came too early.
    async fn a_new_key_is_taken_as_the_row_says(&mut self) -> Result<()> {
        let (mut punctual, mut early) = (self.verifier("").await?, self.verifier("").await?);
        let key = KeyFile::new(&self.keys, "second")?;
        let token = self.token(&TokenSigner::read(&key.private)?)?;
        self.refuses(&mut early, &token, "a token before its key was published").await?;
        self.publish(key).await?;

        let cooldown = match self.party.row.profile().cache.unknown_kid {
            UnknownKid::ReadsAgain { cooldown } => cooldown,
            _ => {
                self.refuses(&mut punctual, &token, "a token for whose key it does not read again").await?;
                return self.a_restart_helps(&token).await;
            }
        };
        if cooldown.is_zero() {
            self.accepts(&mut punctual, &token, "a token of a new key").await?;
            return self.accepts(&mut early, &token, "a token that came too early, again").await;
        }
        self.refuses(&mut early, &token, "a token that came too early, within the cooldown").await?;
        if self.party.moves_clock {
            for verifier in [&mut punctual, &mut early] {
                verifier.advance(cooldown + Duration::from_secs(1)).await?;
                self.accepts(verifier, &token, "a token of a new key after the cooldown").await?;
            }
        }
        self.a_restart_helps(&token).await
    }

    async fn a_change_of_algorithm_is_taken_as_the_row_says(&mut self) -> Result<()> {
        let mut verifier = self.verifier("").await?;
        let key = KeyFile::p256(&self.keys, "elliptic")?;
        let token = self.token(&TokenSigner::read(&key.private)?)?;
        self.publish(key).await?;

        let cache = &self.party.row.profile().cache;
        if let (true, UnknownKid::ReadsAgain { cooldown }) = (self.party.moves_clock, cache.unknown_kid) {
            verifier.advance(cooldown + Duration::from_secs(1)).await?;
        }
        match (cache.algorithms_fixed, cache.unknown_kid) {
            (AlgorithmsFixed::UntilRestart, _) => {
                self.refuses(&mut verifier, &token, "an algorithm that was not there at its start").await?;
            }
            (_, UnknownKid::Refuses) => {
                self.refuses(&mut verifier, &token, "a token for whose key it does not read again").await?;
            }
            _ => self.accepts(&mut verifier, &token, "a token of another algorithm").await?,
        }
        self.a_restart_helps(&token).await
    }

    /// A key is withdrawn that the verifier has read.
    async fn a_withdrawn_key_is_kept_as_the_row_says(&mut self) -> Result<()> {
        let key = KeyFile::new(&self.keys, "withdrawn")?;
        let (kid, token) = (key.kid.clone(), self.token(&TokenSigner::read(&key.private)?)?);
        self.publish(key).await?;
        let mut verifier = self.verifier("").await?;
        self.accepts(&mut verifier, &token, "a token of a key before it is withdrawn").await?;
        self.withdraw(&kid).await?;
        self.accepts(&mut verifier, &token, "a token of a withdrawn key, from its copy").await?;

        let cache = &self.party.row.profile().cache;
        let cooldown = match cache.unknown_kid {
            UnknownKid::ReadsAgain { cooldown } => Some(cooldown),
            _ => None,
        };
        let reads_now = cooldown.filter(|cooldown| cooldown.is_zero() || self.party.moves_clock);
        if let (true, Some(cooldown)) = (cache.unknown_kid_drops_withdrawn, reads_now) {
            if self.party.moves_clock {
                verifier.advance(cooldown + Duration::from_secs(1)).await?;
            }
            let unknown = self.token(&TokenSigner::generate()?)?;
            self.refuses(&mut verifier, &unknown, "a token of an unpublished key").await?;
            self.refuses(&mut verifier, &token, "a token of a key that it has found withdrawn").await?;
        }
        let mut anew = self.verifier("").await?;
        self.refuses(&mut anew, &token, "a token of a key that was withdrawn before its start").await
    }

    /// Tokens of keys that nobody knows: how often they make the verifier ask the issuer.
    async fn a_flood_of_unknown_keys_reaches_the_issuer_as_the_row_says(&self) -> Result<()> {
        let (mut verifier, stranger) = (self.verifier("").await?, TokenSigner::generate()?);
        let answers = async || {
            let counted = self.site.metric("chancery_http_requests_total", &[("code", "200")]).await?;
            counted.context("no requests counted")
        };
        let before = answers().await?;
        for number in 0..FLOOD {
            let token = stranger.sign_as(&format!("unknown-{number}"), &self.claims(""))?;
            self.refuses(&mut verifier, &token, "a token of an unknown key").await?;
        }
        let asked = answers().await? - before;
        let each = f64::from(FLOOD);
        let as_expected = match self.party.row.profile().cache.unknown_kid {
            // The answer to the last ones may not be counted yet.
            UnknownKid::ReadsAgain { cooldown } if cooldown.is_zero() => asked > each / 2.0,
            // Its cooldown ends within the flood at most once, on whatever machine.
            _ => asked < each / 4.0,
        };
        ensure!(as_expected, "{}: {FLOOD} unknown keys became {asked} requests", self.party.program);
        self.accepts(&mut verifier, &self.token(&self.first()?)?, "a good token after the flood").await
    }

    /// The issuer is down, and comes back.
    async fn an_outage_is_outlived_as_the_row_says(&mut self) -> Result<()> {
        let (mut verifier, token) = (self.verifier("").await?, self.token(&self.first()?)?);
        ensure!(self.service.terminate().await? == Some(0), "{}", self.service.log());
        self.accepts(&mut verifier, &token, "a good token while the issuer is down").await?;
        if let (true, Lifetime::AtMost(lifetime)) =
            (self.party.moves_clock, self.party.row.profile().cache.lifetime)
        {
            verifier.advance(lifetime + Duration::from_secs(1)).await?;
            self.refuses(&mut verifier, &token, "a token whose key it cannot read again").await?;
            verifier.advance(lifetime).await?;
        }
        self.service = self.site.start_ready().await?;
        self.shows_what_is_published().await?;
        self.accepts(&mut verifier, &token, "a good token after the outage").await
    }

    /// What the profile tells people to do.
    async fn a_restart_helps(&self, token: &str) -> Result<()> {
        let mut anew = self.verifier("").await?;
        self.accepts(&mut anew, token, "a token of a key that was published before its start").await
    }
}

async fn behaves_as_its_row_says(party: &'static Party) -> Result<()> {
    if binary::skipped(&[party.program]) {
        return Ok(());
    }
    let mut stage = Stage::new(party).await?;
    stage.tokens_are_told_apart_at_the_root_and_below_a_path().await?;
    stage.a_new_key_is_taken_as_the_row_says().await?;
    stage.a_change_of_algorithm_is_taken_as_the_row_says().await?;
    stage.a_withdrawn_key_is_kept_as_the_row_says().await?;
    stage.a_flood_of_unknown_keys_reaches_the_issuer_as_the_row_says().await?;
    stage.an_outage_is_outlived_as_the_row_says().await
}

#[tokio::test]
async fn go_oidc_behaves_as_its_row_says() -> Result<()> {
    behaves_as_its_row_says(&Party { program: "go-oidc", row: RelyingParty::GoOidc, moves_clock: false })
        .await
}

#[tokio::test]
async fn pyjwt_behaves_as_its_row_says() -> Result<()> {
    behaves_as_its_row_says(&Party { program: "pyjwt", row: RelyingParty::Pyjwt, moves_clock: true }).await
}

#[tokio::test]
async fn jose_behaves_as_its_row_says() -> Result<()> {
    behaves_as_its_row_says(&Party { program: "jose", row: RelyingParty::Jose, moves_clock: true }).await
}

#[tokio::test]
async fn jwx_behaves_as_its_row_says() -> Result<()> {
    behaves_as_its_row_says(&Party { program: "jwx", row: RelyingParty::Jwx, moves_clock: false }).await
}

#[tokio::test]
async fn nimbus_behaves_as_its_row_says() -> Result<()> {
    behaves_as_its_row_says(&Party { program: "nimbus", row: RelyingParty::Nimbus, moves_clock: false }).await
}
