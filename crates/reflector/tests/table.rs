//! Compares the table of transitions in docs/reflector.md with the state machine.
//!
//! `UPDATE_DOCS=1 cargo test -p kube-reflector --test table` writes the table.

mod support;

use std::path::PathBuf;

use kube_listwatch::ListAt;
use kube_object::ResourceVersion;
use kube_reflector::{
    AfterBackoff, FirstList, ListPlan, Listing, Position, ReflectorOptions, RelistCause, ServerLimits, State,
    Streaming, Waiting, Watching, step,
};
use support::notation::{ParsedInput, outputs, state};

const BEGIN: &str = "<!-- The rest is written by crates/reflector/tests/table.rs. -->\n";

const INPUTS: [&str; 42] = [
    "start",
    "resume 9",
    "items",
    "items nameless",
    "page 8",
    "page 100",
    "page 100 next=s",
    "page 100 next=t",
    "opened",
    "server 8",
    "server 9",
    "added 8",
    "added 10",
    "added -",
    "changed 8",
    "changed 10",
    "changed -",
    "bookmark 8",
    "bookmark 10",
    "bookmark -",
    "initial-end 8",
    "initial-end 10",
    "end early",
    "end short",
    "end full",
    "fail expired",
    "fail too-large",
    "fail not-found",
    "fail overloaded",
    "fail overloaded retry-after=9",
    "fail refused",
    "fail unauthorized",
    "fail forbidden",
    "fail unsupported",
    "fail broken",
    "fail broken retry-after=9",
    "fired list",
    "fired initial-events",
    "fired watch",
    "fired bookmark",
    "fired backoff",
    "relist",
];

fn plan(at: ListAt) -> ListPlan {
    ListPlan { at, fresh: false, unpaged: false, limits: ServerLimits::default(), immediate: false }
}

fn no_streaming() -> ServerLimits {
    ServerLimits { no_streaming: true, ..ServerLimits::default() }
}

fn no_watch_cache() -> ServerLimits {
    ServerLimits { no_watch_cache: true, ..ServerLimits::default() }
}

fn at_nine() -> ListAt {
    ListAt::NotOlderThan(9.into())
}

/// Returns a list without streaming.
fn first_page(plan: ListPlan) -> Listing {
    let plan = ListPlan { limits: ServerLimits { no_streaming: true, ..plan.limits }, ..plan };
    Listing { plan, version: None, token: None, earlier: None, pages: 0, empty_pages: 0, complete: true }
}

fn later_page(plan: ListPlan) -> Listing {
    let token = Some("s".to_owned());
    Listing {
        version: Some(100.into()),
        earlier: token.clone(),
        token,
        pages: 1,
        empty_pages: 1,
        ..first_page(plan)
    }
}

fn lists() -> Vec<State> {
    let unpaged = ListPlan { unpaged: true, ..plan(at_nine()) };
    let fresh = ListPlan { fresh: true, ..plan(ListAt::Consistent) };
    let listings = vec![
        first_page(plan(ListAt::Any)),
        later_page(plan(ListAt::Any)),
        Listing { complete: false, ..first_page(plan(ListAt::Any)) },
        first_page(plan(at_nine())),
        later_page(ListPlan { limits: no_watch_cache(), ..plan(at_nine()) }),
        first_page(unpaged),
        first_page(fresh.clone()),
        later_page(fresh),
    ];
    let stream = |at, opened, relist| State::Streaming(Streaming { plan: plan(at), opened, relist });
    let streams = [
        stream(ListAt::Any, false, false),
        stream(ListAt::Any, true, false),
        stream(at_nine(), true, false),
        stream(at_nine(), true, true),
    ];
    streams.into_iter().chain(listings.into_iter().map(State::Listing)).collect()
}

fn position(version: &str) -> Position {
    let version = ResourceVersion::new(version);
    Position {
        version,
        moved: false,
        unstable: false,
        stall_weight: 0,
        check_version: false,
        disordered: false,
        resumed: false,
        limits: ServerLimits::default(),
    }
}

fn watches() -> Vec<State> {
    let opened = |position| Watching { position, opened: true, delivered: false, bookmarked: false };
    let moved = || Position { moved: true, ..position("9") };
    let watches = vec![
        Watching { opened: false, ..opened(position("9")) },
        opened(position("9")),
        opened(Position { unstable: true, ..position("9") }),
        Watching { delivered: true, ..opened(moved()) },
        Watching { delivered: true, bookmarked: true, ..opened(moved()) },
        Watching { delivered: true, ..opened(Position { unstable: true, ..moved() }) },
        opened(Position { check_version: true, ..moved() }),
        opened(Position { disordered: true, ..moved() }),
        opened(Position { limits: no_streaming(), ..moved() }),
        opened(Position { stall_weight: 6, ..moved() }),
        opened(Position { stall_weight: 8, ..moved() }),
        opened(Position { stall_weight: 11, ..moved() }),
        opened(Position { resumed: true, ..position("9") }),
        opened(Position { resumed: true, disordered: true, ..moved() }),
        opened(position("")),
        opened(Position { unstable: true, ..position("") }),
    ];
    watches.into_iter().map(State::Watching).collect()
}

fn waits() -> Vec<State> {
    let again = |plan| AfterBackoff::List { plan, cause: RelistCause::Retry };
    let wait = |then, suspended| State::Waiting(Waiting { then, suspended });
    vec![
        wait(again(plan(ListAt::Any)), false),
        wait(AfterBackoff::Watch(position("9")), false),
        wait(again(plan(ListAt::Consistent)), true),
    ]
}

/// Returns the rows of a state. Inputs with the same result share a row.
fn rows(before: &State) -> Vec<(Vec<&'static str>, String)> {
    let mut rows: Vec<(Vec<&str>, String)> = Vec::new();
    let options =
        ReflectorOptions { streaming_lists: true, first_list: FirstList::Any, ..ReflectorOptions::default() };
    for input in INPUTS {
        let (after, done) = step(before.clone(), ParsedInput::parse(input).input(), &options);
        if after == *before && done.is_empty() {
            continue;
        }
        let after = if after == *before { "the same".to_owned() } else { format!("`{}`", state(&after)) };
        let done = outputs(&done);
        let done = if done.is_empty() { done } else { format!("`{done}`") };
        let result = format!("{after} | {done}");
        match rows.iter_mut().find(|(_, other)| *other == result) {
            Some((inputs, _)) => inputs.push(input),
            None => rows.push((vec![input], result)),
        }
    }
    rows
}

fn table() -> String {
    let mut text = String::from(BEGIN);
    for before in [vec![State::Idle], lists(), watches(), waits()].concat() {
        text += &format!("\n### `{}`\n\n| input | next state | outputs |\n|---|---|---|\n", state(&before));
        for (inputs, result) in rows(&before) {
            text += &format!("| `{}` | {result} |\n", inputs.join("`, `"));
        }
    }
    text
}

#[test]
fn document_matches_state_machine() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reflector.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (prose, written) = document.split_at(document.find(BEGIN).expect("the table has its heading"));
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{prose}{table}")).unwrap();
        return;
    }
    let differs = written.lines().zip(table.lines()).find(|(written, now)| written != now);
    assert!(written == table, "write the table with UPDATE_DOCS=1; the first difference is {differs:#?}");
}

#[test]
fn table_contains_each_kind_of_state_and_input() {
    let shown: Vec<&str> = INPUTS.iter().map(|input| input.split(' ').next().unwrap()).collect();
    for kind in ["start", "items", "page", "added", "changed", "bookmark", "end", "fail", "fired", "relist"] {
        assert!(shown.contains(&kind), "no {kind}");
    }
    let table = table();
    for kind in ["idle", "listing", "streaming", "watching", "waiting", "suspended"] {
        assert!(table.contains(&format!("### `{kind}")), "no {kind}");
    }
}
