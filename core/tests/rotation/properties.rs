//! What holds of every ring, whatever is done with it in whatever order, with no guard asked.

use chancery_core::KeyRing;
use chancery_core::ring::{KeyState, Request, Step};
use chancery_core::rotation::{Observations, Policy, Settings, plan};
use proptest::prelude::*;

use crate::keys::{Number, key};
use crate::table::begun;

#[derive(Clone, Debug)]
enum Op {
    Take(Step),
    Ask(Request),
}

fn any_op() -> impl Strategy<Value = Op> {
    let number = || 0..5 as Number;
    let kid = move || number().prop_map(|number| key(number).key_id().clone());
    prop_oneof![
        4 => number().prop_map(|number| Op::Take(Step::Enter(key(number).clone()))),
        4 => kid().prop_map(|kid| Op::Take(Step::Publish(kid))),
        4 => kid().prop_map(|kid| Op::Take(Step::Activate(kid))),
        1 => kid().prop_map(|kid| Op::Take(Step::KeepForVerifying(kid))),
        1 => kid().prop_map(|kid| Op::Take(Step::Retire(kid))),
        1 => kid().prop_map(|kid| Op::Take(Step::Withdraw(kid))),
        1 => kid().prop_map(|kid| Op::Take(Step::Revoke(kid))),
        1 => kid().prop_map(|kid| Op::Take(Step::Destroy(kid))),
        1 => Just(Op::Ask(Request::RotateNow)),
        2 => Just(Op::Ask(Request::RollBack)),
        1 => kid().prop_map(|kid| Op::Ask(Request::Taint(kid))),
        1 => (kid(), any::<bool>()).prop_map(|(kid, at_once)| Op::Ask(Request::Revoke { kid, at_once })),
        1 => Just(Op::Ask(Request::Reset)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_ring_stays_a_ring(ops in prop::collection::vec(any_op(), 1..40)) {
        let mut ring = begun();
        for op in ops {
            let next = match &op {
                Op::Take(step) => ring.apply(step),
                Op::Ask(request) => ring.request(request),
            };
            let Ok(next) = next else { continue };
            let again = match &op {
                Op::Take(step) => next.apply(step),
                Op::Ask(Request::Reset) => Ok(next.clone()),
                Op::Ask(request) => next.request(request),
            };
            prop_assert_eq!(again.as_ref(), Ok(&next), "{:?} twice", op);
            prop_assert_eq!(next.position() > ring.position(), next != ring, "a change moves the position");
            prop_assert!(next.in_state(KeyState::Active).count() <= 1);
            for over in ring.tombstones() {
                let still = next.tombstone(&over.kid);
                prop_assert!(still.is_some_and(|still| still.state >= over.state), "the dead stay dead");
                prop_assert!(next.key(&over.kid).is_none());
            }
            let text = serde_json::to_string(&next).expect("a document");
            prop_assert_eq!(&serde_json::from_str::<KeyRing>(&text).expect("the same"), &next);
            ring = next;
        }
        // What is planned is possible.
        let policy = Policy::new(Settings::default()).expect("the defaults can be kept");
        let planned = plan(&ring, &policy, &Observations::default());
        for step in planned.steps.iter().map(|planned| &planned.step) {
            prop_assert!(ring.apply(step).is_ok(), "{}", step);
        }
    }
}
