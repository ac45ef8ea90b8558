//! A pod as it came, read where it lies: what we do not know of it stays as it is.

use std::fmt;

use serde_json::Value;

/// The sign of a static pod's image in the API, which kubelet makes and which may have no projected token.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Where nodes say their system, today and in old clusters.
const SYSTEM_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// A pod.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Value);

impl<'a> Pod<'a> {
    fn text(self, pointer: &str) -> Option<&'a str> {
        self.0.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn list(self, pointer: &str) -> &'a [Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Its name. One that a controller makes has only the beginning of one yet.
    pub fn name(self) -> String {
        match (self.text("/metadata/name"), self.text("/metadata/generateName")) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}*"),
            (None, None) => "without a name".to_owned(),
        }
    }

    /// The namespace that it says itself.
    pub fn namespace(self) -> Option<&'a str> {
        self.text("/metadata/namespace")
    }

    /// Its ServiceAccount; nobody is `default`, as for the API server.
    pub fn service_account(self) -> &'a str {
        self.text("/spec/serviceAccountName").or(self.text("/spec/serviceAccount")).unwrap_or("default")
    }

    /// One of its annotations.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// The keys of its annotations.
    pub fn annotation_keys(self) -> impl Iterator<Item = &'a str> {
        let annotations = self.0.pointer("/metadata/annotations").and_then(Value::as_object);
        annotations.into_iter().flatten().map(|(key, _)| key.as_str())
    }

    /// Whether it has annotations at all.
    pub fn has_annotations(self) -> bool {
        self.0.pointer("/metadata/annotations").is_some_and(Value::is_object)
    }

    /// One of its labels.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.0.pointer("/metadata/labels")?.get(key)?.as_str()
    }

    /// The keys of its labels.
    pub fn label_keys(self) -> impl Iterator<Item = &'a str> {
        let labels = self.0.pointer("/metadata/labels").and_then(Value::as_object);
        labels.into_iter().flatten().map(|(key, _)| key.as_str())
    }

    /// Whether it is the image of a static pod.
    pub fn is_mirror(self) -> bool {
        self.annotation(MIRROR).is_some()
    }

    /// Its volumes; `None` where there is no list of them.
    pub fn volumes(self) -> Option<&'a [Value]> {
        self.0.pointer("/spec/volumes").and_then(Value::as_array).map(Vec::as_slice)
    }

    /// Its containers: those that begin it, sidecars among them, and the others.
    pub fn containers(self) -> impl Iterator<Item = Container<'a>> {
        [List::InitContainers, List::Containers].into_iter().flat_map(move |list| {
            let objects = self.list(&format!("/spec/{list}"));
            objects.iter().enumerate().map(move |(index, object)| Container { list, index, object })
        })
    }

    /// Whether it runs on Windows, by whatever says so.
    pub fn is_windows(self) -> bool {
        let selected = |label: &&str| {
            let selector = self.0.pointer("/spec/nodeSelector").and_then(|selector| selector.get(label));
            selector.and_then(Value::as_str) == Some("windows")
        };
        match self.text("/spec/os/name") {
            Some(system) => system == "windows",
            None => SYSTEM_LABELS.iter().any(selected) || self.has_affinity_to_windows(),
        }
    }

    /// Terms are alternatives: it is Windows if each of them demands it.
    fn has_affinity_to_windows(self) -> bool {
        let terms = self.list(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        );
        let demands = |expression: &Value| {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array);
            SYSTEM_LABELS.contains(&text("key"))
                && text("operator") == "In"
                && values.is_some_and(|values| values.iter().all(|value| value == "windows"))
        };
        let is_windows = |term: &Value| {
            let expressions = term.get("matchExpressions").and_then(Value::as_array);
            expressions.is_some_and(|list| list.iter().any(demands))
        };
        !terms.is_empty() && terms.iter().all(is_windows)
    }

    /// The path of a file as a program in it knows it: a mount path has slashes on Windows too, and lies on the system's
    /// drive.
    pub fn path(self, path: &str) -> String {
        if self.is_windows() { format!("C:{}", path.replace('/', "\\")) } else { path.to_owned() }
    }
}

/// Which list a container stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `initContainers`: those that come before the others, and native sidecars.
    InitContainers,
    /// `containers`.
    Containers,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InitContainers => "initContainers",
            Self::Containers => "containers",
        })
    }
}

/// A container.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    /// Its list.
    pub list: List,
    /// Its place in that list.
    pub index: usize,
    object: &'a Value,
}

/// A variable that a container has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present<'a> {
    /// With this value.
    Value(&'a str),
    /// With a value that is known only once it runs.
    Reference,
}

impl<'a> Container<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.object.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn list_of(self, field: &str) -> Option<&'a [Value]> {
        self.object.get(field).and_then(Value::as_array).map(Vec::as_slice)
    }

    /// Whether it has this list, though it may be empty.
    pub fn has(self, field: &str) -> bool {
        self.list_of(field).is_some()
    }

    /// One of its variables. What stands last counts.
    pub fn variable(self, name: &str) -> Option<Present<'a>> {
        let mut variables = self.list_of("env").unwrap_or_default().iter().rev();
        let variable = variables.find(|it| it.get("name").and_then(Value::as_str) == Some(name))?;
        if variable.get("valueFrom").is_some_and(|from| !from.is_null()) {
            return Some(Present::Reference);
        }
        Some(Present::Value(variable.get("value").and_then(Value::as_str).unwrap_or_default()))
    }

    /// What is mounted at a path.
    pub fn mounted_at(self, path: &str) -> Option<Mounted<'a>> {
        let is_here = |object: &&Value, field: &str| {
            let there = object.get(field).and_then(Value::as_str).unwrap_or_default();
            normalized(there) == normalized(path)
        };
        let mount = self.list_of("volumeMounts")?.iter().find(|mount| is_here(mount, "mountPath"));
        if let Some(mount) = mount {
            let field = |field: &str| mount.get(field).and_then(Value::as_str).unwrap_or_default();
            let is_part = !field("subPath").is_empty() || !field("subPathExpr").is_empty();
            return Some(Mounted { volume: field("name"), is_whole: !is_part });
        }
        let mut devices = self.list_of("volumeDevices").unwrap_or_default().iter();
        devices.find(|device| is_here(device, "devicePath"))?;
        Some(Mounted { volume: "", is_whole: false })
    }
}

/// What a container has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mounted<'a> {
    /// Which volume.
    pub volume: &'a str,
    /// Whether the path is the volume's root.
    pub is_whole: bool,
}

/// A path as the container runtime takes it: the API server compares letters, so that `/a/` beside `/a` would pass there
/// and one would hide the other.
fn normalized(path: &str) -> String {
    path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}
