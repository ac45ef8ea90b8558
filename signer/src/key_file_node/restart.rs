//! How a kube-apiserver is made to start again.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use chancery_core::rollout::NodeKeys;
use chancery_files::{Bounds, FileError, NewFile, read, replace};
use tokio::task::spawn_blocking;

use super::manifest::{ManifestError, annotated, annotation};

/// A manifest has a few thousand bytes.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));

/// The time between two looks whether a command has ended.
const POLL: Duration = Duration::from_millis(50);

/// How.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartWay {
    /// By this command of a shell.
    Command(String),
    /// By an annotation in the manifest of its static pod, which kubelet follows.
    StaticPod(PathBuf),
}

/// What a restart is asked for with.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// The files that it is to read.
    pub files: NodeKeys,
    /// Whether it was asked for with the same files before.
    pub is_repeated: bool,
    /// How long a command may take.
    pub patience: Duration,
}

impl RestartWay {
    /// Asks for it. Whether it takes place, kube-apiserver itself will show.
    pub(super) async fn ask(&self, asking: Asking) -> Result<(), RestartError> {
        let way = self.clone();
        let asked = spawn_blocking(move || match way {
            Self::Command(command) => run(&command, asking.patience),
            Self::StaticPod(path) => annotate(&path, &asking),
        });
        asked.await.map_err(|_| RestartError::Lost)?
    }
}

fn run(command: &str, patience: Duration) -> Result<(), RestartError> {
    let failed = |source| RestartError::NotRun { command: command.to_owned(), source };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = shell.spawn().map_err(failed)?;
    let started = Instant::now();
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(RestartError::Failed { command: command.to_owned(), status }),
            // It may be about to succeed.
            None if started.elapsed() > patience => {
                return Err(RestartError::TooLong { command: command.to_owned(), patience });
            }
            None => std::thread::sleep(POLL),
        }
    }
}

/// The same files make the same annotation: asked for twice, kubelet restarts once.
fn annotate(path: &Path, asking: &Asking) -> Result<(), RestartError> {
    let text = String::from_utf8_lossy(&read(path, BOUNDS)?).into_owned();
    let mut value = name_of(&asking.files);
    if asking.is_repeated && annotation(&text).as_ref() == Some(&value) {
        value.push_str("-again");
    }
    let changed = annotated(&text, &value)
        .map_err(|problem| RestartError::Manifest { path: path.to_owned(), problem })?;
    if changed != text {
        // Its temporary file begins with a dot: kubelet reads no such manifest. Of root alone, as kubeadm makes it.
        replace(NewFile::private(path.to_owned(), changed.into_bytes().into()), BOUNDS.time)?;
    }
    Ok(())
}

fn name_of(files: &NodeKeys) -> String {
    let kids = files.signs.iter().chain(&files.verifies);
    let text: String = kids.map(|kid| format!("{kid} ")).collect();
    digest(&SHA256, text.as_bytes()).as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Why a restart was not asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// The command cannot be run.
    #[error("cannot run {command:?}: {source}")]
    NotRun {
        /// Which.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The command failed.
    #[error(
        "{command:?} ended with {status}; what it said stands above. Expected one that restarts kube-apiserver"
    )]
    Failed {
        /// Which.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// The command does not end.
    #[error("{command:?} still runs after {} s; it is left alone", patience.as_secs())]
    TooLong {
        /// Which.
        command: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The manifest cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The manifest cannot be changed.
    #[error("{}: {problem}", path.display())]
    Manifest {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: ManifestError,
    },
    /// The work was cut short.
    #[error("the restart was cut short by a fault of ours; it is asked for again")]
    Lost,
}

#[cfg(test)]
mod tests {
    use chancery_core::KeyId;

    use super::*;

    fn asking(is_repeated: bool) -> Asking {
        let signs: KeyId = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        let files = NodeKeys { signs: Some(signs), verifies: std::collections::BTreeSet::new() };
        Asking { files, is_repeated, patience: Duration::from_millis(300) }
    }

    #[tokio::test]
    async fn a_command_is_waited_for_and_its_failure_is_said() {
        let ask = async |command: &str| RestartWay::Command(command.to_owned()).ask(asking(false)).await;
        ask("true").await.unwrap();
        assert!(matches!(ask("exit 3").await, Err(RestartError::Failed { .. })));
        assert!(matches!(ask("sleep 2").await, Err(RestartError::TooLong { .. })));
    }

    #[tokio::test]
    async fn the_same_files_are_annotated_once_and_again_on_purpose_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kube-apiserver.yaml");
        std::fs::write(&path, "kind: Pod\nmetadata:\n  name: a\n").unwrap();
        let way = RestartWay::StaticPod(path.clone());
        let mut values = Vec::new();
        for is_repeated in [false, false, true, true] {
            way.ask(asking(is_repeated)).await.unwrap();
            values.push(annotation(&std::fs::read_to_string(&path).unwrap()).unwrap());
        }
        assert_eq!(values[0], values[1]);
        assert_ne!(values[1], values[2]);
        assert_ne!(values[2], values[3]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing that kubelet could read");
    }
}
