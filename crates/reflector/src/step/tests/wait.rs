//! Tests of the backoff.

use super::*;

#[test]
fn watch_resumes_at_position_after_backoff() {
    let (state, outputs) = go(waiting(AfterBackoff::Watch(moved("7"))), Input::Fired(Deadline::Backoff));
    assert_eq!(state, watching(moved("7")));
    assert_eq!(outputs, watch_outputs("7"));
}

#[test]
fn requested_relist_does_not_bypass_backoff() {
    let (state, outputs) = go(waiting(AfterBackoff::Watch(moved("7"))), Input::Relist);
    assert_eq!(outputs, []);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("7"), limit: None }));
}

#[test]
fn waiting_list_satisfies_requested_relist() {
    let state = waiting(again(fresh()));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
    let state = suspended(again(fresh()));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
}
