//! What is added to a pod, and why: for each container by itself, since some have what they need already.
//!
//! What is there is recognised by what it is (the file at a mount path, the value of a variable), never by a name that we
//! would have given: a pod that comes a second time, renamed and with further containers, gets what is missing and no
//! more.

use std::collections::BTreeSet;

use chancery_core::quoted::quoted;
use serde_json::Value;

use crate::cloud::{Cloud, File, Identity, Variable};
use crate::pod::{Container, List, Pod, Present};

/// Everything that is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What the pod asks for: each cloud, and by what it is asked.
    pub asked: Vec<(Cloud, String)>,
    /// Annotations of the pod.
    pub annotations: Vec<(String, String)>,
    /// Volumes, and what is in them, in words.
    pub volumes: Vec<PlannedVolume>,
    /// What each container gets.
    pub containers: Vec<PlannedContainer>,
}

/// A volume that is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVolume {
    /// As the pod gets it.
    pub volume: Value,
    /// What is in it, in words.
    pub content: String,
}

/// What one container gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedContainer {
    /// Its list.
    pub list: List,
    /// Its place in it.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Whether it has mounts, and variables, to which these are added.
    pub has: (bool, bool),
    /// Volume and mount path of each mount.
    pub mounts: Vec<(String, String)>,
    /// Variables in their order.
    pub variables: Vec<Variable>,
    /// Why it gets nothing of a cloud.
    pub left_out: Vec<(Cloud, String)>,
}

impl Plan {
    /// Whether nothing is added.
    pub fn is_empty(&self) -> bool {
        let adds = |it: &PlannedContainer| !it.mounts.is_empty() || !it.variables.is_empty();
        self.annotations.is_empty() && self.volumes.is_empty() && !self.containers.iter().any(adds)
    }

    /// The clouds whose credentials a container of the pod gets, or has got already.
    pub fn clouds(&self) -> BTreeSet<Cloud> {
        let asked = self.asked.iter().map(|(cloud, _)| *cloud);
        let nobody = |cloud: &Cloud| {
            self.containers.iter().all(|it| it.left_out.iter().any(|(left_out, _)| left_out == cloud))
        };
        asked.filter(|cloud| !nobody(cloud)).collect()
    }
}

/// What a pod gets of what it asks for. What could not be added without damage is left out with a warning.
pub fn plan(pod: Pod<'_>, identities: &[Identity], warnings: &mut Vec<String>) -> Plan {
    let mut plan = Plan {
        asked: identities.iter().map(|it| (it.cloud, it.because.clone())).collect(),
        ..Plan::default()
    };
    plan.containers.extend(pod.containers().map(|container| PlannedContainer {
        list: container.list,
        index: container.index,
        name: container.name().to_owned(),
        has: (container.has("volumeMounts"), container.has("env")),
        mounts: Vec::new(),
        variables: Vec::new(),
        left_out: Vec::new(),
    }));
    let mut names: BTreeSet<String> =
        pod.volumes().unwrap_or_default().iter().filter_map(name_of).map(str::to_owned).collect();
    for identity in identities {
        let volumes: Vec<Volume> =
            identity.files.iter().map(|file| Volume::choose(pod, file, &mut names)).collect();
        let mut is_served = false;
        for (container, planned) in pod.containers().zip(&mut plan.containers) {
            let left_out = match serve(pod, container, (identity, &volumes)) {
                Served::As { mounts, variables } => {
                    planned.mounts.extend(mounts);
                    planned.variables.extend(variables);
                    is_served = true;
                    continue;
                }
                Served::Not(why) => why,
                Served::Conflict(why) => {
                    warnings.push(format!("container {}: {why}", quoted(container.name())));
                    why
                }
            };
            planned.left_out.push((identity.cloud, left_out));
        }
        if is_served {
            let files = volumes.iter().zip(&identity.files).filter(|(volume, _)| volume.is_new);
            plan.volumes.extend(files.map(|(volume, file)| PlannedVolume {
                volume: file.source.volume(&volume.name),
                content: file.source.to_string(),
            }));
            plan.annotations.extend(missing_annotations(pod, identity, warnings));
        }
    }
    plan
}

fn name_of(volume: &Value) -> Option<&str> {
    volume.get("name").and_then(Value::as_str)
}

/// Which volume shows a file.
struct Volume {
    name: String,
    is_new: bool,
}

impl Volume {
    /// One that shows it already, or a new one with a name that nobody has.
    fn choose(pod: Pod<'_>, file: &File, names: &mut BTreeSet<String>) -> Self {
        let volumes = pod.volumes().unwrap_or_default();
        if let Some(name) = volumes.iter().find(|volume| file.source.is_in(volume)).and_then(name_of) {
            return Self { name: name.to_owned(), is_new: false };
        }
        let numbered = (2..).map(|number| format!("{}-{number}", file.volume));
        let mut candidates = std::iter::once(file.volume.to_owned()).chain(numbered);
        let name = candidates.find(|name| !names.contains(name)).unwrap_or_default();
        names.insert(name.clone());
        Self { name, is_new: true }
    }
}

/// What a container gets of one cloud.
enum Served {
    /// The mounts, as volume and path, and the variables that it lacks.
    As { mounts: Vec<(String, String)>, variables: Vec<Variable> },
    /// Nothing, as it wants it.
    Not(String),
    /// Nothing, since it would damage what it has.
    Conflict(String),
}

fn serve(pod: Pod<'_>, container: Container<'_>, (identity, volumes): (&Identity, &[Volume])) -> Served {
    if identity.skipped.contains(container.name()) {
        return Served::Not("an annotation of the pod leaves it out".to_owned());
    }
    let Some(mut credentials) = credentials(container, identity) else {
        let pointer = identity.credentials.pointer.name;
        return Served::Not(format!("it has credentials of its own ({pointer}, or a variable beside it)"));
    };
    let mut mounts = Vec::new();
    for (file, volume) in identity.files.iter().zip(volumes) {
        let path = &file.mount_path;
        match container.mounted_at(path) {
            None => mounts.push((volume.name.clone(), path.clone())),
            Some(mounted) if mounted.is_whole && shows(pod, mounted.volume, file) => {}
            // Written in advance, for the volume that we are to add.
            Some(mounted) if mounted.is_whole && volume.is_new && mounted.volume == volume.name => {}
            Some(_) => {
                let why = format!(
                    "{path} is mounted already, from another volume; it gets nothing of {}. Mount that elsewhere",
                    identity.cloud
                );
                return Served::Conflict(why);
            }
        }
    }
    let mut variables: Vec<Variable> = Vec::new();
    for group in &identity.settings {
        if group.iter().all(|variable| container.variable(variable.name).is_none()) {
            variables.extend(group.iter().cloned());
        }
    }
    variables.append(&mut credentials);
    Served::As { mounts, variables }
}

/// Those of the variables of its credentials that a container lacks; `None` if it has credentials of its own. Who points
/// at our file without having it wants it, perhaps for another role.
fn credentials(container: Container<'_>, identity: &Identity) -> Option<Vec<Variable>> {
    let credentials = &identity.credentials;
    let is_ours = |variable: &Variable| {
        let present = container.variable(variable.name)?;
        Some(present == Present::Value(&variable.value))
    };
    match is_ours(&credentials.pointer) {
        Some(false) => return None,
        None if credentials.others.iter().any(|other| is_ours(other) == Some(false)) => return None,
        _ => {}
    }
    let all = credentials.others.iter().chain([&credentials.pointer]);
    Some(all.filter(|variable| container.variable(variable.name).is_none()).cloned().collect())
}

/// Whether the volume of this name shows the file.
fn shows(pod: Pod<'_>, volume: &str, file: &File) -> bool {
    let mut volumes = pod.volumes().unwrap_or_default().iter();
    volumes.any(|it| name_of(it) == Some(volume) && file.source.is_in(it))
}

/// One that the pod has with another value stays: the file is then what the pod says.
fn missing_annotations(
    pod: Pod<'_>,
    identity: &Identity,
    warnings: &mut Vec<String>,
) -> Vec<(String, String)> {
    let mut missing = Vec::new();
    for (key, value) in &identity.annotations {
        match pod.annotation(key) {
            None => missing.push((key.clone(), value.clone())),
            Some(there) if there == value => {}
            Some(_) => warnings.push(format!(
                "the pod has {key} already, and it is not what its ServiceAccount says; it stays. Take it out of the pod"
            )),
        }
    }
    missing
}
