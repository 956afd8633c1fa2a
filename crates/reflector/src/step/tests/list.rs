//! Tests of lists: pages, the end of a list, and failures.

use super::*;

#[test]
fn first_list_of_any_state_is_requested_in_pages() {
    let (state, outputs) = go(State::Idle, Input::Start);
    assert_eq!(state, first_page(plan(ListAt::Any)));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Any, Some(500), false));
}

#[test]
fn first_list_is_consistent_by_default() {
    let (state, outputs) = step(State::Idle, Input::Start, &ReflectorOptions::default());
    assert_eq!(state, first_page(plan(ListAt::Consistent)));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Consistent, Some(500), false));
}

#[test]
fn fresh_first_list_starts_new_epoch() {
    let options = ReflectorOptions { first_list: FirstList::Fresh, ..listing() };
    let (state, outputs) = step(State::Idle, Input::Start, &options);
    assert_eq!(state, first_page(fresh()));
    assert_eq!(outputs, list_outputs(RelistCause::Start, ListAt::Consistent, Some(500), true));
}

#[test]
fn list_has_pages_only_if_it_reads_etcd() {
    let limit = |plan: ListPlan, page_size| {
        let options = ReflectorOptions { page_size, ..listing() };
        plan.request(None, &options).limit
    };
    let paging = |at| ListPlan { limits: no_watch_cache(), ..plan(at) };
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
fn list_at_version_with_limit_is_not_older_than() {
    let options = ReflectorOptions { page_size: Some(50), ..listing() };
    let position = moved("7");
    let request = ListPlan::relist(&position).request(None, &options);
    assert_eq!(request, ListRequest { at: newer_than("7"), limit: Some(50) });
}

#[test]
fn item_without_name_makes_list_incomplete() {
    let (state, outputs) = go(first_page(plan(ListAt::Any)), Input::Items { complete: true });
    assert_eq!((state, outputs), (first_page(plan(ListAt::Any)), vec![Output::Deliver]));
    let (state, outputs) = go(first_page(plan(ListAt::Any)), Input::Items { complete: false });
    assert_eq!(outputs, [Output::Deliver]);
    let (state, _) = go(state, Input::Items { complete: true });
    let State::Listing(listing) = state else { panic!("{state:?}") };
    assert!(!listing.complete, "a later valid item does not complete the list");
}

#[test]
fn page_with_token_requests_next_page_with_deadline() {
    let (state, outputs) = go(first_page(plan(ListAt::Consistent)), page_end(&version("100"), Some("t")));
    let request = ListRequest { at: ListAt::Continue("t".into()), limit: Some(500) };
    assert_eq!(outputs, [Output::List { request, fresh: false }, Output::Arm(Deadline::List)]);
    let State::Listing(listing) = state else { panic!("{state:?}") };
    assert_eq!((listing.plan.at, listing.version), (ListAt::Consistent, Some(version("100"))));
}

#[test]
fn list_has_version_of_first_page() {
    let (state, outputs) = go(later_page(plan(ListAt::Consistent)), page_end(&version("105"), None));
    assert_eq!(state, watching(listed("100")));
    let end = Output::Mark(Marker::End { version: version("100"), complete: true });
    assert_eq!(outputs, [vec![end], watch_outputs("100")].concat());
}

/// Property 13. A server or a proxy cache with an older state is like a server that has not reached the
/// version. Opaque versions are not compared.
#[test]
fn list_older_than_requested_counts_as_too_large() {
    for next in [None, Some("t")] {
        let (state, outputs) = go(first_page(plan(newer_than("9"))), page_end(&version("8"), next));
        assert_eq!(state, first_page(immediate(fresh())));
        assert_eq!(outputs, list_outputs(RelistCause::TooLarge, ListAt::Consistent, Some(500), true));
        let (state, _) = go(state, page_end(&version("8"), None));
        assert!(matches!(state, State::Watching(_)), "the most recent state is accepted: {state:?}");
    }
    for at in ["9", "10", "", "x"] {
        let (state, _) = go(first_page(plan(newer_than("9"))), page_end(&version(at), None));
        assert!(matches!(state, State::Watching(_)), "{at}: {state:?}");
    }
}

#[test]
fn paged_list_of_any_state_makes_relists_paged() {
    let (state, _) = go(first_page(plan(ListAt::Any)), page_end(&version("100"), Some("t")));
    let (state, _) = go(state, page_end(&version("100"), None));
    let (_, outputs) = go(state, Input::Relist);
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("100"), limit: Some(500) }));
}

#[test]
fn expired_page_causes_one_unpaged_list() {
    for at in [ListAt::Any, ListAt::Consistent, newer_than("7")] {
        let paging = ListPlan { limits: no_watch_cache(), ..plan(at.clone()) };
        let (state, outputs) = go(later_page(paging.clone()), failed(ErrorClass::Expired));
        assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..paging })));
        assert_eq!(outputs, list_outputs(RelistCause::Expired, at, None, false));
    }
}

#[test]
fn repeated_page_causes_one_unpaged_list() {
    let (state, outputs) = go(later_page(plan(ListAt::Consistent)), page_end(&version("100"), Some("s")));
    assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(ListAt::Consistent) })));
    assert_eq!(outputs, abandoned(2, list_outputs(RelistCause::Retry, ListAt::Consistent, None, false)));
    let (state, _) = go(state, page_end(&version("100"), Some("s")));
    let (_, outputs) = go(state, page_end(&version("100"), Some("s")));
    assert_eq!(outputs, abandoned(2, vec![Output::BackOff(None)]));
}

fn abandoned(pages: u32, then: Vec<Output>) -> Vec<Output> {
    [vec![Output::AbandonPages { pages }], then].concat()
}

/// Returns the state after a page with an item, and the outputs at its end.
fn full_page(state: State, token: &str) -> (State, Vec<Output>) {
    let (state, _) = go(state, Input::Items { complete: true });
    go(state, page_end(&version("100"), Some(token)))
}

#[test]
fn cycle_of_tokens_is_detected() {
    for circle in 1..50 {
        let mut state = first_page(plan(ListAt::Consistent));
        let pages = (0..1000).find(|page| {
            let token = (page % circle).to_string();
            let (next, outputs) = full_page(state.clone(), &token);
            state = next;
            outputs.ends_with(&[Output::BackOff(None)])
        });
        // The unpaged list also has a cycle of tokens.
        assert!(pages.unwrap() <= 2 * 4 * circle, "a circle of {circle}: {pages:?} pages");
    }
}

#[test]
fn endless_tokens_cause_unpaged_list() {
    let mut state = first_page(plan(ListAt::Consistent));
    for page in 0..10_000 {
        let (next, outputs) = full_page(state, &page.to_string());
        assert!(matches!(list_request(&outputs).unwrap().at, ListAt::Continue(_)), "{outputs:?}");
        state = next;
    }
    let (state, outputs) = full_page(state, "more");
    assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(ListAt::Consistent) })));
    assert_eq!(outputs[0], Output::AbandonPages { pages: 10_001 });
}

#[test]
fn consecutive_empty_pages_cause_unpaged_list() {
    let mut state = first_page(plan(ListAt::Consistent));
    for page in 0..100 {
        state = match page % 16 {
            0 => full_page(state, &page.to_string()).0,
            _ => go(state, page_end(&version("100"), Some(&page.to_string()))).0,
        };
        assert!(matches!(&state, State::Listing(listing) if !listing.plan.unpaged), "page {page}");
    }
    let (_, outputs) = (100..120).fold((state, Vec::new()), |(state, outputs), page| {
        let (state, more) = go(state, page_end(&version("100"), Some(&page.to_string())));
        (state, [outputs, more].concat())
    });
    assert!(outputs.iter().any(|output| matches!(output, Output::AbandonPages { .. })));
}

/// A server can reject each kind of list.
#[test]
fn second_immediate_list_waits() {
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
        assert_eq!(state, first_page(then), "{class:?}: an immediate list may follow after the delay");
    }
}

#[test]
fn failed_unpaged_list_waits() {
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
fn later_lists_use_pages_again() {
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
fn expired_or_future_version_causes_consistent_list() {
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
fn expired_consistent_list_waits() {
    for class in [ErrorClass::Expired, ErrorClass::TooLarge] {
        let (state, outputs) = go(first_page(plan(ListAt::Consistent)), failed(class));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(fresh()), "{class:?}");
    }
}

#[test]
fn fresh_list_stays_fresh_on_retry() {
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
fn list_respects_retry_after_for_each_failure() {
    let delay = Some(Duration::from_secs(9));
    for class in [ErrorClass::Expired, ErrorClass::TooLarge, ErrorClass::NotFound, ErrorClass::Broken] {
        let (_, outputs) = go(first_page(fresh()), Input::Failed(class, delay));
        assert_eq!(outputs, [Output::BackOff(delay)], "{class:?}");
    }
}

#[test]
fn other_failures_repeat_same_list_after_delay() {
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

/// The version can be of another server, or of a faulty server.
#[test]
fn rejected_version_is_not_requested_again() {
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
fn rejected_token_causes_one_unpaged_list() {
    for at in [ListAt::Any, ListAt::Consistent, newer_than("7")] {
        let (state, outputs) = go(later_page(plan(at.clone())), failed(ErrorClass::Unsupported));
        assert_eq!(state, first_page(immediate(ListPlan { unpaged: true, ..plan(at.clone()) })));
        assert_eq!(outputs, list_outputs(RelistCause::Retry, at, None, false));
        let (_, outputs) = go(state, failed(ErrorClass::Unsupported));
        assert_eq!(outputs, [Output::BackOff(None)]);
    }
}

#[test]
fn page_timeout_repeats_same_list_after_delay() {
    for state in [first_page(plan(newer_than("7"))), later_page(plan(newer_than("7")))] {
        let (state, outputs) = go(state, Input::Fired(Deadline::List));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(plan(newer_than("7"))));
    }
}

/// Property 13. The next list has the same version, which detects an older state.
#[test]
fn missing_resource_suspends_and_keeps_version() {
    let (state, outputs) = go(first_page(plan(newer_than("7"))), failed(ErrorClass::NotFound));
    assert!(matches!(&state, State::Waiting(waiting) if waiting.suspended), "{state:?}");
    assert_eq!(outputs, [Output::BackOff(None)]);
    let (state, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs).map(|request| request.at), Some(newer_than("7")));
    let (state, _) = go(state, page_end(&version("100"), None));
    assert_eq!(state, watching(listed("100")));
}

#[test]
fn incomplete_list_is_delivered_and_repeated() {
    let (state, _) = go(first_page(plan(ListAt::Consistent)), Input::Items { complete: false });
    let (state, outputs) = go(state, page_end(&version("100"), None));
    let end = Output::Mark(Marker::End { version: version("100"), complete: false });
    assert_eq!(outputs, [end, Output::BackOff(None)]);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert!(list_request(&outputs).is_some());
}

#[test]
fn list_after_incomplete_list_is_not_older() {
    for (shown, again) in [("100", newer_than("100")), ("", ListAt::Consistent), ("x", ListAt::Consistent)] {
        let (state, _) = go(first_page(plan(ListAt::Any)), Input::Items { complete: false });
        let (state, _) = go(state, page_end(&version(shown), None));
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(list_request(&outputs).map(|request| request.at), Some(again));
    }
}

#[test]
fn repeated_list_has_cause_retry() {
    let failures = [failed(ErrorClass::Broken), failed(ErrorClass::NotFound), Input::Fired(Deadline::List)];
    for failure in failures {
        let (state, _) = go(first_page(plan(newer_than("7"))), failure);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs[0], Output::Count(RelistCause::Retry));
    }
}

#[test]
fn open_list_satisfies_requested_relist() {
    let state = later_page(plan(ListAt::Consistent));
    assert_eq!(go(state.clone(), Input::Relist), (state, vec![]));
}
