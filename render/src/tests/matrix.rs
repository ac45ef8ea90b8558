//! The whole table as Markdown: what each version of each distribution is given in each phase.

use super::sample;
use crate::distribution::Distribution;
use crate::error::RenderError;
use crate::output::Rendered;
use crate::request::{Phase, Request};
use crate::row::{Form, KeyChange, Row};

/// The table, with what is refused and why below it. Every cell is what a request is answered with.
pub fn matrix() -> String {
    let mut text = "| distribution | from version | told by | new | accept | switch, wait | drop | another key |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    let mut reasons: Vec<String> = Vec::new();
    for distribution in Distribution::all() {
        let row = distribution.row();
        for form in row.forms {
            let mut cells = vec![format!("`{}`", row.name), version(row, form), form.how.to_owned()];
            for phase in [None, Some(Phase::Accept), Some(Phase::Switch), Some(Phase::Drop)] {
                cells.push(cell(distribution.render(&request(form, phase)), &mut reasons));
            }
            cells.push(match &form.keys {
                KeyChange::Files => "files".to_owned(),
                KeyChange::Tool => "its tool".to_owned(),
                KeyChange::No { why, remedy } => {
                    noted(format!("{}: {why}; {remedy}", row.title), &mut reasons)
                }
            });
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text.push('\n');
    for (number, reason) in reasons.iter().enumerate() {
        text.push_str(&format!("{}. {reason}\n", number + 1));
    }
    text
}

fn version(row: &Row, form: &Form) -> String {
    format!("{} {}", row.version_of, form.since)
}

fn cell(answer: Result<Rendered, RenderError>, reasons: &mut Vec<String>) -> String {
    match answer {
        Ok(rendered) => {
            let names = rendered.files.iter().map(|file| file.path.rsplit('/').next().unwrap_or_default());
            names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
        Err(error) => noted(error.to_string(), reasons),
    }
}

/// A cell that says no, with the number of its reason.
fn noted(reason: String, reasons: &mut Vec<String>) -> String {
    let position = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    format!("no ({})", position + 1)
}

fn request(form: &Form, phase: Option<Phase>) -> Request {
    Request { version: Some(form.since), ..sample(phase) }
}
