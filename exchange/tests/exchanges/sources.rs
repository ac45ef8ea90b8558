//! What the sources of the crate never do.

use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn r0_14_a_18_f27_no_process_is_started_and_nothing_is_printed() {
    let sources = files(Path::new("src"));
    assert!(sources.len() > 30, "the sources were found");
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["process::Command", "Command::new", "println!", "print!(", "dbg!"] {
            assert!(!text.contains(word), "{word} in {}", path.display());
        }
    }
}

#[test]
fn the_page_on_conformance_names_tests_that_exist() {
    let root = Path::new("..");
    let folders = ["exchange/src", "exchange/tests", "cli/tests", "tests/tests"]
        .map(|folder| files(&root.join(folder)));
    let sources: String =
        folders.concat().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let page = std::fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let named: Vec<&str> =
        page.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '.', '/', '-'])).collect();
    let tests: Vec<&&str> = named.iter().filter(|name| name.matches('_').count() > 2).collect();
    assert!(tests.len() > 70, "{} tests", tests.len());
    for test in tests {
        assert!(sources.contains(&format!("fn {test}(")), "{test}");
    }
}
