//! The file that says what a cluster is to be: its key, its issuer, its control plane, its relying parties, its add-on.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use chancery_core::key_file::read_public_keys;
use chancery_core::{IssuerUrl, Owner, PublicKey};
use chancery_issuer::config::Config;
use chancery_keygen::KeySpec;
use chancery_keygen::key_pair::KeyPairPaths;
use chancery_render::{Distribution, Keys, Phase, Place, Request, Stage};
use chancery_signer::rotation::CanaryConfig;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::given;
use crate::keygen::destination::real;

/// The whole file. Relative paths in it start at its folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BootstrapFile {
    /// An entry of `issuers` in `chancery.yaml`, without `sources`: the source is the key.
    issuer: Map<String, Value>,
    #[serde(default)]
    keys: KeysConfig,
    /// The key that proves what is published. It is made where there is none.
    #[serde(default = "writer_key_file")]
    writer_key_file: PathBuf,
    control_plane: ControlPlaneConfig,
    /// Relying parties that are shown a first token, as in the policy of a ring.
    #[serde(default)]
    pub canaries: Vec<CanaryConfig>,
    #[serde(default)]
    add_on: AddOnConfig,
    /// Where this file is.
    #[serde(skip)]
    pub base: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct KeysConfig {
    /// The folder of `sa.key` and `sa.pub`. A pair, or a public half, that is there is taken as it is.
    directory: PathBuf,
    /// What is made otherwise, as of `chancery keygen new`.
    algorithm: Option<String>,
}

impl Default for KeysConfig {
    fn default() -> Self {
        Self { directory: "keys".into(), algorithm: None }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ControlPlaneConfig {
    distribution: String,
    version: String,
    /// How far a change of the issuer goes, and the issuers before it; a new cluster otherwise.
    phase: Option<String>,
    #[serde(default)]
    from: Vec<String>,
    from_jwks_uri: Option<String>,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default = "cluster")]
    cluster: String,
    #[serde(default = "namespace")]
    namespace: String,
    #[serde(default = "key_directory")]
    key_directory: String,
    /// The folder that its files are written to.
    #[serde(default = "control_plane_directory")]
    directory: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct AddOnConfig {
    /// The values of the chart.
    file: PathBuf,
    /// What is said of the issuer within the cluster in place of what is said here, such as a `ca` at another path.
    issuer: Map<String, Value>,
}

impl Default for AddOnConfig {
    fn default() -> Self {
        Self { file: "values.yaml".into(), issuer: Map::new() }
    }
}

fn writer_key_file() -> PathBuf {
    "writer.key".into()
}

fn cluster() -> String {
    "kubernetes".to_owned()
}

fn namespace() -> String {
    "default".to_owned()
}

fn key_directory() -> String {
    "/etc/kubernetes/pki".to_owned()
}

fn control_plane_directory() -> PathBuf {
    "control-plane".into()
}

impl BootstrapFile {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = given::read(path)?;
        let name = path.display();
        let text = std::str::from_utf8(&bytes).with_context(|| format!("{name} is not UTF-8"))?;
        let mut file: Self =
            serde_saphyr::from_str(text).with_context(|| format!("{name} cannot be used"))?;
        ensure!(
            !file.issuer.contains_key("sources"),
            "{name}: `issuer` has `sources`; leave them out: the source is the key in `keys.directory`. Those within the cluster stand in `addOn.issuer`"
        );
        file.base = path.parent().unwrap_or(Path::new("")).to_owned();
        // What can be refused without asking anybody is refused before anything is done.
        file.algorithm()?;
        file.distribution()?;
        file.config(None).with_context(|| format!("{name}: `issuer`"))?;
        Ok(file)
    }

    pub fn key_pair(&self) -> KeyPairPaths {
        KeyPairPaths::in_directory(&self.base.join(&self.keys.directory))
    }

    pub fn algorithm(&self) -> anyhow::Result<KeySpec> {
        let text = self.keys.algorithm.as_deref();
        text.map_or_else(|| Ok(KeySpec::default()), |text| text.parse().context("`keys.algorithm`"))
    }

    pub fn writer_key(&self) -> PathBuf {
        self.base.join(&self.writer_key_file)
    }

    /// The public half of the pair, if it is there.
    pub fn public_key(&self) -> anyhow::Result<Option<PublicKey>> {
        let path = self.key_pair().public;
        if !path.exists() {
            return Ok(None);
        }
        let read = read_public_keys(&given::read(&path)?);
        let [key] = read.keys.as_slice() else {
            anyhow::bail!(
                "{} holds {} public keys; expected the one that signs",
                path.display(),
                read.keys.len()
            )
        };
        Ok(Some(key.clone()))
    }

    /// The configuration of a service that would publish the same, and where it would stand. The writer key is part of it
    /// where it is given.
    pub fn config(&self, writer_key: Option<&Path>) -> anyhow::Result<(Config, PathBuf)> {
        let mut entry = self.issuer.clone();
        let source = json!({ "name": "key", "files": { "paths": [real(&self.key_pair().public)] } });
        entry.insert("sources".to_owned(), json!([source]));
        let writer_key = writer_key.map(real);
        let whole = json!({ "issuers": [entry], "writerKeyFile": writer_key });
        let path = self.base.join("chancery.yaml");
        Ok((Config::parse(&whole.to_string(), &path)?, path))
    }

    fn distribution(&self) -> anyhow::Result<Distribution> {
        self.control_plane.distribution.parse().context("`controlPlane.distribution`")
    }

    /// The folder of the control plane's files.
    pub fn control_plane_directory(&self) -> PathBuf {
        self.base.join(&self.control_plane.directory)
    }

    /// What the control plane is to be told.
    pub fn control_plane(
        &self,
        issuer: &IssuerUrl,
        key: PublicKey,
    ) -> anyhow::Result<(Distribution, Request)> {
        let config = &self.control_plane;
        let phase: Option<Phase> =
            config.phase.as_deref().map(|phase| phase.parse().context("`controlPlane.phase`")).transpose()?;
        let stage = match phase {
            None => Stage::New { accepted: Vec::new() },
            Some(phase) => {
                let (from, from_jwks_uri) = (config.from.clone(), config.from_jwks_uri.clone());
                Stage::Change { from, from_jwks_uri, phase }
            }
        };
        let directory = real(&self.control_plane_directory());
        let request = Request {
            version: Some(config.version.parse().context("`controlPlane.version`")?),
            issuer: issuer.clone(),
            stage,
            keys: phase.is_none().then(|| Keys { new: key, old: Vec::new() }),
            audiences: config.audiences.clone(),
            place: Place {
                cluster: config.cluster.parse().context("`controlPlane.cluster`")?,
                namespace: config.namespace.parse().context("`controlPlane.namespace`")?,
                directory: directory.to_str().context("`controlPlane.directory` is not UTF-8")?.to_owned(),
                key_directory: config.key_directory.clone(),
            },
        };
        Ok((self.distribution()?, request))
    }

    pub fn values_file(&self) -> PathBuf {
        self.base.join(&self.add_on.file)
    }

    /// The values of the chart: the issuer within the cluster, under the mark of what is published already.
    pub fn values(&self, issuer: &IssuerUrl) -> anyhow::Result<String> {
        let mut entry = self.issuer.clone();
        entry.entry("owner").or_insert_with(|| json!(Owner::of_issuer(issuer).as_str()));
        entry.extend(self.add_on.issuer.clone());
        let values = serde_saphyr::to_string(&json!({ "issuer": { "issuers": [entry] } }))?;
        let secret =
            "kubectl --namespace chancery-system create secret generic chancery-writer-key --from-file=key=";
        let writer_key = self.writer_key_file.display();
        Ok(format!(
            "# Values of the chart `chancery`, written by `chancery bootstrap apply`. The Secret with the writer key comes first:\n#   {secret}{writer_key}\n{values}"
        ))
    }
}
