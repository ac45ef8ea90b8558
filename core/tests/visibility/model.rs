//! The record held against a model that keeps the whole history.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Elapse(u64),
    Observe {
        edges: Vec<EdgeObservation>,
        took: u64,
    },
    /// Our own writer reads what stands behind the view.
    Origin(Vec<u8>),
    Restart,
}

fn any_keys() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![vec![], vec![1], vec![1], vec![1], vec![1, 2], vec![1, 2], vec![2]])
}

fn any_edge() -> impl Strategy<Value = EdgeObservation> {
    prop_oneof![6 => any_keys().prop_map(|kids| read(&kids)), 1 => Just(down())]
}

fn any_op() -> impl Strategy<Value = Op> {
    let observe = (prop::collection::vec(any_edge(), 0..4), 0u64..20);
    prop_oneof![
        4 => (0u64..80).prop_map(Op::Elapse),
        1 => (0u64..400).prop_map(Op::Elapse),
        6 => observe.prop_map(|(edges, took)| Op::Observe { edges, took }),
        2 => any_keys().prop_map(Op::Origin),
        1 => Just(Op::Restart),
    ]
}

fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any_op(), 1..40)
}

/// What each observation said of key 1.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    /// Every edge was read and shows it, and so does the origin, as far as that is known.
    Everywhere,
    Nothing,
    Gap,
    Restart,
}

/// One entry of the history, with start and end on a clock that also runs on while nobody looks.
struct Event {
    said: Said,
    start: u64,
    end: u64,
}

/// The accumulated and the unbroken time by the definition: stretches of observations that show the key everywhere,
/// no two of them further apart than the longest gap, each from the end of its first to the start of its last.
fn by_definition(history: &[Event]) -> (u64, u64) {
    let after_gap = history.iter().rposition(|event| event.said == Said::Gap).map_or(0, |gap| gap + 1);
    let mut stretches: Vec<Vec<&Event>> = vec![Vec::new()];
    for event in &history[after_gap..] {
        let last = stretches.last_mut().expect("one at least");
        let connects = last.last().is_none_or(|before| event.end - before.end <= GAP.as_secs());
        match event.said {
            Said::Everywhere if connects => last.push(event),
            Said::Everywhere => stretches.push(vec![event]),
            Said::Restart => stretches.push(Vec::new()),
            Said::Nothing | Said::Gap => {}
        }
    }
    let length = |stretch: &Vec<&Event>| match (stretch.first(), stretch.last()) {
        (Some(first), Some(last)) => last.start.saturating_sub(first.end),
        _ => 0,
    };
    (stretches.iter().map(length).sum(), stretches.last().map_or(0, length))
}

/// The record, and what the model knows of key 1.
struct Both {
    record: Visibility,
    now: u64,
    history: Vec<Event>,
    /// When the origin was last read without the key, if not with it since.
    lost_at: Option<u64>,
}

impl Both {
    fn run(ops: &[Op]) -> Self {
        let mut both = Self { record: record(), now: 0, history: Vec::new(), lost_at: None };
        ops.iter().for_each(|op| both.take(op));
        both
    }

    fn note(&mut self, said: Said, start: u64) {
        self.history.push(Event { said, start, end: self.now });
    }

    fn take(&mut self, op: &Op) {
        match op {
            Op::Elapse(time) => {
                self.now += time;
                self.record.elapse(seconds(*time));
            }
            Op::Observe { edges, took } => {
                let start = self.now;
                self.now += took;
                self.record.elapse(seconds(*took));
                self.record.observe(Observation { took: seconds(*took), ..observation(edges) });
                self.note(self.said(edges), start);
            }
            Op::Origin(kids) => {
                self.record.observe_origin(origin(kids));
                self.lost_at = (!kids.contains(&1)).then_some(self.now);
                if self.lost_at.is_some() {
                    self.note(Said::Gap, self.now);
                }
            }
            Op::Restart => {
                self.record = restarted(&self.record);
                self.lost_at = None;
                self.note(Said::Restart, self.now);
            }
        }
    }

    fn said(&self, edges: &[EdgeObservation]) -> Said {
        let shows = |edge: &EdgeObservation| match edge {
            EdgeObservation::Read(keys) => Some(keys.kids.contains(&id(1))),
            EdgeObservation::Unreadable(_) => None,
        };
        let origin_lacks_it = self.lost_at.is_some_and(|lost_at| self.now - lost_at <= GAP.as_secs());
        match edges.iter().map(shows).collect::<Vec<_>>() {
            shown if shown.contains(&Some(false)) => Said::Gap,
            shown if shown.is_empty() || shown.contains(&None) || origin_lacks_it => Said::Nothing,
            _ => Said::Everywhere,
        }
    }

    fn times(&self) -> (u64, u64) {
        (visible_for(&self.record, 1).unwrap_or_default(), unbroken(&self.record, 1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// The proven times are those of the definition, after any history with any restarts, and never more than passed.
    #[test]
    fn the_proven_times_are_those_of_the_definition(ops in any_ops()) {
        let both = Both::run(&ops);
        let (visible, unbroken) = both.times();
        let (expected, stretch) = by_definition(&both.history);
        prop_assert_eq!(visible, expected);
        // A broken stretch is forgotten with the next observation at the latest.
        prop_assert!(unbroken == stretch || stretch == 0, "{} {}", unbroken, stretch);
        prop_assert!(unbroken <= visible && visible <= both.now);
    }

    /// No single operation adds more than the longest gap and what an observation takes, which the next one confirms;
    /// time alone adds nothing.
    #[test]
    fn no_operation_makes_time_jump(ops in any_ops()) {
        let takes = |op: &Op| if let Op::Observe { took, .. } = op { *took } else { 0 };
        let longest = GAP.as_secs() + ops.iter().map(takes).max().unwrap_or_default();
        let before = Both::run(&ops[..ops.len() - 1]).times().0;
        let after = Both::run(&ops).times().0;
        match ops.last() {
            Some(Op::Observe { .. }) => prop_assert!(after <= before + longest),
            // A writer that misses a key takes its time away.
            Some(Op::Origin(_)) => prop_assert!(after <= before),
            _ => prop_assert_eq!(after, before),
        }
    }

    /// A delay anywhere never lets a key pass sooner: whatever passes after it would have passed without it.
    #[test]
    fn a_delay_never_helps(ops in any_ops(), at in 0usize..40, delay in 0u64..1000) {
        let mut delayed = ops.clone();
        delayed.insert(at.min(ops.len()), Op::Elapse(delay));
        let (with, without) = (Both::run(&delayed).times().0, Both::run(&ops).times().0);
        // A delay that stays within the longest gap is observed time like any other; one that lets a reading of the
        // origin grow too old is bounded by what the observations after it prove.
        let gained = with.saturating_sub(without);
        let lost_sight = ops.iter().any(|op| matches!(op, Op::Origin(_)));
        prop_assert!(lost_sight || gained <= delay && gained <= GAP.as_secs());
    }

    /// A gap resets the key whatever came before.
    #[test]
    fn a_gap_always_resets(ops in any_ops(), mut edges in prop::collection::vec(any_edge(), 0..3)) {
        let mut record = Both::run(&ops).record;
        edges.push(read(&[2]));
        record.observe(observation(&edges));
        prop_assert_eq!(visible_for(&record, 1).unwrap_or_default(), 0);
        prop_assert!(record.record().is_visible_everywhere(&id(1), Duration::ZERO).is_err());
    }

    #[test]
    fn the_names_and_order_of_edges_do_not_matter(ops in any_ops()) {
        let turned = ops.iter().map(|op| match op {
            Op::Observe { edges, took } => {
                Op::Observe { edges: edges.iter().rev().cloned().collect(), took: *took }
            }
            other => other.clone(),
        });
        let (one, other) = (Both::run(&ops).record, Both::run(&turned.collect::<Vec<_>>()).record);
        let times = |record: &Visibility| -> BTreeMap<KeyId, KeyRecord> {
            record.record().views().flat_map(|(_, view)| view.keys.clone()).collect()
        };
        prop_assert_eq!(times(&one), times(&other));
    }

    /// A record that comes back from its store has lost nothing that was accumulated.
    #[test]
    fn a_restored_record_knows_the_same(ops in any_ops()) {
        let record = Both::run(&ops).record;
        let back = restarted(&record);
        prop_assert_eq!(visible_for(&back, 1).unwrap_or_default(), visible_for(&record, 1).unwrap_or_default());
        prop_assert_eq!(back.record().longest_lifetime(), record.record().longest_lifetime());
        prop_assert_eq!(back.record().observations(), record.record().observations());
    }
}
