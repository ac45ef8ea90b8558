//! What the documentation shows of the modules is what they take and give.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::source::{Block, MODULES, ROOT, blocks, module_blocks, read, unquoted};

/// What any call of a module may have.
const OF_TERRAFORM: [&str; 4] = ["source", "count", "for_each", "depends_on"];

fn names(module: &str, kind: &str) -> BTreeSet<String> {
    let blocks = module_blocks(module).into_iter().filter(|block| block.kind == kind);
    blocks.map(|block| block.name().to_owned()).collect()
}

/// What a call of a module lacks, or has too much.
fn problems(call: &Block) -> Vec<String> {
    let source = unquoted(&call.attribute("source").unwrap_or_default());
    let Some(module) = MODULES.iter().find(|module| source.ends_with(*module)) else {
        return vec![format!("no module is at {source:?}")];
    };
    let given: BTreeSet<String> = call.arguments().collect();
    let known = names(module, "variable");
    let variables = module_blocks(module).into_iter().filter(|block| block.kind == "variable");
    let required = variables.filter(|block| block.attribute("default").is_none());
    let missing = required.map(|block| block.name().to_owned()).filter(|name| !given.contains(name));
    let unknown =
        given.iter().filter(|name| !known.contains(*name) && !OF_TERRAFORM.contains(&name.as_str()));
    let missing = missing.map(|name| format!("{module} needs {name}"));
    missing.chain(unknown.map(|name| format!("{module} has no variable {name}"))).collect()
}

/// The blocks of HCL that a page shows.
fn shown(page: &Path) -> Vec<Block> {
    let text = read(page);
    let snippets =
        text.split("```hcl\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned());
    snippets.flat_map(|snippet| blocks(&snippet)).collect()
}

#[test]
fn every_call_that_is_shown_is_one_that_the_module_takes() {
    let readmes = MODULES.map(|module| Path::new(ROOT).join(module).join("README.md"));
    let mut calls = 0;
    for page in readmes.iter().map(PathBuf::as_path).chain([Path::new("../docs/terraform.md")]) {
        let here: Vec<_> = shown(page).into_iter().filter(|block| block.kind == "module").collect();
        assert!(!here.is_empty(), "{} shows no module", page.display());
        for call in &here {
            assert_eq!(problems(call), Vec::<String>::new(), "{}", page.display());
        }
        calls += here.len();
    }
    assert!(calls >= 14, "{calls}");
}

#[test]
fn a_call_that_the_module_does_not_take_is_noticed() {
    for bad in [
        "module \"a\" {\n  source = \"./terraform/aws/stores\"\n}\n",
        "module \"a\" {\n  source = \"./terraform/aws/issuer-store\"\n}\n",
        "module \"a\" {\n  source = \"./terraform/aws/issuer-store\"\n  bucket = \"b\"\n  region = \"r\"\n}\n",
    ] {
        assert!(!blocks(bad).iter().flat_map(problems).collect::<Vec<_>>().is_empty(), "{bad}");
    }
}

#[test]
fn every_output_that_the_page_names_is_one() {
    let page = read("../docs/terraform.md");
    let (_, table) = page.split_once("| output | of | goes into |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let first = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    let named: Vec<_> = first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let outputs: BTreeSet<String> = MODULES.iter().flat_map(|module| names(module, "output")).collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        assert!(outputs.contains(&name), "no module has an output {name}");
    }
}

#[test]
fn a_variable_of_several_modules_is_the_same_in_each() {
    let of = |module: &str, name: &str| {
        let mut found = module_blocks(module).into_iter().filter(|block| block.kind == "variable");
        found.find(|block| block.name() == name).map(|block| block.text())
    };
    for (name, modules) in [("sources", 4), ("accepted_issuers", 3), ("api_audiences", 3)] {
        let texts: Vec<_> = MODULES.iter().filter_map(|module| of(module, name)).collect();
        assert_eq!(texts.len(), modules, "{name}");
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{name} differs:\n{}", texts.join("\n\n"));
    }
}
