//! The files are formatted as Terraform formats them, as far as text shows it, and pin what they build on by ranges.

use std::path::Path;

use crate::source::{Block, EXAMPLES, MODULES, ROOT, files, module_blocks, read, unquoted};

/// What Terraform would format otherwise, with its line.
fn unformatted(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut refuse =
        |number: usize, what: &str, line: &str| problems.push(format!("line {}: {what}: {line}", number + 1));
    let mut aligned: Option<(usize, usize)> = None;
    let mut heredoc: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        if line.contains('\t') || line.ends_with(' ') {
            refuse(number, "white space", line);
        }
        if let Some(end) = &heredoc {
            if line.trim() == end {
                heredoc = None;
            }
            continue;
        }
        heredoc = line.split_once("<<-").map(|(_, end)| end.to_owned());
        let indent = line.len() - line.trim_start().len();
        if indent % 2 != 0 {
            refuse(number, "indentation", line);
        }
        let assignment = assignment(line).map(|column| (indent, column));
        if let (Some((before, column)), Some((now, here))) = (aligned, assignment)
            && before == now
            && column != here
        {
            refuse(number, "alignment", line);
        }
        aligned = assignment;
    }
    if !text.ends_with('\n') || text.ends_with("\n\n") {
        problems.push("the end of the file".to_owned());
    }
    problems
}

/// The column of the `=` of an attribute whose value ends in its line.
fn assignment(line: &str) -> Option<usize> {
    let (left, right) = line.split_once('=')?;
    let name = left.trim();
    let quoted = name.strip_prefix('"').map(|rest| rest.ends_with('"'));
    let plain = || !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let is_name = quoted.unwrap_or_else(plain);
    let open: i32 = right.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum();
    (is_name && open == 0 && !right.starts_with(['=', '>']) && !right.contains("<<-")).then_some(left.len())
}

#[test]
fn files_are_formatted() {
    let mut files_seen = 0;
    for path in [files(Path::new(ROOT), ".tf"), files(Path::new(ROOT), ".hcl")].concat() {
        let problems = unformatted(&read(&path));
        assert!(problems.is_empty(), "{}: run terraform fmt\n{}", path.display(), problems.join("\n"));
        files_seen += 1;
    }
    assert!(files_seen >= 30, "{files_seen} files");
}

#[test]
fn what_is_not_formatted_is_noticed() {
    for bad in [
        "a {\n\tb = 1\n}\n",
        "a {\n  b = 1 \n}\n",
        "a {\n b = 1\n}\n",
        "a {\n  b = 1\n  long = 2\n}\n",
        "a {}",
        "a {}\n\n",
    ] {
        assert!(!unformatted(bad).is_empty(), "{bad:?}");
    }
    let good = "a {\n  b    = 1\n  long = 2\n\n  other = <<-EOT\n   odd\n  EOT\n  type = map({\n    c = 1\n  })\n}\n";
    assert_eq!(unformatted(good), Vec::<String>::new());
}

#[test]
fn versions_are_ranges_and_an_example_asks_for_those_of_its_modules() {
    for folder in MODULES.iter().chain(&EXAMPLES) {
        let blocks = module_blocks(folder);
        let terraform = blocks.iter().find(|block| block.kind == "terraform").unwrap();
        let version = unquoted(&terraform.attribute("required_version").unwrap());
        assert_eq!(
            version, ">= 1.9, < 2.0",
            "{folder}: validations that speak of other variables are of 1.9"
        );
        let text = terraform.text();
        let ranges: Vec<_> = text.lines().filter(|line| line.trim().starts_with("version ")).collect();
        assert!(
            ranges.len() == 1 && ranges[0].contains(">= ") && ranges[0].contains(", < "),
            "{folder}: {ranges:?}"
        );
        let cloud = folder.trim_start_matches("examples/").split(['/', '-']).next().unwrap();
        let modules = MODULES.iter().filter(|module| module.starts_with(cloud));
        for module in modules {
            let of_module: String = module_blocks(module).iter().map(Block::text).collect();
            assert!(of_module.contains(ranges[0]), "{folder} and {module} ask for different versions");
        }
    }
}
