//! Explores all states that a set of inputs can reach, and checks their properties.

mod support;

use std::collections::{HashMap, HashSet};

use kube_listwatch::ListAt;
use kube_reflector::{FirstList, Marker, Output, ReflectorOptions, State, step};
use support::notation::{ParsedInput, state};

/// The inputs that a server can cause without a delay.
const AT_ONCE: [&str; 19] = [
    "items",
    "items nameless",
    "page 9",
    "page -",
    "page 9 next=s",
    "changed 10",
    "changed 8",
    "changed -",
    "added 10",
    "bookmark 10",
    "initial-end 10",
    "end early",
    "fail expired",
    "fail too-large",
    "fail not-found",
    "fail overloaded",
    "fail forbidden",
    "fail unsupported",
    "fail broken",
];

const IN_TIME: [&str; 9] = [
    "start",
    "end short",
    "end full",
    "fired list",
    "fired initial-events",
    "fired watch",
    "fired bookmark",
    "fired backoff",
    "relist",
];

fn go(before: &State, input: &str) -> (State, Vec<Output>) {
    let options =
        ReflectorOptions { streaming_lists: true, first_list: FirstList::Any, ..ReflectorOptions::default() };
    step(before.clone(), ParsedInput::parse(input).input(), &options)
}

/// Returns all reachable states by name.
fn reachable() -> HashMap<String, State> {
    let mut found = HashMap::from([(state(&State::Idle), State::Idle)]);
    let mut open = vec![State::Idle];
    while let Some(before) = open.pop() {
        for input in AT_ONCE.into_iter().chain(IN_TIME) {
            let (after, _) = go(&before, input);
            if found.insert(state(&after), after.clone()).is_none() {
                open.push(after);
            }
        }
    }
    found
}

fn asks(outputs: &[Output]) -> bool {
    outputs
        .iter()
        .any(|output| matches!(output, Output::List { .. } | Output::Stream { .. } | Output::Watch(_)))
}

/// Returns whether the outputs start a list or a watch. Later pages of a list do not count.
fn begins(outputs: &[Output]) -> bool {
    let page = |output: &Output| matches!(output, Output::List { request, .. } if matches!(request.at, ListAt::Continue(_)));
    asks(outputs) && !outputs.iter().any(page)
}

fn waits(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::BackOff(_)))
}

/// Returns the maximum number of lists and watches that immediate responses cause from this state.
fn longest(before: &State, path: &mut HashSet<String>, known: &mut HashMap<String, usize>) -> usize {
    let name = state(before);
    if let Some(length) = known.get(&name) {
        return *length;
    }
    assert!(path.insert(name.clone()), "a loop without a delay through {name}");
    let mut most = 0;
    for input in AT_ONCE {
        let (after, outputs) = go(before, input);
        if after == *before {
            assert!(!asks(&outputs), "{name} repeats the request without a delay");
        } else if !waits(&outputs) {
            most = most.max(usize::from(begins(&outputs)) + longest(&after, path, known));
        }
    }
    path.remove(&name);
    known.insert(name, most);
    most
}

#[test]
fn immediate_responses_cause_two_lists_and_a_watch_at_most() {
    let states = reachable();
    assert!(states.len() > 100, "{}", states.len());
    let mut known = HashMap::new();
    let most = states.values().map(|from| longest(from, &mut HashSet::new(), &mut known)).max();
    assert_eq!(most, Some(3));
}

#[test]
fn any_state_is_not_requested_after_first_list() {
    let mut seen = HashSet::new();
    let mut open = vec![(State::Idle, false)];
    while let Some((before, was_shown)) = open.pop() {
        for input in AT_ONCE.into_iter().chain(IN_TIME) {
            let (after, outputs) = go(&before, input);
            let any = outputs
                .iter()
                .any(|output| matches!(output, Output::List { request, .. } if request.at == ListAt::Any));
            assert!(!(any && was_shown), "{} {input}", state(&before));
            let shows = outputs.iter().any(|output| matches!(output, Output::Mark(Marker::End { .. })));
            if seen.insert((state(&after), was_shown || shows)) {
                open.push((after, was_shown || shows));
            }
        }
    }
}

#[test]
fn recovered_server_is_watched_from_each_state() {
    for from in reachable().into_values().filter(|from| *from != State::Idle) {
        let mut machine = from.clone();
        for _ in 0..4 {
            machine = match &machine {
                State::Waiting(_) => go(&machine, "fired backoff").0,
                State::Listing(_) => go(&machine, "page 20").0,
                State::Streaming(_) => go(&machine, "initial-end 20").0,
                State::Watching(_) | State::Idle => break,
            };
        }
        assert!(matches!(machine, State::Watching(_)), "{} leads to {}", state(&from), state(&machine));
    }
}
