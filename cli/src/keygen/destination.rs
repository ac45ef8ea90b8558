//! Where a key pair goes.

use std::path::{Path, PathBuf};

use chancery_core::quoted::escaped;
use chancery_files::{Existing, NewFile, Settled, Unfinished};
use chancery_keygen::key_pair::{self, KeyPairPaths};
use chancery_keygen::{Passphrase, PrivateKey};

use super::interruption::Interruption;

#[derive(clap::Args)]
pub struct Destination {
    /// Folder for sa.key and sa.pub; the current one if nothing is said
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["private", "public"])]
    out_dir: Option<PathBuf>,
    /// File for the private half
    #[arg(long, value_name = "FILE", requires = "public")]
    private: Option<PathBuf>,
    /// File for the public half
    #[arg(long, value_name = "FILE", requires = "private")]
    public: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

impl Destination {
    /// Writes both halves or neither, and says what was written.
    pub fn write(&self, key: &PrivateKey, passphrase: Option<&Passphrase>) -> anyhow::Result<()> {
        let paths = self.paths();
        let interruption = Interruption::hold()?;
        report(&key_pair::settle(&paths)?);
        let staged = key_pair::stage(key, &paths, passphrase, existing(self.force))?;
        interruption.check()?;
        staged.place()?;
        let public = key.public_key();
        println!("key id   {}", public.key_id());
        println!("kind     {}, signs {}", public.description(), public.algorithm());
        let sealed = if passphrase.is_some() { ", sealed" } else { "" };
        println!("private  {} (0600{sealed})", escaped(real(&paths.private).display()));
        println!("public   {} (0644)", escaped(real(&paths.public).display()));
        if passphrase.is_some() {
            eprintln!(
                "note: kube-apiserver cannot read a sealed key; open it where it is to sign, with `chancery keygen import --passphrase-file`"
            );
        }
        Ok(())
    }

    fn paths(&self) -> KeyPairPaths {
        match (&self.private, &self.public) {
            (Some(private), Some(public)) => {
                KeyPairPaths { private: private.clone(), public: public.clone() }
            }
            _ => KeyPairPaths::in_directory(self.out_dir.as_deref().unwrap_or(Path::new("."))),
        }
    }
}

/// Writes `files` below a folder, all or none.
pub fn place(directory: &Path, files: Vec<NewFile>, force: bool) -> anyhow::Result<()> {
    let _interruption = Interruption::hold()?;
    settle(&files.iter().map(|file| directory.join(&file.path)).collect::<Vec<_>>())?;
    Ok(chancery_files::place_below(directory, files, existing(force))?)
}

/// Brings to an end what a killed process has begun at `paths`, and says so.
pub fn settle(paths: &[PathBuf]) -> anyhow::Result<()> {
    let settled: Result<Vec<Settled>, _> =
        chancery_files::unfinished(paths)?.into_iter().map(Unfinished::settle).collect();
    report(&settled?);
    Ok(())
}

fn report(settled: &[Settled]) {
    for settled in settled {
        let (done, paths) = match settled {
            Settled::Finished(paths) => ("completed: these now belong to the files placed before", paths),
            Settled::Removed(paths) => ("removed: nothing had its name yet", paths),
        };
        let paths: Vec<String> = paths.iter().map(|path| escaped(path.display()).to_string()).collect();
        eprintln!("note: an earlier run was killed here, and what it left was {done}: {}", paths.join(", "));
    }
}

pub fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}

/// The path without links, so that a folder that leads elsewhere is seen.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
