//! Whatever a target holds, the plan keeps the promises at the head of `publication`.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeSet;

use chancery_core::jwks::ObservedJwks;
use chancery_core::marker::MarkerField;
use chancery_core::publication::{
    Blocked, Contact, Desired, LARGEST_OBJECT, Observed, Plan, Precondition, Reason, StoredObject, Version,
    WriterMemory, plan,
};
use chancery_core::{
    CachePolicy, DocumentKind, DocumentSet, IssuerUrl, Jwks, KeyId, Marker, Owner, PublicKey,
    WithdrawalCause, Withdrawals, WriterKey,
};
use fixture::{key, numbered_key, numbered_set};
use proptest::prelude::*;

fn owner(name: &str) -> Owner {
    name.parse().expect("an owner")
}

fn documents(numbers: &[u8]) -> DocumentSet {
    let issuer: IssuerUrl = "https://id.example.com/a".parse().expect("an issuer URL");
    DocumentSet::new(issuer, numbered_set(numbers).expect("keys"), CachePolicy::default())
}

fn ids(numbers: &[u8]) -> BTreeSet<KeyId> {
    numbers.iter().map(|number| numbered_key(*number).key_id().clone()).collect()
}

/// The object of one kind, as we would have written it.
fn stored(documents: &DocumentSet, kind: DocumentKind, owner: Option<Owner>) -> StoredObject {
    let document = documents.document(kind);
    StoredObject {
        bytes: document.bytes,
        media_type: Some(kind.media_type().to_owned()),
        cache_control: Some(document.cache.header()),
        marker: owner.map(Marker::of),
        damage: None,
        version: Version("1".to_owned()),
    }
}

fn holding(documents: &DocumentSet, owner: Option<Owner>) -> Observed {
    let [jwks, discovery] = DocumentKind::ALL.map(|kind| Some(stored(documents, kind, owner.clone())));
    Observed { jwks, discovery }
}

fn plan_for(ours: &[u8], withdrawn: &[u8], observed: &Observed) -> Result<Plan, Blocked> {
    plan_as(&Wish { ours, withdrawn, memory: WriterMemory::NONE, adopt_unmarked: false }, observed)
}

struct Wish<'a> {
    ours: &'a [u8],
    withdrawn: &'a [u8],
    memory: WriterMemory<'a>,
    adopt_unmarked: bool,
}

fn plan_as(wish: &Wish<'_>, observed: &Observed) -> Result<Plan, Blocked> {
    let (documents, owner) = (documents(wish.ours), owner("us"));
    let withdrawn = ids(wish.withdrawn).into_iter().filter(|id| !documents.jwks().contains(id));
    let withdrawals = Withdrawals::of(withdrawn, WithdrawalCause::Retired, 1);
    let adopt_unmarked = wish.adopt_unmarked;
    let (withdrawals, memory) = (&withdrawals, wish.memory);
    plan(Desired { documents: &documents, withdrawals, owner: &owner, memory, adopt_unmarked }, observed)
}

/// A target after the first `count` writes of a plan, as an obedient store leaves it.
fn after(observed: &Observed, plan: &Plan, count: usize) -> Observed {
    let mut observed = observed.clone();
    for write in plan.writes.iter().take(count) {
        let object = match write.document.kind {
            DocumentKind::Jwks => &mut observed.jwks,
            DocumentKind::Discovery => &mut observed.discovery,
        };
        let expected = object
            .as_ref()
            .map_or(Precondition::Absent, |object| Precondition::Unchanged(object.version.clone()));
        assert_eq!(write.precondition, expected);
        *object = Some(StoredObject {
            bytes: write.document.bytes.clone(),
            media_type: Some(write.document.kind.media_type().to_owned()),
            cache_control: Some(write.document.cache.header()),
            marker: Some(write.marker.clone()),
            damage: None,
            version: Version("2".to_owned()),
        });
    }
    observed
}

fn published(observed: &Observed) -> BTreeSet<KeyId> {
    let bytes = &observed.jwks.as_ref().expect("a JWKS").bytes;
    ObservedJwks::parse(bytes).expect("readable").keys().map(|key| key.key_id().clone()).collect()
}

#[test]
fn fills_an_empty_target_keys_first() {
    let plan = plan_for(&[1, 2], &[], &Observed::default()).expect("not blocked");
    let order: Vec<_> = plan.writes.iter().map(|write| (write.document.kind, &write.precondition)).collect();
    assert_eq!(
        order,
        [(DocumentKind::Jwks, &Precondition::Absent), (DocumentKind::Discovery, &Precondition::Absent)]
    );
    assert!(plan.writes.iter().all(|write| write.reasons == [Reason::Missing]));
    assert_eq!(plan.result, documents(&[1, 2]));
}

#[test]
fn explains_which_keys_come_and_go() {
    let observed = holding(&documents(&[1, 2]), Some(owner("us")));
    let plan = plan_for(&[1, 3], &[2], &observed).expect("not blocked");
    assert_eq!(plan.writes.len(), 1, "the discovery document is the same");
    let [one, two, three] = [1, 2, 3].map(|number| numbered_key(number).key_id().clone());
    assert_eq!(plan.writes[0].reasons, [Reason::Adds(vec![three.clone()]), Reason::Withdraws(vec![two])]);
    assert_eq!(plan.result.jwks().keys().iter().map(PublicKey::key_id).collect::<Vec<_>>(), [&one, &three]);
    assert_eq!(plan.writes[0].reasons[0].to_string(), format!("adds {three}"));
}

#[test]
fn mends_headers_without_touching_bytes() {
    let mut observed = holding(&documents(&[1]), Some(owner("us")));
    let jwks = observed.jwks.as_mut().expect("a JWKS");
    (jwks.media_type, jwks.cache_control) = (Some("binary/octet-stream".to_owned()), None);
    let plan = plan_for(&[1], &[], &observed).expect("not blocked");
    assert_eq!(plan.writes.len(), 1);
    assert_eq!(
        plan.writes[0].reasons,
        [Reason::MediaType(Some("binary/octet-stream".to_owned())), Reason::CacheControl(None)]
    );
    assert_eq!(plan.writes[0].precondition, Precondition::Unchanged(Version("1".to_owned())));
}

#[test]
fn never_touches_what_is_not_ours() {
    let theirs = holding(&documents(&[9]), Some(owner("them")));
    let blocked = plan_for(&[1], &[], &theirs).expect_err("theirs");
    assert!(matches!(&blocked, Blocked::ForeignOwner { kind: DocumentKind::Jwks, .. }));
    assert!(blocked.to_string().contains("them") && blocked.to_string().contains("us"), "{blocked}");

    let adopt = Wish { ours: &[1], withdrawn: &[], memory: WriterMemory::NONE, adopt_unmarked: true };
    assert!(plan_as(&adopt, &theirs).is_err(), "adoption is for unmarked objects");

    let half = Observed { jwks: None, ..theirs };
    assert!(matches!(
        plan_as(&adopt, &half),
        Err(Blocked::ForeignOwner { kind: DocumentKind::Discovery, .. })
    ));

    let unmarked = holding(&documents(&[9]), None);
    assert_eq!(plan_for(&[1], &[], &unmarked), Err(Blocked::Unmarked { kind: DocumentKind::Jwks }));
    let plan = plan_as(&adopt, &unmarked).expect("adopted");
    assert!(plan.writes.iter().all(|write| write.reasons.contains(&Reason::Adopted)));
    assert_eq!(plan.foreign, [numbered_key(9).key_id().clone()]);
}

#[test]
fn blocks_where_an_entry_cannot_be_carried_on() {
    let rendered = String::from_utf8(documents(&[9]).document(DocumentKind::Jwks).bytes).expect("UTF-8");
    let kid = numbered_key(9).key_id().to_string();
    for (name, bytes) in [
        ("a home-made kid", rendered.replace(&kid, "mine")),
        ("an empty kid", rendered.replace(&kid, "")),
        ("another algorithm", rendered.replace("RS256", "PS256")),
        ("another use", rendered.replace("\"sig\"", "\"enc\"")),
        ("another key type", r#"{"keys":[{"kty":"OKP","kid":"o","crv":"Ed25519","x":"AA"}]}"#.to_owned()),
        ("no object", r#"{"keys":[null]}"#.to_owned()),
    ] {
        let mut observed = holding(&documents(&[1]), Some(owner("us")));
        observed.jwks.as_mut().expect("a JWKS").bytes = bytes.into_bytes();
        let blocked = plan_for(&[1], &[], &observed);
        assert!(matches!(blocked, Err(Blocked::ForeignEntry { .. })), "{name}: {blocked:?}");
    }
}

#[test]
fn heals_what_nobody_can_read() {
    let mut observed = holding(&documents(&[1]), Some(owner("us")));
    observed.jwks.as_mut().expect("a JWKS").bytes = b"{\"keys\":[{".to_vec();
    let plan = plan_for(&[1], &[], &observed).expect("not blocked");
    let added = Reason::Adds(vec![numbered_key(1).key_id().clone()]);
    assert_eq!(plan.writes[0].reasons, [Reason::Unreadable, added]);
}

#[test]
fn our_key_under_an_old_recipe_s_second_id_is_covered_by_ours() {
    let ours = String::from_utf8(documents(&[1]).document(DocumentKind::Jwks).bytes).expect("UTF-8");
    let entry = ours.trim_start_matches("{\"keys\":[").trim_end_matches("]}");
    let nameless = entry.replace(numbered_key(1).key_id().as_str(), "");
    let mut observed = holding(&documents(&[1]), Some(owner("us")));
    observed.jwks.as_mut().expect("a JWKS").bytes = format!("{{\"keys\":[{entry},{nameless}]}}").into_bytes();
    let plan = plan_for(&[1], &[], &observed).expect("not blocked");
    assert_eq!((plan.writes[0].reasons.as_slice(), plan.foreign.len()), (&[Reason::Content][..], 0));
}

#[test]
fn a_foreign_key_stays_behind_ours_and_is_named_once() {
    let theirs = String::from_utf8(documents(&[9]).document(DocumentKind::Jwks).bytes).expect("UTF-8");
    let entry = theirs.trim_start_matches("{\"keys\":[").trim_end_matches("]}");
    let mut observed = holding(&documents(&[9]), Some(owner("us")));
    observed.jwks.as_mut().expect("a JWKS").bytes = format!("{{\"keys\":[{entry},{entry}]}}").into_bytes();
    let plan = plan_for(&[1, 2], &[], &observed).expect("not blocked");
    assert_eq!(plan.foreign, [numbered_key(9).key_id().clone()]);
    assert_eq!(plan.result, documents(&[1, 2, 9]));
}

#[test]
fn a_foreign_key_of_another_algorithm_shows_in_the_discovery_document() {
    let theirs = DocumentSet::new(
        documents(&[1]).issuer().clone(),
        Jwks::new([key("p256")]).expect("a key"),
        CachePolicy::default(),
    );
    let observed = holding(&theirs, Some(owner("us")));
    let plan = plan_for(&[1], &[], &observed).expect("not blocked");
    let discovery = String::from_utf8(plan.result.document(DocumentKind::Discovery).bytes).expect("UTF-8");
    assert!(discovery.ends_with(r#"["ES256","RS256"]}"#), "{discovery}");
}

#[test]
fn an_owner_travels_as_metadata() {
    for good in ["a", "chancery:prod/eu-1", &"x".repeat(128)] {
        assert_eq!(owner(good).as_str(), good);
    }
    for bad in ["", "two words", "é", "a\n", &"x".repeat(129)] {
        assert!(bad.parse::<Owner>().is_err(), "{bad:?}");
    }
}

/// Up to six of ten keys.
fn some_keys(least: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..10, least..6)
}

/// What may have happened to an object of ours.
fn damaged(object: StoredObject) -> impl Strategy<Value = Option<StoredObject>> {
    let header =
        StoredObject { cache_control: None, media_type: Some("text/plain".to_owned()), ..object.clone() };
    let bytes = StoredObject { bytes: b"not JSON".to_vec(), ..object.clone() };
    prop_oneof![4 => Just(Some(object)), 1 => Just(None), 1 => Just(Some(header)), 1 => Just(Some(bytes))]
}

/// A target of ours that holds some keys, perhaps damaged.
fn any_target() -> impl Strategy<Value = Observed> {
    some_keys(1).prop_flat_map(|numbers| {
        let holding = holding(&documents(&numbers), Some(owner("us")));
        let objects = (damaged(holding.jwks.expect("one")), damaged(holding.discovery.expect("one")));
        objects.prop_map(|(jwks, discovery)| Observed { jwks, discovery })
    })
}

proptest! {
    #[test]
    fn the_target_holds_ours_and_foreign_keys_less_the_withdrawn(
        ours in some_keys(1), withdrawn in some_keys(0), observed in any_target()
    ) {
        let plan = plan_for(&ours, &withdrawn, &observed).expect("not blocked");
        let readable = observed.jwks.as_ref().and_then(|object| ObservedJwks::parse(&object.bytes).ok());
        let before: BTreeSet<KeyId> =
            readable.unwrap_or_default().keys().map(|key| key.key_id().clone()).collect();
        let (ours, withdrawn) = (ids(&ours), ids(&withdrawn));
        let foreign: BTreeSet<KeyId> =
            before.iter().filter(|id| !ours.contains(id) && !withdrawn.contains(id)).cloned().collect();

        let done = after(&observed, &plan, plan.writes.len());
        prop_assert_eq!(published(&done), ours.union(&foreign).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(plan.foreign.len(), foreign.len());
        prop_assert_eq!(plan.foreign.into_iter().collect::<BTreeSet<_>>(), foreign);
        prop_assert_eq!(done.jwks.expect("one").bytes, plan.result.document(DocumentKind::Jwks).bytes);
    }

    #[test]
    fn planning_again_on_the_result_is_empty(
        ours in some_keys(1), withdrawn in some_keys(0), observed in any_target()
    ) {
        let first = plan_for(&ours, &withdrawn, &observed).expect("not blocked");
        let second = plan_for(&ours, &withdrawn, &after(&observed, &first, 2)).expect("not blocked");
        prop_assert_eq!(&second.writes, &[]);
        prop_assert_eq!(second.result, first.result);
    }

    #[test]
    fn a_crash_between_two_writes_loses_nothing(
        ours in some_keys(1), withdrawn in some_keys(0), observed in any_target()
    ) {
        let first = plan_for(&ours, &withdrawn, &observed).expect("not blocked");
        let interrupted = after(&observed, &first, 1);
        let second = plan_for(&ours, &withdrawn, &interrupted).expect("not blocked");
        prop_assert_eq!(&second.result, &first.result);
        prop_assert_eq!(&second.writes[..], first.writes.get(1..).unwrap_or_default());
    }

    #[test]
    fn the_keys_are_written_before_the_document_that_names_them(
        ours in some_keys(1), withdrawn in some_keys(0), observed in any_target()
    ) {
        let plan = plan_for(&ours, &withdrawn, &observed).expect("not blocked");
        let kinds: Vec<_> = plan.writes.iter().map(|write| write.document.kind).collect();
        prop_assert!(kinds.windows(2).all(|pair| pair == [DocumentKind::Jwks, DocumentKind::Discovery]));
        prop_assert!(plan.writes.iter().all(|write| !write.reasons.is_empty()));
    }

    #[test]
    fn a_mark_that_is_not_ours_on_either_object_blocks_everything(
        ours in some_keys(1), observed in any_target(), on_jwks: bool, marked: bool
    ) {
        let mut observed = observed;
        let object = if on_jwks { observed.jwks.as_mut() } else { observed.discovery.as_mut() };
        prop_assume!(object.is_some());
        object.expect("one").marker = marked.then(|| Marker::of(owner("them")));
        prop_assert!(plan_for(&ours, &[], &observed).is_err());
    }

    #[test]
    fn no_bytes_on_a_target_make_the_plan_panic_or_shrink(
        ours in some_keys(1), bytes in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        let mut observed = holding(&documents(&ours), Some(owner("us")));
        observed.jwks.as_mut().expect("a JWKS").bytes = bytes;
        if let Ok(plan) = plan_for(&ours, &[], &observed) {
            prop_assert!(ids(&ours).iter().all(|id| plan.result.jwks().contains(id)));
        }
    }
}

/// A marker that nobody can read must not pass for none: where everything is repaired it is, too, and elsewhere it blocks.
#[test]
fn an_object_with_a_damaged_marker_is_repaired_or_blocks() {
    let writer_key = WriterKey::new([7; 32]);
    let edition = stored(&documents(&[1]), DocumentKind::Jwks, Some(owner("us"))).edition();
    let stateful = |contact| WriterMemory::Stateful { writer_key: &writer_key, decision: 5, contact };
    let (known, unknown) = (Contact { known: edition }, Contact::default());
    let read = |owner: &str| {
        let field = |field| match field {
            MarkerField::Owner => Some(owner),
            MarkerField::Decision => Some("many"),
            _ => None,
        };
        Marker::read(field).expect_err("it is damaged")
    };
    for kind in DocumentKind::ALL {
        for (memory, marker, expected) in [
            (stateful(Some(&known)), "us", Ok(())),
            (stateful(Some(&known)), "no owner at all", Ok(())),
            (stateful(Some(&known)), "them", Err("belongs to them")),
            (stateful(Some(&unknown)), "us", Err("\"many\"")),
            (stateful(None), "us", Err("\"many\"")),
            (stateful(None), "no owner at all", Err("\"no owner at all\"")),
            (WriterMemory::NONE, "us", Err("\"many\"")),
        ] {
            let mut observed = holding(&documents(&[1, 3]), Some(owner("us")));
            let object = observed.object_mut(kind).as_mut().expect("an object");
            (object.marker, object.damage) = (None, Some(Box::new(read(marker))));
            let wish = Wish { ours: &[1], withdrawn: &[], memory, adopt_unmarked: true };
            match (plan_as(&wish, &observed), expected) {
                (Ok(plan), Ok(())) => {
                    let write = plan.writes.iter().find(|write| write.document.kind == kind);
                    let reasons = &write.expect("a write").reasons;
                    assert!(reasons.contains(&Reason::Unproven), "{kind} {memory:?}: {reasons:?}");
                    assert_eq!(
                        ids(&[1]),
                        plan.result.jwks().keys().iter().map(|key| key.key_id().clone()).collect()
                    );
                }
                (Err(blocked), Err(expected)) => {
                    assert!(blocked.to_string().contains(expected), "{kind} {memory:?}: {blocked}");
                }
                (planned, _) => panic!("{kind} {memory:?} {marker:?}: {planned:?}"),
            }
        }
    }
}

/// Where everything is repaired an endless object is, too; elsewhere it blocks, whatever its marker says.
#[test]
fn an_object_that_is_too_large_is_repaired_or_blocks() {
    let writer_key = WriterKey::new([7; 32]);
    let edition = stored(&documents(&[1]), DocumentKind::Jwks, Some(owner("us"))).edition();
    let stateful = |contact| WriterMemory::Stateful { writer_key: &writer_key, decision: 5, contact };
    let (known, unknown) = (Contact { known: edition }, Contact::default());
    let forged = Marker::of(owner("us")).proven(
        &WriterKey::new([8; 32]),
        documents(&[1]).issuer(),
        &documents(&[1]).document(DocumentKind::Jwks),
    );
    let (ours, theirs) = (Marker::of(owner("us")), Marker::of(owner("them")));
    for kind in DocumentKind::ALL {
        for (memory, marker, expected) in [
            (stateful(Some(&known)), Some(&ours), Ok(())),
            (stateful(Some(&known)), None, Ok(())),
            (stateful(Some(&known)), Some(&forged), Ok(())),
            (stateful(Some(&known)), Some(&theirs), Err("belongs to them")),
            (stateful(Some(&unknown)), Some(&forged), Ok(())),
            (stateful(Some(&unknown)), Some(&ours), Err("has more than")),
            (stateful(None), Some(&ours), Err("has more than")),
            (stateful(None), Some(&forged), Err("has more than")),
            (stateful(None), None, Err("has more than")),
            (WriterMemory::NONE, Some(&ours), Err("has more than")),
            (WriterMemory::NONE, None, Err("has more than")),
        ] {
            let mut observed = holding(&documents(&[1]), Some(owner("us")));
            let object = observed.object_mut(kind).as_mut().expect("an object");
            object.bytes.resize(LARGEST_OBJECT + 1, b' ');
            object.marker = marker.cloned();
            let wish = Wish { ours: &[1], withdrawn: &[], memory, adopt_unmarked: true };
            let planned = plan_as(&wish, &observed);
            match (planned, expected) {
                (Ok(plan), Ok(())) => {
                    let write = plan.writes.iter().find(|write| write.document.kind == kind);
                    let reasons = &write.expect("a write").reasons;
                    assert!(reasons.contains(&Reason::Oversize), "{kind} {memory:?}: {reasons:?}");
                }
                (Err(blocked), Err(expected)) => {
                    assert!(blocked.to_string().contains(expected), "{kind} {memory:?}: {blocked}");
                }
                (planned, _) => panic!("{kind} {memory:?} {marker:?}: {planned:?}"),
            }
        }
    }
}

#[test]
fn a_set_that_could_not_be_read_back_is_never_written() {
    let modulus = |number: u32| {
        let mut modulus = [0xa5; 2048];
        modulus[1..5].copy_from_slice(&number.to_be_bytes());
        PublicKey::from_rsa(&modulus, &[1, 0, 1]).expect("a usable key")
    };
    let issuer: IssuerUrl = "https://id.example.com/a".parse().expect("an issuer URL");
    let jwks = Jwks::new((0..3100).map(modulus)).expect("keys");
    let documents = DocumentSet::new(issuer, jwks, CachePolicy::default());
    let (owner, withdrawals) = (owner("us"), Withdrawals::default());
    let (memory, adopt_unmarked) = (WriterMemory::NONE, false);
    let desired =
        Desired { documents: &documents, withdrawals: &withdrawals, owner: &owner, memory, adopt_unmarked };
    let blocked = plan(desired, &Observed::default()).expect_err("it was planned").to_string();
    assert!(blocked.contains("of 3100 keys"), "{blocked}");
}
