//! Lists: which page is asked for, how a list ends, and what follows a failure.

use super::*;

#[test]
fn the_first_list_shows_any_state_in_pages() {
    let (state, outputs) = go(State::Idle, Input::Start);
    assert_eq!(state, first_page(plan(ListAt::Any)));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Any, Some(500), false));
}

#[test]
fn the_first_list_is_consistent_where_no_older_state_will_do() {
    let options = ReflectorOptions { first_list: FirstList::Consistent, ..listing() };
    let (state, outputs) = step(State::Idle, Input::Start, &options);
    assert_eq!(state, first_page(plan(ListAt::Consistent)));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Consistent, Some(500), false));
}

#[test]
fn the_first_list_of_who_comes_after_another_reuses_nothing() {
    let options = ReflectorOptions { first_list: FirstList::Fresh, ..listing() };
    let (state, outputs) = step(State::Idle, Input::Start, &options);
    assert_eq!(state, first_page(fresh()));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Consistent, Some(500), true));
}

#[test]
fn a_list_is_paged_only_where_the_server_reads_from_etcd_anyway() {
    let limit = |plan: ListPlan, page_size| {
        let options = ReflectorOptions { page_size, ..listing() };
        plan.request(None, &options).limit
    };
    let paging = |at| ListPlan { pages_anyway: true, ..plan(at) };
    let unpaged = |at| ListPlan { unpaged: true, ..plan(at) };
    assert_eq!(limit(plan(ListAt::Any), None), Some(500));
    assert_eq!(limit(plan(ListAt::Consistent), None), Some(500));
    assert_eq!(limit(plan(newer_than("7")), None), None);
    assert_eq!(limit(paging(newer_than("7")), None), Some(500));
    assert_eq!(limit(plan(newer_than("7")), Some(50)), Some(50));
    assert_eq!(limit(plan(ListAt::Any), Some(50)), Some(50));
    assert_eq!(limit(unpaged(ListAt::Consistent), None), None);
    assert_eq!(limit(unpaged(newer_than("7")), Some(50)), None);
}

#[test]
fn a_list_at_a_version_is_never_a_bare_version_with_a_limit() {
    let options = ReflectorOptions { page_size: Some(50), ..listing() };
    let position = moved("7");
    let request = ListPlan::relist(&position).request(None, &options);
    assert_eq!(request, ListRequest { at: newer_than("7"), limit: Some(50) });
}

#[test]
fn items_are_delivered_and_one_without_a_name_makes_the_list_incomplete() {
    let (state, outputs) = go(first_page(plan(ListAt::Any)), Input::Items { complete: true });
    assert_eq!((state, outputs), (first_page(plan(ListAt::Any)), vec![Output::Deliver]));
    let (state, outputs) = go(first_page(plan(ListAt::Any)), Input::Items { complete: false });
    assert_eq!(outputs, [Output::Deliver]);
    let (state, _) = go(state, Input::Items { complete: true });
    let State::Listing(listing) = state else { panic!("{state:?}") };
    assert!(!listing.complete, "a later good item does not heal the list");
}

#[test]
fn a_page_with_a_token_leads_to_the_next_page_under_a_new_deadline() {
    let (state, outputs) = go(first_page(plan(ListAt::Consistent)), page_end(&version("100"), Some("t")));
    let request = ListRequest { at: ListAt::Continue("t".into()), limit: Some(500) };
    assert_eq!(outputs, [Output::List { request, fresh: false }, Output::Arm(Deadline::List)]);
    let State::Listing(listing) = state else { panic!("{state:?}") };
    assert_eq!((listing.plan.at, listing.version), (ListAt::Consistent, Some(version("100"))));
}

#[test]
fn the_version_of_a_list_is_that_of_its_first_page() {
    let (state, outputs) = go(later_page(plan(ListAt::Consistent)), page_end(&version("105"), None));
    assert_eq!(state, watching(listed("100")));
    let end = Output::Mark(Marker::End { version: version("100"), complete: true });
    assert_eq!(outputs, [vec![end], watch_outputs("100")].concat());
}

/// Property 13. A server, or a cache in front of it, that answers with an older state says the same as one that has not
/// reached the version; but for one whose versions can't be compared.
#[test]
fn a_list_older_than_asked_for_is_taken_for_too_large_a_version_and_not_shown() {
    for next in [None, Some("t")] {
        let (state, outputs) = go(first_page(plan(newer_than("9"))), page_end(&version("8"), next));
        assert_eq!(state, first_page(immediate(fresh())));
        assert_eq!(outputs, list_outputs(RelistCause::TooLarge, ListAt::Consistent, Some(500), true));
        let (state, _) = go(state, page_end(&version("8"), None));
        assert!(matches!(state, State::Watching(_)), "the most recent state is what it is: {state:?}");
    }
    for at in ["9", "10", "", "x"] {
        let (state, _) = go(first_page(plan(newer_than("9"))), page_end(&version(at), None));
        assert!(matches!(state, State::Watching(_)), "{at}: {state:?}");
    }
}

#[test]
fn a_server_that_pages_a_list_of_any_state_gets_its_relists_paged() {
    let (state, _) = go(first_page(plan(ListAt::Any)), page_end(&version("100"), Some("t")));
    let (state, _) = go(state, page_end(&version("100"), None));
    let (_, outputs) = go(state, Input::Relist);
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("100"), limit: Some(500) }));
}

#[test]
fn a_page_that_expired_makes_one_full_list_at_the_version_first_asked_for() {
    for at in [ListAt::Any, ListAt::Consistent, newer_than("7")] {
        let paging = ListPlan { pages_anyway: true, ..plan(at.clone()) };
        let (state, outputs) = go(later_page(paging.clone()), failed(ErrorClass::Expired));
        assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..paging })));
        assert_eq!(outputs, list_outputs(RelistCause::Expired, at, None, false));
    }
}

#[test]
fn a_server_that_gives_the_same_page_again_is_asked_for_the_full_list_once() {
    let (state, outputs) = go(later_page(plan(ListAt::Consistent)), page_end(&version("100"), Some("s")));
    assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(ListAt::Consistent) })));
    assert_eq!(outputs, list_outputs(RelistCause::Retry, ListAt::Consistent, None, false));
    let (state, _) = go(state, page_end(&version("100"), Some("s")));
    let (_, outputs) = go(state, page_end(&version("100"), Some("s")));
    assert_eq!(outputs, [Output::BackOff(None)]);
}

#[test]
fn tokens_that_go_round_in_circles_are_noticed_after_a_few_rounds() {
    for circle in 1..50 {
        let mut state = first_page(plan(ListAt::Consistent));
        let pages = (0..1000).find(|page| {
            let token = (page % circle).to_string();
            let (next, outputs) = go(state.clone(), page_end(&version("100"), Some(&token)));
            state = next;
            outputs == [Output::BackOff(None)]
        });
        // The full list after them goes round as well.
        assert!(pages.unwrap() <= 2 * 4 * circle, "a circle of {circle}: {pages:?} pages");
    }
}

#[test]
fn a_server_that_gives_new_tokens_for_ever_is_asked_for_the_full_list_some_time() {
    let mut state = first_page(plan(ListAt::Consistent));
    for page in 0..10_000 {
        let (next, outputs) = go(state, page_end(&version("100"), Some(&page.to_string())));
        assert!(matches!(list_request(&outputs).unwrap().at, ListAt::Continue(_)), "{outputs:?}");
        state = next;
    }
    let (state, _) = go(state, page_end(&version("100"), Some("more")));
    assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(ListAt::Consistent) })));
}

/// A server may have a reason against each list that there is.
#[test]
fn only_one_list_follows_another_without_a_delay() {
    let ways = [
        (first_page(immediate(plan(newer_than("7")))), ErrorClass::Expired, fresh()),
        (first_page(immediate(plan(newer_than("7")))), ErrorClass::TooLarge, fresh()),
        (later_page(immediate(fresh())), ErrorClass::Expired, ListPlan { unpaged: true, ..fresh() }),
        (later_page(immediate(fresh())), ErrorClass::Unsupported, ListPlan { unpaged: true, ..fresh() }),
    ];
    for (before, class, then) in ways {
        let (state, outputs) = go(before, failed(class));
        assert_eq!(outputs, [Output::BackOff(None)], "{class:?}");
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(then), "{class:?}: after the delay another may follow at once");
    }
}

#[test]
fn a_full_list_that_fails_too_waits() {
    let full = ListPlan { unpaged: true, ..plan(ListAt::Consistent) };
    for state in [first_page(full.clone()), later_page(full)] {
        for class in [ErrorClass::Expired, ErrorClass::TooLarge, ErrorClass::Broken] {
            let (state, outputs) = go(state.clone(), failed(class));
            assert!(matches!(state, State::Waiting(_)), "{class:?}: {state:?}");
            assert_eq!(outputs, [Output::BackOff(None)]);
        }
    }
}

#[test]
fn only_the_list_right_after_an_expired_page_goes_without_pages() {
    let full = ListPlan { unpaged: true, ..plan(ListAt::Consistent) };
    let failures = [failed(ErrorClass::Expired), failed(ErrorClass::Broken), Input::Fired(Deadline::List)];
    for failure in failures {
        let (state, _) = go(first_page(full.clone()), failure);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(list_request(&outputs).map(|request| request.limit), Some(Some(500)), "{failure:?}");
    }
    let (state, _) = go(first_page(full), page_end(&version("100"), None));
    let (_, outputs) = go(state, Input::Relist);
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("100"), limit: None }));
}

#[test]
fn a_version_that_is_gone_or_not_there_yet_leads_to_the_most_recent_state_at_once() {
    for (class, cause) in
        [(ErrorClass::Expired, RelistCause::Expired), (ErrorClass::TooLarge, RelistCause::TooLarge)]
    {
        for at in [ListAt::Any, newer_than("7")] {
            let (state, outputs) = go(first_page(plan(at)), failed(class));
            assert_eq!(state, first_page(immediate(fresh())));
            assert_eq!(outputs, list_outputs(cause, ListAt::Consistent, Some(500), true));
        }
    }
}

#[test]
fn a_consistent_list_can_not_be_improved_on_so_it_waits() {
    for class in [ErrorClass::Expired, ErrorClass::TooLarge] {
        let (state, outputs) = go(first_page(plan(ListAt::Consistent)), failed(class));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(fresh()), "{class:?}");
    }
}

#[test]
fn a_list_that_must_reuse_nothing_reuses_nothing_when_it_is_tried_again() {
    let mut classes =
        vec![ErrorClass::Expired, ErrorClass::TooLarge, ErrorClass::NotFound, ErrorClass::Broken];
    classes.extend(causes());
    for class in classes {
        let (state, _) = go(first_page(fresh()), failed(class));
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(fresh()), "{class:?}");
    }
    let (state, _) = go(first_page(fresh()), Input::Fired(Deadline::List));
    assert_eq!(go(state, Input::Fired(Deadline::Backoff)).0, first_page(fresh()));
}

#[test]
fn a_list_waits_as_long_as_the_server_asks_whatever_the_failure() {
    let delay = Some(Duration::from_secs(9));
    for class in [ErrorClass::Expired, ErrorClass::TooLarge, ErrorClass::NotFound, ErrorClass::Broken] {
        let (_, outputs) = go(first_page(fresh()), Input::Failed(class, delay));
        assert_eq!(outputs, [Output::BackOff(delay)], "{class:?}");
    }
}

#[test]
fn other_failures_wait_as_long_as_the_server_asks_and_list_the_same_again() {
    let delay = Some(Duration::from_secs(9));
    for class in causes().into_iter().chain([ErrorClass::Broken]) {
        for (before, again) in [(plan(ListAt::Any), ListAt::Any), (plan(newer_than("7")), newer_than("7"))] {
            let (state, outputs) = go(first_page(before), Input::Failed(class, delay));
            assert_eq!(outputs, [Output::BackOff(delay)], "{class:?}");
            let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
            assert_eq!(list_request(&outputs).map(|request| request.at), Some(again));
        }
    }
}

/// Such a version comes from a server that was replaced, or broken when it gave it.
#[test]
fn a_version_that_the_server_refuses_to_read_is_not_asked_for_again() {
    let delay = Some(Duration::from_secs(9));
    let (state, outputs) =
        go(first_page(plan(newer_than("7"))), Input::Failed(ErrorClass::Unsupported, delay));
    assert_eq!(outputs, [Output::BackOff(delay)]);
    let (state, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(outputs, list_outputs(RelistCause::Retry, ListAt::Consistent, Some(500), true));
    let (state, outputs) = go(state, failed(ErrorClass::Unsupported));
    assert_eq!(outputs, [Output::BackOff(None)]);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs).map(|request| request.at), Some(ListAt::Consistent));
}

#[test]
fn a_token_that_the_server_refuses_to_read_makes_one_full_list() {
    for at in [ListAt::Any, ListAt::Consistent, newer_than("7")] {
        let (state, outputs) = go(later_page(plan(at.clone())), failed(ErrorClass::Unsupported));
        assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(at.clone()) })));
        assert_eq!(outputs, list_outputs(RelistCause::Retry, at, None, false));
        let (_, outputs) = go(state, failed(ErrorClass::Unsupported));
        assert_eq!(outputs, [Output::BackOff(None)]);
    }
}

#[test]
fn a_page_that_takes_too_long_waits_and_lists_the_same_again() {
    for state in [first_page(plan(newer_than("7"))), later_page(plan(newer_than("7")))] {
        let (state, outputs) = go(state, Input::Fired(Deadline::List));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(plan(newer_than("7"))));
    }
}

/// Property 13: the version of the list is not given up, so that it can't go back unnoticed.
#[test]
fn a_resource_that_is_gone_suspends_and_is_listed_at_the_same_version_when_it_is_back() {
    let (state, outputs) = go(first_page(plan(newer_than("7"))), failed(ErrorClass::NotFound));
    assert!(matches!(&state, State::Waiting(waiting) if waiting.suspended), "{state:?}");
    assert_eq!(outputs, [Output::BackOff(None)]);
    let (state, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs).map(|request| request.at), Some(newer_than("7")));
    let (state, _) = go(state, page_end(&version("100"), None));
    assert_eq!(state, watching(listed("100")));
}

#[test]
fn an_incomplete_list_shows_what_there_is_and_is_repeated_after_a_delay() {
    let (state, _) = go(first_page(plan(ListAt::Consistent)), Input::Items { complete: false });
    let (state, outputs) = go(state, page_end(&version("100"), None));
    let end = Output::Mark(Marker::End { version: version("100"), complete: false });
    assert_eq!(outputs, [end, Output::BackOff(None)]);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert!(list_request(&outputs).is_some());
}

#[test]
fn the_list_after_an_incomplete_one_is_not_older() {
    for (shown, again) in [("100", newer_than("100")), ("", ListAt::Consistent), ("x", ListAt::Consistent)] {
        let (state, _) = go(first_page(plan(ListAt::Any)), Input::Items { complete: false });
        let (state, _) = go(state, page_end(&version(shown), None));
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(list_request(&outputs).map(|request| request.at), Some(again));
    }
}

#[test]
fn a_list_that_is_tried_again_says_so() {
    let failures = [failed(ErrorClass::Broken), failed(ErrorClass::NotFound), Input::Fired(Deadline::List)];
    for failure in failures {
        let (state, _) = go(first_page(plan(newer_than("7"))), failure);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs[0], Output::Count(RelistCause::Retry));
    }
}

#[test]
fn a_relist_that_is_asked_for_during_a_list_is_this_list() {
    let state = later_page(plan(ListAt::Consistent));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
}
