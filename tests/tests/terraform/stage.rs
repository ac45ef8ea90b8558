//! Terraform with providers that have the schemas of the real ones, and clouds that are folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::binary;
use e2e::scratch::Scratch;
use serde_json::Value;

use crate::source::{ROOT, blocks, files};

/// What the ignored tests need.
pub const SERVERS: [&str; 3] = ["terraform", "terraform-provider", "terraform-schemas"];

/// The providers.
const PROVIDERS: [&str; 3] = ["aws", "azurerm", "google"];

/// A copy of the modules that may be changed, and all that Terraform needs to work with it.
pub struct Stage {
    folder: Scratch,
    terraform: PathBuf,
}

/// What a run of Terraform left.
pub struct Run {
    /// Exit code.
    pub code: Option<i32>,
    /// All that was printed, without the frames around errors and as one line.
    pub said: String,
    /// Standard output as it was.
    pub stdout: String,
}

impl Run {
    /// The standard output of a run that must have succeeded.
    pub fn success(self) -> Result<String> {
        ensure!(self.code == Some(0), "terraform ended with {:?}: {}", self.code, self.said);
        Ok(self.stdout)
    }
}

impl Stage {
    pub fn new() -> Result<Self> {
        let stage = Self { folder: Scratch::new("terraform")?, terraform: binary::server("terraform")? };
        copy(Path::new(ROOT), &stage.modules())?;
        std::fs::create_dir(stage.cloud())?;
        stage.serve_providers()?;
        let mirror = stage.folder.join("mirror");
        let settings = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
            mirror.display()
        );
        stage.folder.write("terraform.rc", settings)?;
        Ok(stage)
    }

    /// The folder of the copy.
    pub fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }

    /// The folder with an object of the clouds in each file.
    pub fn cloud(&self) -> PathBuf {
        self.folder.join("cloud")
    }

    /// A file of the stage's own.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        self.folder.write(name, content)
    }

    /// What the clouds insist on, whatever is asked for.
    pub fn rule(&self, rules: &Value) -> Result<()> {
        Ok(std::fs::write(self.cloud().join("rules.json"), rules.to_string())?)
    }

    /// The only object of a type.
    pub fn object(&self, kind: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(self.object_file(kind))?)?)
    }

    /// Changes the only object of a type behind Terraform's back.
    pub fn change(&self, kind: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut object = self.object(kind)?;
        change(&mut object);
        Ok(std::fs::write(self.object_file(kind), object.to_string())?)
    }

    fn object_file(&self, kind: &str) -> PathBuf {
        self.cloud().join(format!("{kind}.1.json"))
    }

    /// Runs Terraform in a folder of the copy.
    pub fn terraform(&self, folder: &str, arguments: &[&str]) -> Result<Run> {
        let mut command = Command::new(&self.terraform);
        command.args(arguments).current_dir(self.modules().join(folder)).stdin(Stdio::null());
        // What somebody has set for work of their own.
        for variable in ["TF_CLI_ARGS", "TF_DATA_DIR", "TF_WORKSPACE", "TF_PLUGIN_CACHE_DIR"] {
            command.env_remove(variable);
        }
        command.env("TF_CLI_CONFIG_FILE", self.folder.join("terraform.rc"));
        command.env("CHANCERY_SCHEMAS", self.folder.join("schemas")).env("CHANCERY_CLOUD", self.cloud());
        let output = command.output().context("run terraform")?;
        let stdout = String::from_utf8(output.stdout)?;
        let all = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
        let words = all.split_whitespace().filter(|word| !["│", "╷", "╵"].contains(word));
        Ok(Run { code: output.status.code(), said: words.collect::<Vec<_>>().join(" "), stdout })
    }

    /// Makes a folder of the copy ready to be worked in.
    pub fn init(&self, folder: &str) -> Result<()> {
        self.terraform(folder, &["init", "-no-color"])?.success()?;
        Ok(())
    }

    /// Makes what a folder of the copy says.
    pub fn apply(&self, folder: &str, further: &[&str]) -> Result<Run> {
        self.terraform(folder, &[["apply", "-no-color", "-auto-approve"].as_slice(), further].concat())
    }

    /// Asks what there is to do: exit code 0 says nothing, 2 something.
    pub fn plan(&self, folder: &str, further: &[&str]) -> Result<Run> {
        self.terraform(folder, &[["plan", "-no-color", "-detailed-exitcode"].as_slice(), further].concat())
    }

    /// The outputs of a folder of the copy, by name.
    pub fn outputs(&self, folder: &str) -> Result<Value> {
        let printed = self.terraform(folder, &["output", "-json"])?.success()?;
        Ok(serde_json::from_str(&printed)?)
    }

    /// Every provider with the schemas of the types that the copy names, under the version that has them.
    fn serve_providers(&self) -> Result<()> {
        let program = binary::server("terraform-provider")?;
        let schemas = self.folder.join("schemas");
        std::fs::create_dir(&schemas)?;
        let types = self.types();
        for provider in PROVIDERS {
            let wanted = types.iter().filter(|name| of_provider(name, provider));
            let printed =
                Command::new(binary::server("terraform-schemas")?).arg(provider).args(wanted).output()?;
            ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
            std::fs::write(schemas.join(format!("{provider}.json")), &printed.stdout)?;
            let said: Value = serde_json::from_slice(&printed.stdout)?;
            let version = said["version"].as_str().context("no version")?;
            let platform = match std::env::consts::ARCH {
                "aarch64" => "linux_arm64",
                _ => "linux_amd64",
            };
            let place = format!("mirror/registry.terraform.io/hashicorp/{provider}/{version}/{platform}");
            let place = self.folder.join(&place);
            std::fs::create_dir_all(&place)?;
            std::fs::copy(&program, place.join(format!("terraform-provider-{provider}_v{version}")))?;
        }
        Ok(())
    }

    /// The types of resources and data sources of the copy, these as `data.TYPE`.
    fn types(&self) -> BTreeSet<String> {
        let texts = files(&self.modules(), ".tf").into_iter().map(crate::source::read);
        let all = texts.flat_map(|text| blocks(&text));
        all.filter_map(|block| match block.kind.as_str() {
            "resource" => Some(block.labels[0].clone()),
            "data" => Some(format!("data.{}", block.labels[0])),
            _ => None,
        })
        .collect()
    }
}

fn of_provider(name: &str, provider: &str) -> bool {
    let name = name.strip_prefix("data.").unwrap_or(name);
    name.split('_').next() == Some(provider)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().context("no name")?;
        // What somebody who worked in the folder left is nothing of ours.
        if name.to_string_lossy().starts_with(".terraform")
            || name.to_string_lossy().starts_with("terraform.tfstate")
        {
            continue;
        }
        match path.is_dir() {
            true => copy(&path, &to.join(name))?,
            false => _ = std::fs::copy(&path, to.join(name))?,
        }
    }
    Ok(())
}
