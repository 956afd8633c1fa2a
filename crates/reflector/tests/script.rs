//! Scripts of several transitions. Each line is an input and the resulting outputs and state.
//!
//! `fail`, `end` and `fired` are results of the open request. `page V` is the end of a page with
//! version V. `-` is an empty version. A line with `#` is a comment.

mod support;

use kube_reflector::{FirstList, ReflectorOptions, State, step};
use support::notation::{ParsedInput, outputs, state};

/// Plays the inputs of a script, and compares the results.
fn play(script: &str) -> State {
    play_with(
        script,
        &ReflectorOptions {
            streaming_lists: false,
            first_list: FirstList::Any,
            ..ReflectorOptions::default()
        },
    )
}

/// Plays a script with streaming lists.
fn play_streaming(script: &str) -> State {
    play_with(
        script,
        &ReflectorOptions {
            streaming_lists: true,
            first_list: FirstList::Any,
            ..ReflectorOptions::default()
        },
    )
}

fn play_with(script: &str, options: &ReflectorOptions) -> State {
    let mut machine = State::Idle;
    let mut played = String::new();
    for line in script.trim().lines().map(str::trim) {
        let Some((input, _)) = line.split_once(" -> ") else {
            played += &format!("{line}\n");
            continue;
        };
        let parsed = ParsedInput::parse(input);
        let (next, done) = step(machine, parsed.input(), options);
        played += &format!("{} -> {}\n", input.trim(), outputs(&done));
        machine = next;
    }
    let expected: String = script.trim().lines().map(|line| format!("{}\n", line.trim())).collect();
    assert!(played == expected, "expected\n\n{expected}\nbut got\n\n{played}");
    machine
}

#[test]
fn watch_without_failures() {
    let end = play(
        "start -> count start; list any limit=500; arm list; begin
        items -> deliver
        items -> deliver
        page 100 -> end 100; watch 100; arm watch
        added 101 -> deliver
        bookmark 103 -> deliver; arm bookmark
        changed 105 -> deliver; arm bookmark
        end full -> watch 105; arm watch
        bookmark 110 -> deliver; arm bookmark
        end full -> watch 110; arm watch",
    );
    assert_eq!(state(&end), "watching 110 (moved, opening)");
}

#[test]
fn etcd_restore_leaves_future_version() {
    let end = play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        changed 105 -> deliver
        end full -> watch 105; arm watch
        # etcd is restored to 90: the watch at 105 is accepted and says nothing, or only what is past
        bookmark 91 -> discard; check version; arm bookmark
        fired bookmark -> count stuck; list >=105; arm list; begin
        fail too-large retry-after=1 -> count too-large; list consistent limit=500 fresh; arm list; begin fresh
        items -> deliver
        page 92 -> end 92; watch 92; arm watch
        changed 93 -> deliver",
    );
    assert_eq!(state(&end), "watching 93 (moved, unstable, delivered)");
}

#[test]
fn etcd_restore_behind_proxy_with_idle_timeout() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 105 -> end 105; watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> watch 105; arm watch
        end short -> back off
        fired backoff -> count stuck; list >=105; arm list; begin
        fail too-large -> count too-large; list consistent limit=500 fresh; arm list; begin fresh
        page 92 -> end 92; watch 92; arm watch",
    );
}

#[test]
fn removed_crd_clears_cache_if_configured() {
    let options = ReflectorOptions {
        streaming_lists: false,
        first_list: FirstList::Any,
        clear_when_gone: true,
        ..ReflectorOptions::default()
    };
    play_with(
        "# it is not there yet, and then it is
        start -> count start; list any limit=500; arm list; begin
        fail not-found -> clear; back off
        fired backoff -> count retry; list consistent limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        changed 110 -> deliver
        fail not-found -> clear; back off
        fired backoff -> count not-found; list >=110; arm list; begin
        items -> deliver
        fail not-found -> clear; back off
        fired backoff -> count retry; list >=110; arm list; begin
        page 130 -> end 130; watch 130; arm watch",
        &options,
    );
}

#[test]
fn removed_crd_returns() {
    let end = play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        # the objects are deleted, and the watch ends
        changed 110 -> deliver
        changed 111 -> deliver
        end short -> watch 111; arm watch
        fail not-found -> back off
        fired backoff -> count not-found; list >=111; arm list; begin
        fail not-found -> back off
        relist -> none
        fired backoff -> count retry; list >=111; arm list; begin
        # it is back, without objects yet
        page 130 -> end 130; watch 130; arm watch
        added 131 -> deliver",
    );
    assert_eq!(state(&end), "watching 131 (moved, delivered)");
}

#[test]
fn undecodable_event_on_server_repeats_until_relist() {
    let end = play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        changed 105 -> deliver
        fail broken -> back off
        fired backoff -> watch 105; arm watch
        # a repeated bookmark is no progress
        bookmark 105 -> discard; arm bookmark
        fail broken -> back off
        fired backoff -> watch 105; arm watch
        fail broken -> back off
        fired backoff -> count stuck; list >=105; arm list; begin
        # as long as the object is there a list fails too
        fail broken -> back off
        fired backoff -> count retry; list >=105; arm list; begin
        page 120 -> end 120; watch 120; arm watch",
    );
    assert_eq!(state(&end), "watching 120 (opening)");
}

#[test]
fn server_closes_each_watch_immediately() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        end early -> back off
        fired backoff -> watch 100; arm watch
        end early -> back off
        fired backoff -> watch 100; arm watch
        end early -> back off
        fired backoff -> count stuck; list >=100; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        end early -> back off
        # each brings an event before: that is progress, but still no reason to hurry
        fired backoff -> watch 100; arm watch
        changed 101 -> deliver
        end early -> back off
        fired backoff -> watch 101; arm watch
        changed 102 -> deliver
        end early -> back off",
    );
}

#[test]
fn server_expires_each_version() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        changed 101 -> deliver
        # the first expiry after progress is normal
        fail expired -> count expired; list consistent limit=500 fresh; arm list; begin fresh
        page 110 -> end 110; watch 110; arm watch
        fail expired -> back off
        fired backoff -> count expired; list consistent limit=500 fresh; arm list; begin fresh
        page 120 -> end 120; watch 120; arm watch
        changed 121 -> deliver
        fail expired -> back off
        fired backoff -> count expired; list consistent limit=500 fresh; arm list; begin fresh
        page 130 -> end 130; watch 130; arm watch
        # until a watch has lasted
        changed 131 -> deliver
        end full -> watch 131; arm watch
        fail expired -> count expired; list consistent limit=500 fresh; arm list; begin fresh",
    );
}

#[test]
fn pages_of_long_list_expire() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 next=s -> list continue=s limit=500; arm list
        page 100 next=t -> list continue=t limit=500; arm list
        fail expired -> count expired; list any; arm list; begin
        fail overloaded retry-after=5 -> back off 5s
        fired backoff -> count retry; list any limit=500; arm list; begin
        page 140 next=u -> list continue=u limit=500; arm list
        page 140 -> end 140; watch 140; arm watch
        relist -> count requested; list >=140 limit=500; arm list; begin",
    );
}

#[test]
fn server_ignores_continue_token() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 next=s -> list continue=s limit=500; arm list
        page 100 next=s -> abandon pages; count retry; list any; arm list; begin
        page 100 next=s -> list continue=s; arm list
        page 100 next=s -> abandon pages; back off",
    );
}

#[test]
fn server_repeats_pages_in_cycle() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page 100 next=s -> list continue=s limit=500; arm list
        page 100 next=t -> list continue=t limit=500; arm list
        page 100 next=s -> list continue=s limit=500; arm list
        page 100 next=t -> abandon pages; count retry; list any; arm list; begin
        page 100 -> end 100; watch 100; arm watch",
    );
}

#[test]
fn aggregated_server_without_versions() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        page - -> end -; watch -; arm watch
        added - -> deliver
        added - -> deliver
        changed - -> deliver
        end full -> count stuck; list consistent limit=500; arm list; begin
        page - -> end -; watch -; arm watch
        end short -> back off
        fired backoff -> count stuck; list consistent limit=500; arm list; begin",
    );
}

#[test]
fn list_has_item_without_name() {
    let end = play(
        "start -> count start; list any limit=500; arm list; begin
        items nameless -> deliver
        items -> deliver
        page 100 -> end 100 incomplete; back off
        fired backoff -> count retry; list >=100; arm list; begin
        items -> deliver
        page 105 -> end 105; watch 105; arm watch",
    );
    assert_eq!(state(&end), "watching 105 (opening)");
}

#[test]
fn permission_is_revoked_and_restored() {
    play(
        "start -> count start; list any limit=500; arm list; begin
        fail forbidden -> back off
        fired backoff -> count retry; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        changed 101 -> deliver
        end full -> watch 101; arm watch
        fail forbidden -> back off
        fired backoff -> watch 101; arm watch
        fail unauthorized -> back off
        fired backoff -> watch 101; arm watch
        fail refused -> back off
        fired backoff -> watch 101; arm watch
        fail overloaded retry-after=7 -> back off 7s
        fired backoff -> watch 101; arm watch
        changed 102 -> deliver",
    );
}

#[test]
fn streaming_list_continues_as_watch() {
    let end = play_streaming(
        "start -> count start; stream consistent; arm watch; arm list; begin
        opened -> arm initial-events
        added 40 -> deliver; arm initial-events
        added 12 -> deliver; arm initial-events
        # events during the streaming list
        changed 101 -> deliver
        initial-end 101 -> end 101; disarm list; disarm initial-events
        changed 103 -> deliver
        bookmark 110 -> deliver; arm bookmark
        end full -> watch 110; arm watch
        fail expired -> count expired; stream consistent fresh; arm watch; arm list; begin fresh
        added 120 -> deliver; arm initial-events
        initial-end 130 -> end 130; disarm list; disarm initial-events",
    );
    assert_eq!(state(&end), "watching 130 (unstable)");
}

#[test]
fn server_ignores_streaming_parameters() {
    let end = play_streaming(
        "start -> count start; stream consistent; arm watch; arm list; begin
        opened -> arm initial-events
        added 40 -> deliver; arm initial-events
        changed 41 -> deliver
        # the bookmark of the end does not arrive
        fired initial-events -> count retry; list any limit=500; arm list; begin
        page 100 -> end 100; watch 100; arm watch
        relist -> count requested; list >=100; arm list; begin
        page 120 -> end 120; watch 120; arm watch
        changed 121 -> deliver
        end full -> watch 121; arm watch
        # after a full watch, the next list streams again
        relist -> count requested; stream >=121; arm watch; arm list; begin
        fail unsupported -> count retry; list >=121; arm list; begin",
    );
    assert_eq!(state(&end), "listing >=121 no-streaming immediate");
}
