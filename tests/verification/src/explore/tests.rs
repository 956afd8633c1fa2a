//! Runs the explorer with bounds that take seconds without optimization, and checks that it detects
//! violations.

use std::time::Duration;

use super::{scopes::ALL, *};

const MINUTES: Duration = Duration::from_secs(600);

/// One change and one fault in each order, with and without streaming lists.
#[test]
fn no_order_of_a_few_things_breaks_a_property() {
    for streams in [Streams::Sent, Streams::Refused, Streams::Ignored, Streams::Unasked] {
        let bounds = Bounds { changes: 1, faults: 1, times: 1, moves: 0, streams, ..ALL };
        let report = explore(bounds, 2, MINUTES);
        assert!(report.violation.is_none() && !report.cut_short, "{report}");
        assert!(report.states > 1000 && report.quiet > 100, "{report}");
    }
}

#[test]
fn server_without_list_versions_breaks_no_property() {
    for versions in [Versions::NoneInLists, Versions::PerObject] {
        for streams in [Streams::Ignored, Streams::Unasked] {
            let bounds = Bounds { versions, streams, moves: 0, changes: 2, ..ALL };
            let bounds = Bounds { prompt_handlers: true, prompt_store: true, ..bounds };
            let report = explore(bounds, 2, MINUTES);
            assert!(report.violation.is_none() && !report.cut_short, "{report}");
            assert!(report.states > 1000 && report.quiet > 100, "{report}");
        }
    }
}

#[test]
fn server_with_opaque_versions_breaks_no_property() {
    for versions in [Versions::Opaque, Versions::OpaqueLists] {
        let bounds = Bounds { versions, moves: 0, changes: 2, slow_calls: false, ..ALL };
        let bounds = Bounds { prompt_handlers: true, prompt_store: true, ..bounds };
        let report = explore(bounds, 2, MINUTES);
        assert!(report.violation.is_none() && !report.cut_short, "{report}");
        assert!(report.states > 1000 && report.quiet > 100, "{report}");
    }
}

#[test]
fn events_out_of_order_break_no_property() {
    let bounds = Bounds { unordered: true, moves: 0, changes: 2, slow_calls: false, ..ALL };
    let bounds = Bounds { prompt_handlers: true, prompt_store: true, ..bounds };
    let report = explore(bounds, 2, MINUTES);
    assert!(report.violation.is_none() && !report.cut_short, "{report}");
    assert!(report.states > 1000 && report.quiet > 100, "{report}");
}

/// The second of two events arrives first, and the reflector discards the first event.
#[test]
fn cache_equals_server_after_list_that_follows_swapped_events() {
    let bounds = Bounds { unordered: true, changes: 2, streams: Streams::Unasked, ..ALL };
    let mut world =
        World::new(Bounds { prompt_handlers: true, prompt_store: true, ..bounds }).expect("a world");
    let act = |world: &mut World, action: Action| {
        let actions = world.actions().expect("no property is violated");
        assert!(actions.contains(&action), "{action} is not one of {actions:?}");
        world.act(&action).expect("no property is violated");
    };
    let list = |world: &mut World| {
        while matches!(world.open, super::open::Open::List { .. }) {
            let actions = world.actions().expect("no property is violated");
            act(world, actions[0].clone());
        }
    };
    list(&mut world);
    act(&mut world, Action::Change(Change::Put(0)));
    act(&mut world, Action::Change(Change::Put(1)));
    act(&mut world, Action::Fault(Fault::SwapEvents));
    assert_eq!(world.client.shown().0.len(), 1);
    assert!(world.check && world.disordered && !world.is_quiet());
    act(&mut world, Action::Version);
    act(&mut world, Action::End(kube_reflector::WatchEnd::Full));
    list(&mut world);
    assert_eq!(world.client.shown().0.len(), 2);
    assert!(!world.disordered && world.is_quiet());
}

#[test]
fn stopped_informer_changes_nothing() {
    let report = explore(Bounds { stops: true, faults: 0, times: 0, ..ALL }, 2, MINUTES);
    assert!(report.violation.is_none() && !report.cut_short, "{report}");
    assert!(report.states > 1000, "{report}");
}

/// One process restores the snapshot that an earlier process has written in any state.
#[test]
fn restart_in_any_state_breaks_no_property() {
    let bounds = Bounds { restarts: 1, objects: 1, handlers: 1, changes: 2, times: 0, moves: 0, ..ALL };
    let bounds = Bounds { slow_calls: false, prompt_handlers: true, prompt_store: true, ..bounds };
    for streams in [Streams::Sent, Streams::Unasked] {
        let report = explore(Bounds { streams, ..bounds }, 2, MINUTES);
        assert!(report.violation.is_none() && !report.cut_short, "{report}");
        assert!(report.states > 1000 && report.quiet > 100, "{report}");
    }
}

#[test]
fn late_handlers_removals_and_resyncs_break_no_property() {
    let bounds = Bounds { changes: 1, faults: 0, times: 0, moves: 2, ..ALL };
    let report = explore(bounds, 2, MINUTES);
    assert!(report.violation.is_none() && !report.cut_short, "{report}");
    assert!(report.states > 1000, "{report}");
}

#[test]
fn only_equal_worlds_have_equal_fingerprints() {
    let world = World::new(Bounds { changes: 2, ..ALL }).expect("a world");
    let mut other = world.clone();
    assert_eq!(fingerprint::of(&world), fingerprint::of(&other));
    other.act(&Action::Change(Change::OtherType)).expect("no property is violated");
    assert_ne!(fingerprint::of(&world), fingerprint::of(&other));
}

/// The fingerprint does not depend on earlier writes that all clients received, or on the size of
/// versions.
#[test]
fn fingerprint_ignores_applied_history() {
    let after = |first: Action, events: usize| {
        let bounds = Bounds { changes: 3, faults: 0, prompt_store: true, prompt_handlers: true, ..ALL };
        let mut world = World::new(bounds).expect("a world");
        let list = [Action::Accept, Action::InitialEnd, first, Action::Change(Change::Put(0))];
        for action in list.into_iter().chain(std::iter::repeat_n(Action::Event, events)) {
            world.act(&action).expect("no property is violated");
        }
        assert!(world.is_quiet());
        world
    };
    let updated = after(Action::Change(Change::Put(0)), 2);
    let created = after(Action::Change(Change::OtherType), 1);
    assert_eq!(fingerprint::of(&updated), fingerprint::of(&created));
    let other = after(Action::Change(Change::Put(1)), 2);
    assert_ne!(fingerprint::of(&updated), fingerprint::of(&other));
}

/// The test changes the cache directly, which leads to a world that violates a property.
#[test]
fn violation_is_detected() {
    let mut world = World::new(Bounds { changes: 2, ..ALL }).expect("a world");
    for action in [Action::Accept, Action::Apply, Action::InitialEnd, Action::Apply] {
        world.act(&action).expect("no property is violated");
    }
    world.client.outgoing.push_back(kube_object::Delta::Bookmark(199.into()));
    let broken = (0..3).find_map(|_| world.act(&Action::Apply).err()).expect("a violation");
    assert_eq!(broken.property, 14, "{broken}");
}
