//! A plan for a person.

use std::fmt;

use super::ApiServer;
use super::plan::{Phase, Plan, Progress, Shown, Step};

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Publish => "publish",
            Self::Register => "register",
            Self::Accept => "accept",
            Self::Switch => "switch",
            Self::Wait => "wait",
            Self::Drop => "drop",
            Self::Deregister => "deregister",
            Self::Unpublish => "unpublish",
        })
    }
}

impl fmt::Display for Plan {
    /// What each replica shows, what is out of order, and the steps. Of those that are done or blocked, what to type is left
    /// out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, api_servers, problems, steps } = self;
        writeln!(f, "from  {from}\nto    {to}\n")?;
        for (name, asked) in api_servers {
            match asked {
                Shown::Seen(seen) => {
                    writeln!(f, "{name}  signs for {}, accepts {}", seen.signs_for, self.accepted(seen))?;
                }
                Shown::Unseen { problem } => writeln!(f, "{name}  is not known: {problem}")?,
            }
        }
        for problem in problems {
            writeln!(f, "\nOUT OF ORDER  {}\n  remedy: {}", problem.what, problem.remedy)?;
        }
        let mut phase = None;
        for step in steps {
            if phase.replace(step.phase) != Some(step.phase) {
                writeln!(f)?;
            }
            write!(f, "{step}")?;
        }
        if self.is_done() {
            writeln!(f, "\nnothing is left to do")?;
        }
        Ok(())
    }
}

impl Plan {
    fn accepted(&self, seen: &ApiServer) -> &str {
        match (seen.accepts_from, seen.accepts_to) {
            (true, true) => "both",
            (true, false) => "the old one alone",
            (false, true) => "the new one alone",
            (false, false) => "neither",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, what, because, progress, how, check } = self;
        let word = match progress {
            Progress::Done => "done",
            Progress::ToDo => "TO DO",
            Progress::Waiting { .. } => "waiting",
            Progress::Blocked { .. } => "blocked",
        };
        writeln!(f, "{phase:<10}  {word:<7}  {what}")?;
        match progress {
            Progress::Done => {}
            Progress::Blocked { by } => by.iter().try_for_each(|by| writeln!(f, "{:21}- {by}", ""))?,
            Progress::ToDo | Progress::Waiting { .. } => {
                writeln!(f, "{:21}since {because}", "")?;
                how.iter().try_for_each(|how| writeln!(f, "{:21}    {how}", ""))?;
                writeln!(f, "{:21}check: {check}", "")?;
            }
        }
        Ok(())
    }
}
