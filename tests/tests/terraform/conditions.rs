//! Each refusal of the modules is one that a test of theirs expects.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use e2e::binary;

use crate::source::{MODULES, files, read};
use crate::stage::{SERVERS, Stage};

/// A file without one of the conditions that it begins with, and where that stood.
fn without_each_condition(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| matches!(line.trim(), "validation {" | "precondition {");
    let starts = lines.iter().enumerate().filter(|(_, line)| begins(line)).map(|(start, _)| start);
    let without = |start: usize| {
        let indent = lines[start].len() - lines[start].trim_start().len();
        let last = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|line| *line == last).unwrap_or_default();
        let rest = lines[..start].iter().chain(&lines[start + length + 1..]);
        (start + 1, rest.map(|line| format!("{line}\n")).collect())
    };
    starts.map(without).collect()
}

#[test]
fn one_condition_is_taken_away_at_a_time() {
    let text = "a {\n  validation {\n    condition = x({\n    })\n  }\n\n  validation {\n    y\n  }\n}\n";
    let texts = without_each_condition(text);
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], (2, "a {\n\n  validation {\n    y\n  }\n}\n".to_owned()));
    assert_eq!(texts[1], (7, "a {\n  validation {\n    condition = x({\n    })\n  }\n\n}\n".to_owned()));
}

#[test]
#[ignore = "needs Terraform, which builds for minutes: make soak"]
fn a_condition_that_is_taken_away_is_missed_by_a_test_of_its_module() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let stage = Stage::new()?;
    let mut taken = 0;
    let mut unnoticed = Vec::new();
    for module in MODULES {
        stage.init(module)?;
        for file in own_files(&stage.modules().join(module)) {
            let text = read(&file);
            for (line, without) in without_each_condition(&text) {
                std::fs::write(&file, without)?;
                let tested = stage.terraform(module, &["test", "-no-color"])?;
                if !tested.said.contains("Missing expected failure") {
                    unnoticed.push(format!("{}:{line}", file.display()));
                }
                taken += 1;
            }
            std::fs::write(&file, &text)?;
        }
        stage.terraform(module, &["test", "-no-color"])?.success()?;
    }
    ensure!(unnoticed.is_empty(), "nobody misses the conditions at {unnoticed:#?}");
    println!("{taken} conditions");
    assert!(taken > 50, "{taken}");
    Ok(())
}

fn own_files(folder: &Path) -> Vec<PathBuf> {
    files(folder, ".tf").into_iter().filter(|path| path.parent() == Some(folder)).collect()
}
