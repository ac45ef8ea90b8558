//! What is written down twice is the same.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::helm::CHART;

#[test]
fn the_readme_says_what_values_there_are() -> Result<()> {
    let printed = Command::new("../charts/readme").arg("--print").output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let there = std::fs::read_to_string(format!("{CHART}/README.md"))?;
    let printed = String::from_utf8(printed.stdout)?;
    ensure!(printed == there, "charts/chancery/README.md is not what values.yaml says; run charts/readme");
    ensure!(printed.contains("| `webhook.certificate.mode` | `self` |"), "{printed}");
    Ok(())
}

#[test]
fn the_definitions_are_those_of_the_repository() -> Result<()> {
    let read = |folder: &str| {
        let files = std::fs::read_dir(folder)?.map(|entry| {
            let path = entry?.path();
            anyhow::Ok((path.file_name().map(ToOwned::to_owned), std::fs::read_to_string(&path)?))
        });
        files.collect::<Result<std::collections::BTreeMap<_, _>>>()
    };
    let (ours, theirs) = (read(&format!("{CHART}/files/crds"))?, read("../deploy/crds")?);
    ensure!(!theirs.is_empty() && ours == theirs, "charts/chancery/files/crds is not deploy/crds; copy it");
    Ok(())
}
