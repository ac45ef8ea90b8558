//! The tables of each module's README are made of its files.

use std::fmt::Write as _;
use std::path::Path;

use crate::source::{Block, MODULES, ROOT, module_blocks, read, unquoted};

const BEGIN: &str = "<!-- BEGIN_TF_DOCS -->\n";
const END: &str = "<!-- END_TF_DOCS -->\n";
/// Set, the READMEs are written instead of compared: `terraform/readmes`.
const WRITE: &str = "CHANCERY_WRITE_READMES";

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.trim_end().replace('|', "\\|").replace('\n', "<br>")
}

/// Code in a cell: of several lines as it is written.
fn code(written: &str) -> String {
    match written.contains('\n') {
        true => format!("<pre>{}</pre>", cell(written)),
        false => format!("`{}`", written.replace('|', "\\|")),
    }
}

fn described(block: &Block, module: &str) -> String {
    let written = block.attribute("description");
    cell(&unquoted(&written.unwrap_or_else(|| panic!("{module}: {} has no description", block.name()))))
}

fn requirements(blocks: &[Block]) -> String {
    let terraform = blocks.iter().find(|block| block.kind == "terraform").unwrap();
    let mut table = "| Name | Version |\n|---|---|\n".to_owned();
    let version = unquoted(&terraform.attribute("required_version").unwrap());
    writeln!(table, "| terraform | {version} |").unwrap();
    let text = terraform.text();
    let (_, providers) = text.split_once("required_providers {").unwrap();
    let mut name = "";
    for line in providers.lines().map(str::trim) {
        let Some((left, right)) = line.split_once('=') else { continue };
        match left.trim() {
            "version" => writeln!(table, "| {name} | {} |", unquoted(right.trim())).unwrap(),
            "source" => {}
            provider => name = provider,
        }
    }
    table
}

fn tables(module: &str) -> String {
    let blocks = module_blocks(module);
    let of = |kind: &'static str| {
        let mut of: Vec<&Block> = blocks.iter().filter(|block| block.kind == kind).collect();
        of.sort_by_key(|block| block.labels.clone());
        of
    };
    let mut text =
        format!("## Requirements\n\n{}\n## Resources\n\n| Name | Type |\n|---|---|\n", requirements(&blocks));
    for (kind, called) in [("resource", "resource"), ("data", "data source")] {
        of(kind)
            .iter()
            .for_each(|block| writeln!(text, "| {} | {called} |", block.labels.join(".")).unwrap());
    }
    text += "\n## Inputs\n\n| Name | Description | Type | Default | Required |\n|---|---|---|---|:---:|\n";
    for block in of("variable") {
        let (default, required) =
            block.attribute("default").map_or(("n/a".to_owned(), "yes"), |default| (code(&default), "no"));
        let kind = code(&block.attribute("type").unwrap());
        let said = described(block, module);
        writeln!(text, "| {} | {said} | {kind} | {default} | {required} |", block.name()).unwrap();
    }
    text += "\n## Outputs\n\n| Name | Description |\n|---|---|\n";
    for block in of("output") {
        writeln!(text, "| {} | {} |", block.name(), described(block, module)).unwrap();
    }
    text
}

#[test]
fn the_tables_of_readmes_are_those_of_the_modules() {
    for module in MODULES {
        let path = Path::new(ROOT).join(module).join("README.md");
        let readme = read(&path);
        let (head, rest) = readme.split_once(BEGIN).unwrap_or_else(|| panic!("{module}: no {BEGIN}"));
        let (shown, tail) = rest.split_once(END).unwrap_or_else(|| panic!("{module}: no {END}"));
        let tables = tables(module);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, format!("{head}{BEGIN}{tables}{END}{tail}")).unwrap();
            continue;
        }
        assert_eq!(shown, tables, "{}: run terraform/readmes", path.display());
    }
}
