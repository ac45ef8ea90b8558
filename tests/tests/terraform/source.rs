//! The files of the modules and their blocks, as far as formatted text shows them.

use std::path::{Path, PathBuf};

/// Where the modules lie.
pub const ROOT: &str = "../terraform";

/// The modules, as folders of [`ROOT`].
pub const MODULES: [&str; 6] =
    ["aws/issuer-store", "aws/trust", "azure/issuer-store", "azure/trust", "gcp/issuer-store", "gcp/trust"];

/// The examples, as folders of [`ROOT`].
pub const EXAMPLES: [&str; 5] =
    ["examples/aws", "examples/aws-cloudfront", "examples/azure", "examples/gcp", "examples/gcp-private"];

pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder whose names end so, in the order of their names. Terraform's own folders are passed over.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut entries: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let below = |path: PathBuf| match path.is_dir() {
        true if path.ends_with(".terraform") => vec![],
        true => files(&path, end),
        false => Vec::from_iter(path.to_string_lossy().ends_with(end).then_some(path)),
    };
    entries.into_iter().flat_map(below).collect()
}

/// A block at the outermost level of a file.
#[derive(Debug)]
pub struct Block {
    /// `resource`, `variable` and so on.
    pub kind: String,
    /// The labels, without quotation marks.
    pub labels: Vec<String>,
    lines: Vec<String>,
}

/// The blocks of a formatted file.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (head, rest) =
            line.split_once('{').unwrap_or_else(|| panic!("neither block nor comment: {line}"));
        let mut words = head.split_whitespace().map(|word| word.trim_matches('"').to_owned());
        let kind = words.next().unwrap();
        let body = match rest {
            "}" => vec![],
            _ => lines.by_ref().take_while(|line| *line != "}").map(str::to_owned).collect(),
        };
        found.push(Block { kind, labels: words.collect(), lines: body });
    }
    found
}

/// The blocks of a module's own files.
pub fn module_blocks(module: &str) -> Vec<Block> {
    let folder = Path::new(ROOT).join(module);
    let own = files(&folder, ".tf").into_iter().filter(|path| path.parent() == Some(&folder));
    own.flat_map(|path| blocks(&read(path))).collect()
}

impl Block {
    /// The block's last label.
    pub fn name(&self) -> &str {
        self.labels.last().map_or("", String::as_str)
    }

    /// All of it.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// The names of the attributes of the block itself.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        let own = self.lines.iter().filter_map(|line| line.strip_prefix("  "));
        let own = own.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        own.filter_map(|line| Some(line.split_once('=')?.0.trim_end().to_owned()))
    }

    /// The value of an attribute of the block itself as it is written, a value of several lines without its indentation.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let of_line = |line: &str| {
            let (left, right) = line.strip_prefix("  ")?.split_once('=')?;
            (left.trim_end() == name).then(|| right.trim().to_owned())
        };
        let (at, first) = self.lines.iter().enumerate().find_map(|(at, line)| Some((at, of_line(line)?)))?;
        let rest = self.lines.iter().skip(at + 1);
        let unindented = |line: &String| line.strip_prefix("  ").unwrap_or(line).to_owned();
        if let Some(end) = first.strip_prefix("<<-") {
            let text = rest.map(|line| line.trim_start().to_owned()).take_while(|line| line != end);
            return Some(text.collect::<Vec<_>>().join("\n"));
        }
        let mut value = vec![first];
        let mut open = depth(&value[0]);
        for line in rest.map(unindented) {
            if open == 0 {
                break;
            }
            open += depth(&line);
            value.push(line);
        }
        Some(value.join("\n"))
    }
}

/// How many brackets a line leaves open.
fn depth(line: &str) -> i32 {
    line.chars()
        .map(|character| match character {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        })
        .sum()
}

/// The text of a string as it is written: without its quotation marks and escapes.
pub fn unquoted(written: &str) -> String {
    let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| written.to_owned(), |text| text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[test]
fn a_file_is_read_as_terraform_reads_it() {
    let text = "# A comment.\ndata \"x\" \"now\" {}\n\nvariable \"roles\" {\n  description = <<-EOT\n    First.\n\n    - second\n  EOT\n  type = map(object({\n    name = string\n  }))\n  default  = {}\n  nullable = false\n\n  validation {\n    condition = true\n  }\n}\n";
    let blocks = blocks(text);
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].kind.as_str(), blocks[0].labels.join(".")), ("data", "x.now".to_owned()));
    let roles = &blocks[1];
    assert_eq!(roles.name(), "roles");
    assert_eq!(roles.attribute("description").unwrap(), "First.\n\n- second");
    assert_eq!(roles.attribute("type").unwrap(), "map(object({\n  name = string\n}))");
    assert_eq!(roles.attribute("default").unwrap(), "{}");
    assert_eq!(roles.attribute("condition"), None, "of a block within it");
    assert_eq!(unquoted(r#""a \"b\"""#), "a \"b\"");
}
