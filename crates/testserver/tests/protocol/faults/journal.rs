//! What the journal knows of a request.

use std::time::Duration;

use kube_testserver::{Fault, Request, RequestMatch, Rights, Server, Verb, WatchEnd};
use tokio::time::timeout;

use crate::ask::{Lines, R, ask, configmaps, get, server};

#[tokio::test(start_paused = true)]
async fn a_request_is_written_down_with_its_time_its_agent_and_its_user() {
    let server = Server::builder().user("t", "ann", Rights::All).build();
    tokio::time::advance(Duration::from_millis(1500)).await;
    let headers = [("user-agent", "probe/1"), ("authorization", "Bearer t")];
    ask(&server, "GET", R, &headers, "").await;
    ask(&server, "GET", R, &[("authorization", "Bearer x")], "").await;
    let log = server.journal().requests();
    assert_eq!((log[0].number, log[0].at), (1, Duration::from_millis(1500)));
    assert_eq!((log[0].user_agent.as_deref(), log[0].user.as_deref()), (Some("probe/1"), Some("ann")));
    assert_eq!((log[1].number, log[1].user.as_deref()), (2, None));
    assert_eq!(log[1].to_string(), format!("#2 list {R}? Answered(401)"));
}

#[tokio::test(start_paused = true)]
async fn it_says_how_each_watch_ended_and_after_how_many_frames() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let path = |query: &str| format!("{R}?watch=1&resourceVersion={start}{query}");
    let ended = |server: &Server| server.journal().requests().pop().map(|last| (last.ended, last.frames()));
    get(&server, &path("&timeoutSeconds=3")).await;
    assert_eq!(ended(&server), Some((Some(WatchEnd::TimedOut), 0)));
    let mut watch = Lines::open(&server, &path("")).await;
    configmaps(&server, &["b"]);
    watch.event().await;
    assert_eq!(ended(&server), Some((None, 1)));
    drop(watch);
    assert_eq!(ended(&server), Some((Some(WatchEnd::Client), 1)));
    for (end, how) in [
        (WatchEnd::Closed, Server::close_watches as fn(&Server) -> usize),
        (WatchEnd::Cut, |server| server.cut_watches(&RequestMatch::any())),
        (WatchEnd::Cut, |server| {
            server.restart();
            0
        }),
    ] {
        let mut watch = Lines::open(&server, &format!("{R}?watch=1")).await;
        watch.event().await;
        how(&server);
        while let Some(Ok(_)) = watch.line().await {}
        drop(watch);
        assert_eq!(ended(&server).unwrap().0, Some(end));
    }
    server.compact();
    get(&server, &path("")).await;
    assert_eq!(ended(&server), Some((Some(WatchEnd::Expired), 1)));
}

#[tokio::test(start_paused = true)]
async fn one_can_wait_for_a_request_and_for_what_becomes_of_it() {
    let server = server();
    configmaps(&server, &["a"]);
    get(&server, R).await;
    let journal = server.journal();
    let mark = journal.mark();
    let watches = |request: &kube_testserver::Request| request.info.verb == Verb::Watch;
    assert!(timeout(Duration::from_secs(9), journal.wait(mark, watches)).await.is_err());
    let client = async {
        get(&server, R).await;
        get(&server, &format!("{R}?watch=1&timeoutSeconds=4")).await;
    };
    let ended = journal.wait(mark, |request| request.ended == Some(WatchEnd::TimedOut));
    let (arrived, ended, ()) = tokio::join!(journal.wait(mark, watches), ended, client);
    assert_eq!((arrived.number, arrived.ended), (3, None));
    assert_eq!((ended.number, ended.at), (3, Duration::from_secs(9)));
    assert_eq!(journal.since(mark).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn predicates_may_ask_the_faults_and_the_journal() {
    let server = server();
    let asked = server.clone();
    let picks = move |_: &Request| asked.faults().pending() == 1 && asked.journal().requests().len() == 1;
    server.faults().next(RequestMatch::any().when(picks), Fault::gone());
    assert_eq!(get(&server, R).await.code, 410);
    let journal = server.journal();
    assert_eq!(
        journal
            .count_where(|request| journal.count_since(journal.mark(), |_| true) == 0 && request.number == 1),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn each_of_two_waiters_is_told_and_one_that_gives_up_takes_nothing_from_the_other() {
    let server = server();
    let (journal, mark) = (server.journal(), server.journal().mark());
    let is = |verb: Verb| move |request: &Request| request.info.verb == verb;
    assert!(timeout(Duration::from_secs(1), journal.wait(mark, is(Verb::List))).await.is_err());
    let asking = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.restart();
        get(&server, R).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        journal.clear();
        get(&server, &format!("{R}/a")).await;
    };
    let (first, second, third, ()) = tokio::join!(
        journal.wait(mark, is(Verb::List)),
        timeout(Duration::from_secs(2), journal.wait(mark, is(Verb::Get))),
        journal.wait(mark, is(Verb::Get)),
        asking
    );
    assert_eq!((first.number, second.is_err(), third.number), (1, true, 2));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_server_sees_each_write_also_one_that_is_taken_back() {
    let server = server();
    let then = configmaps(&server, &["a"]);
    let gone = |server: &Server| server.get("v1", "ConfigMap", Some("r"), "b").is_err().then_some(());
    configmaps(&server, &["b"]);
    let going = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.restore(then).unwrap();
    };
    timeout(Duration::from_secs(60), async {
        tokio::join!(server.wait_until(gone), server.wait_until(gone), going)
    })
    .await
    .unwrap();
}
