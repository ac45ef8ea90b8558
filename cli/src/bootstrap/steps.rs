//! The steps, in their order. Each looks first; what is missing it says or does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use chancery_core::rotation::CanaryAnswer;
use chancery_core::{IssuerUrl, PublicKey};
use chancery_files::{Existing, NewFile};
use chancery_issuer::config::IssuerConfig;
use chancery_issuer::outside_verifier;
use chancery_issuer::restore::{Restoration, RestoreChoices, Step as Published};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{PrivateKey, key_pair};
use chancery_publisher::verify::Expectation;
use chancery_publisher::writer_key_file::{random_writer_key, read_writer_key};
use chancery_render::RenderedFile;
use chancery_render::readme::readme;
use chancery_signer::rotation::FirstTokens;
use chancery_signer::signing::ActiveKey;
use zeroize::Zeroizing;

use super::file::BootstrapFile;
use crate::keygen::destination::{place, settle};
use crate::keygen::input;

/// Between two looks at documents that are not visible yet.
const PAUSE: Duration = Duration::from_secs(2);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Keys,
    WriterKey,
    Publish,
    Visible,
    ControlPlane,
    FirstTokens,
    AddOn,
}

/// The order: nobody is told of a key before relying parties can read it.
pub const STEPS: [Step; 7] = [
    Step::Keys,
    Step::WriterKey,
    Step::Publish,
    Step::Visible,
    Step::ControlPlane,
    Step::FirstTokens,
    Step::AddOn,
];

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::WriterKey => "writer key",
            Self::Publish => "publish",
            Self::Visible => "visible",
            Self::ControlPlane => "control plane",
            Self::FirstTokens => "first tokens",
            Self::AddOn => "add-on",
        }
    }
}

/// What came of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was changed, or is to be; nothing where all is as it should be.
    pub changes: Vec<String>,
    /// How it stands where nothing is to be changed.
    pub stands: String,
    /// Files that were written, or are to be.
    pub contents: Vec<(String, String)>,
}

impl Outcome {
    fn stands(how: impl Into<String>) -> Self {
        Self { stands: how.into(), ..Self::default() }
    }

    fn change(what: impl Into<String>) -> Self {
        Self { changes: vec![what.into()], ..Self::default() }
    }
}

/// All steps of one file.
pub struct Steps {
    pub file: BootstrapFile,
    /// Whether what is missing is done.
    pub applies: bool,
    /// For how long documents may take until they are visible.
    pub wait: Duration,
}

impl Steps {
    pub async fn step(&self, step: Step) -> anyhow::Result<Outcome> {
        match step {
            Step::Keys => self.keys(),
            Step::WriterKey => self.writer_key(),
            Step::Publish => self.publish().await,
            Step::Visible => self.visible().await,
            Step::ControlPlane => self.control_plane(),
            Step::FirstTokens => self.first_tokens().await,
            Step::AddOn => self.add_on(),
        }
    }

    /// A pair that is there is taken as it is, and so is a public half whose private one is elsewhere.
    fn keys(&self) -> anyhow::Result<Outcome> {
        let paths = self.file.key_pair();
        if self.applies {
            settle(&[paths.private.clone(), paths.public.clone()])?;
        }
        if let Some(key) = self.file.public_key()? {
            self.private_key(&key)?;
            return Ok(Outcome::stands(format!("{} of {}", key.key_id(), paths.public.display())));
        }
        ensure!(
            !paths.private.exists(),
            "{} is there without {}; write its public half with `chancery keygen import`",
            paths.private.display(),
            paths.public.display()
        );
        let spec = self.file.algorithm()?;
        let pair = format!("{} and {}", paths.private.display(), paths.public.display());
        if !self.applies {
            return Ok(Outcome::change(format!("make {pair}, {spec}")));
        }
        make_folder(paths.private.parent(), 0o700)?;
        let key = PrivateKey::generate(spec)?;
        key_pair::write(&key, &paths, None, Existing::Keep)?;
        Ok(Outcome::change(format!("made {pair}, {spec}: {}", key.public_key().key_id())))
    }

    /// The private half, if it is here; another one's is refused.
    fn private_key(&self, public: &PublicKey) -> anyhow::Result<Option<PrivateKey>> {
        let path = self.file.key_pair().private;
        if !path.exists() {
            return Ok(None);
        }
        let mut blocks = input::pem_file(&path, None)?.blocks.into_iter();
        let key = blocks.find_map(|block| match block.content {
            Content::Private(key, _) => Some(*key),
            _ => None,
        });
        let key = key.with_context(|| {
            format!("{} holds no private key that can be read; open a sealed one first", path.display())
        })?;
        let (theirs, ours) = (key.public_key().key_id(), public.key_id());
        ensure!(
            theirs == ours,
            "{} is {theirs}, and its public half is {ours}; they are no pair",
            path.display()
        );
        Ok(Some(key))
    }

    fn writer_key(&self) -> anyhow::Result<Outcome> {
        let path = self.file.writer_key();
        if self.applies {
            settle(std::slice::from_ref(&path))?;
        }
        if path.exists() {
            read_writer_key(&path)?;
            return Ok(Outcome::stands(path.display().to_string()));
        }
        let what = format!("{}, by which the add-on will know these documents for its own", path.display());
        if !self.applies {
            return Ok(Outcome::change(format!("make {what}")));
        }
        let content = Zeroizing::new(format!("{}\n", random_writer_key().to_secret_text()).into_bytes());
        chancery_files::place(&[NewFile::private(path, content)], Existing::Keep)?;
        Ok(Outcome::change(format!("made {what}")))
    }

    /// Documents at targets, keys at sinks, registrations at clouds.
    async fn publish(&self) -> anyhow::Result<Outcome> {
        let writer_key = Some(self.file.writer_key()).filter(|path| path.exists());
        let (config, path) = self.file.config(writer_key.as_deref())?;
        if self.file.public_key()?.is_none() {
            let issuer = entry(&config.issuers)?;
            let (targets, sinks, trusts) =
                (issuer.targets.len(), issuer.sinks.len(), issuer.registrations.len());
            return Ok(Outcome::change(format!(
                "with the key: documents at {targets} targets, keys at {sinks} sinks, {trusts} registrations"
            )));
        }
        let mut restoration = Restoration::read(&config, 0, &path, &RestoreChoices::default()).await?;
        if let Some(problem) = restoration.unread.first() {
            bail!("{problem}");
        }
        let steps = match self.applies {
            true => restoration.carry_out(&config, &path).await?,
            false => restoration.plan().await,
        };
        let places = steps.len();
        let mut outcome =
            Outcome::stands(format!("up to date in {places} place{}", if places == 1 { "" } else { "s" }));
        let mut failed = Vec::new();
        for Published { place, result } in steps {
            match result {
                Ok(done) => outcome.changes.extend(done.into_iter().map(|done| format!("{place}: {done}"))),
                Err(problem) => failed.push(format!("{place}: {problem}")),
            }
        }
        ensure!(failed.is_empty(), "{}", failed.join("; "));
        Ok(outcome)
    }

    async fn visible(&self) -> anyhow::Result<Outcome> {
        let (config, _) = self.file.config(None)?;
        let issuer = entry(&config.issuers)?;
        if !issuer.verify.enabled {
            return Ok(Outcome::stands("not looked at: `verify.enabled` is false"));
        }
        let Some(key) = self.file.public_key()? else {
            return Ok(Outcome::change(format!("read {} as a relying party, with the key", issuer.url)));
        };
        let verifier = outside_verifier(issuer).map_err(|problem| anyhow!(problem))?;
        let expectation = Expectation::of_keys([key.key_id().clone()]);
        let started = Instant::now();
        loop {
            let report = verifier.verify(&issuer.url, &expectation).await;
            if report.is_good() {
                return Ok(Outcome::stands(format!("{} at {}", key.key_id(), issuer.url)));
            }
            let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            if !self.applies {
                return Ok(Outcome::change(format!("not visible yet: {}", findings.join("; "))));
            }
            ensure!(
                started.elapsed() < self.wait,
                "{} is not visible after {} s: {}. Run it again when that is mended; what was done stays done",
                issuer.url,
                self.wait.as_secs(),
                findings.join("; ")
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn control_plane(&self) -> anyhow::Result<Outcome> {
        let Some(key) = self.file.public_key()? else {
            return Ok(Outcome::change("write its files, with the key"));
        };
        let (config, _) = self.file.config(None)?;
        let (distribution, request) = self.file.control_plane(&entry(&config.issuers)?.url, key)?;
        let rendered = distribution.render(&request)?;
        let readme = RenderedFile { path: "README.md".to_owned(), content: readme(&request, &rendered) };
        let files = rendered.files.iter().chain([&readme]);
        let files = files.map(|file| (PathBuf::from(&file.path), file.content.clone())).collect();
        self.written(&self.file.control_plane_directory(), files)
    }

    async fn first_tokens(&self) -> anyhow::Result<Outcome> {
        let (config, _) = self.file.config(None)?;
        let issuer: &IssuerUrl = &entry(&config.issuers)?.url;
        let tokens = FirstTokens::open(&self.file.canaries, issuer, &self.file.base).await?;
        if self.file.canaries.is_empty() {
            return Ok(Outcome::stands("nobody is declared in `canaries`"));
        }
        let names: Vec<&str> = self.file.canaries.iter().map(|canary| canary.name.as_str()).collect();
        if !self.applies {
            return Ok(Outcome::stands(format!("`apply` shows one to {}", names.join(", "))));
        }
        let public = self.file.public_key()?.context("the key is gone")?;
        let Some(key) = self.private_key(&public)? else {
            return Ok(Outcome::stands(format!(
                "not shown to {}: the private half is not here",
                names.join(", ")
            )));
        };
        let answers = tokens.show(ActiveKey::new(key.into_signing_key())?).await;
        let (accepted, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(_, answer)| *answer == CanaryAnswer::Accepted);
        let others: Vec<String> = others.iter().map(|(name, answer)| format!("{name} {answer}")).collect();
        ensure!(others.is_empty(), "{}. Run it again when that is mended", others.join("; "));
        let accepted: Vec<String> = accepted.into_iter().map(|(name, _)| name).collect();
        Ok(Outcome::stands(format!("accepted by {}", accepted.join(", "))))
    }

    fn add_on(&self) -> anyhow::Result<Outcome> {
        let (config, _) = self.file.config(None)?;
        let values = self.file.values(&entry(&config.issuers)?.url)?;
        let path = self.file.values_file();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().context("`addOn.file` names no file")?;
        self.written(folder, vec![(name.into(), values)])
    }

    /// Files below a folder, of which those that differ are written together.
    fn written(&self, folder: &Path, files: Vec<(PathBuf, String)>) -> anyhow::Result<Outcome> {
        if self.applies {
            settle(&files.iter().map(|(path, _)| folder.join(path)).collect::<Vec<_>>())?;
        }
        let differs = |(path, content): &(PathBuf, String)| {
            std::fs::read(folder.join(path)).map_or(true, |found| found != content.as_bytes())
        };
        let count = files.len();
        let files: Vec<_> = files.into_iter().filter(differs).collect();
        let shown = |path: &Path| folder.join(path).display().to_string();
        let mut outcome = Outcome::stands(format!("{count} files in {}", folder.display()));
        outcome.changes = files.iter().map(|(path, _)| format!("write {}", shown(path))).collect();
        outcome.contents = files.iter().map(|(path, content)| (shown(path), content.clone())).collect();
        if self.applies && !files.is_empty() {
            make_folder(Some(folder), 0o755)?;
            let new = files.into_iter().map(|(path, content)| NewFile::public(path, content.into_bytes()));
            place(folder, new.collect(), true)?;
        }
        Ok(outcome)
    }
}

fn entry(issuers: &[serde_saphyr::Spanned<IssuerConfig>]) -> anyhow::Result<&IssuerConfig> {
    Ok(&issuers.first().context("no issuer")?.value)
}

fn make_folder(folder: Option<&Path>, mode: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.with_context(|| format!("make the folder {}", folder.display()))
}
