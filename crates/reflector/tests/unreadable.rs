//! A list with any number of unreadable items writes a limited number of log lines. Each test starts
//! with [`Logged::begin`].

use kube_listwatch::ListPart;
use kube_object::DecodeError;

use logged::Logged;
use support::{
    fake::{Answer, Beat, Fake, events, hangs, list, page_end, thing},
    run::{Run, run, run_with, seconds, streaming},
};

#[path = "../../informer/tests/support/logged.rs"]
mod logged;
mod support;

/// The items of each of two pages.
const ITEMS: usize = 1000;

/// Returns a page of undecodable objects and of items without an identity.
fn unreadable(page: usize) -> Beat<ListPart<()>> {
    let items = (0..ITEMS).map(|n| thing(&format!("!object-{page}-{n}@1"))).collect();
    let nameless = (0..ITEMS).map(|position| DecodeError::Syntax { position }).collect();
    Beat::Give(ListPart::Items { items, nameless })
}

fn first_list(last: Beat<ListPart<()>>) -> Answer<ListPart<()>> {
    vec![unreadable(0), unreadable(1), last]
}

/// Returns the number of log lines with this text.
fn lines(logged: &Logged, text: &str) -> usize {
    logged.text().lines().filter(|line| line.contains(text)).count()
}

fn assert_few_lines(logged: &Logged, run: &Run) {
    assert_eq!(lines(logged, "message=cannot decode an object;"), 10);
    assert_eq!((lines(logged, "id=object-0-9"), lines(logged, "id=object-0-10")), (1, 0));
    assert_eq!(lines(logged, "message=cannot decode more objects of the list;"), 1);
    assert_eq!(lines(logged, &format!("more={}", 2 * ITEMS - 10)), 1);
    assert_eq!(run.status().undecodable, 2 * ITEMS as u64);
}

fn assert_one_line_of_nameless(logged: &Logged, run: &Run) {
    assert_eq!(lines(logged, "message=cannot identify items of a list;"), 1);
    assert_eq!(lines(logged, &format!("count={}", 2 * ITEMS)), 1);
    assert_eq!(lines(logged, "first_error=malformed JSON at byte 0"), 1);
    assert_eq!(run.status().nameless, 2 * ITEMS as u64);
}

#[tokio::test(start_paused = true)]
async fn list_of_unreadable_items_writes_few_log_lines() {
    let logged = Logged::begin();
    let first = |n| if n == 0 { first_list(page_end("5", None)) } else { list(&[], "6") };
    let run = run(&Fake::new(move |n, _| first(n), |_, _| hangs()));
    seconds(10).await;
    assert_few_lines(&logged, &run);
    assert_one_line_of_nameless(&logged, &run);
}

#[tokio::test(start_paused = true)]
async fn failed_list_of_unreadable_items_is_logged_before_retry() {
    let logged = Logged::begin();
    let first = |n| if n == 0 { first_list(Beat::Fail(500, None)) } else { hangs() };
    let run = run(&Fake::new(move |n, _| first(n), |_, _| hangs()));
    tokio::task::yield_now().await;
    seconds(0).await;
    assert_eq!(run.status().lists, 1);
    assert_few_lines(&logged, &run);
    assert_one_line_of_nameless(&logged, &run);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_of_undecodable_objects_writes_few_log_lines() {
    let logged = Logged::begin();
    let initial: Vec<String> = (0..2 * ITEMS).map(|n| format!("+!object-0-{n}@1")).collect();
    let watch = move || {
        let initial: Vec<&str> = initial.iter().map(String::as_str).collect();
        vec![events(&initial), events(&[".5", "~!live-1@6", "~!live-2@7"]), Beat::Hang]
    };
    let run = run_with(&Fake::new(|_, _| hangs(), move |_, _| watch()), streaming(), |reflector| reflector);
    seconds(1).await;
    assert_eq!((lines(&logged, "id=live-1"), lines(&logged, "id=live-2")), (1, 1), "each event is logged");
    assert_eq!(lines(&logged, "message=cannot decode an object;"), 12);
    assert_eq!(lines(&logged, &format!("more={}", 2 * ITEMS - 10)), 1);
    assert_eq!(run.status().undecodable, 2 * ITEMS as u64 + 2);
}
