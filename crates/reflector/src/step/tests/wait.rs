//! Waiting: what follows the delay, and what must not get around it.

use super::*;

#[test]
fn after_the_delay_the_watch_goes_on_from_where_it_was() {
    let (state, outputs) = go(waiting(AfterBackoff::Watch(moved("7"))), Input::Fired(Deadline::Backoff));
    assert_eq!(state, watching(moved("7")));
    assert_eq!(outputs, watch_outputs("7"));
}

#[test]
fn a_relist_that_is_asked_for_does_not_get_around_the_delay() {
    let (state, outputs) = go(waiting(AfterBackoff::Watch(moved("7"))), Input::Relist);
    assert_eq!(outputs, []);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("7"), limit: None }));
}

#[test]
fn a_relist_that_is_asked_for_is_the_one_that_waits_already() {
    let state = waiting(again(fresh()));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
    let state = suspended(again(fresh()));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
}
