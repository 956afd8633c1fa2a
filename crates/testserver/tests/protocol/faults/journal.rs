//! The records of the journal.

use std::time::Duration;

use kube_testserver::{Fault, Request, RequestMatch, Rights, Server, Verb, WatchEnd};
use tokio::time::timeout;

use crate::client::{CONFIGMAPS, Lines, configmaps, get, send, server};

#[tokio::test(start_paused = true)]
async fn journal_records_time_user_agent_and_user() {
    let server = Server::builder().user("t", "ann", Rights::All).build();
    tokio::time::advance(Duration::from_millis(1500)).await;
    let headers = [("user-agent", "probe/1"), ("authorization", "Bearer t")];
    send(&server, "GET", CONFIGMAPS, &headers, "").await;
    send(&server, "GET", CONFIGMAPS, &[("authorization", "Bearer x")], "").await;
    let log = server.journal().requests();
    assert_eq!((log[0].number, log[0].at), (1, Duration::from_millis(1500)));
    assert_eq!((log[0].user_agent.as_deref(), log[0].user.as_deref()), (Some("probe/1"), Some("ann")));
    assert_eq!((log[1].number, log[1].user.as_deref()), (2, None));
    assert_eq!(log[1].to_string(), format!("#2 list {CONFIGMAPS} 401 by unknown (unknown)"));
}

#[tokio::test(start_paused = true)]
async fn journal_records_the_end_and_frames_of_each_watch() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let path = |query: &str| format!("{CONFIGMAPS}?watch=1&resourceVersion={start}{query}");
    let ended = |server: &Server| server.journal().requests().pop().map(|last| (last.ended, last.frames()));
    get(&server, &path("&timeoutSeconds=3")).await;
    assert_eq!(ended(&server), Some((Some(WatchEnd::TimedOut), 0)));
    let mut watch = Lines::open(&server, &path("")).await;
    configmaps(&server, &["b"]);
    watch.event().await;
    assert_eq!(ended(&server), Some((None, 1)));
    drop(watch);
    assert_eq!(ended(&server), Some((Some(WatchEnd::Client), 1)));
    for (end, close) in [
        (WatchEnd::Closed, Server::close_watches as fn(&Server) -> usize),
        (WatchEnd::Cut, |server| server.cut_watches(&RequestMatch::any())),
        (WatchEnd::Cut, |server| {
            server.restart();
            0
        }),
    ] {
        let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1")).await;
        watch.event().await;
        close(&server);
        while let Some(Ok(_)) = watch.line().await {}
        drop(watch);
        assert_eq!(ended(&server).unwrap().0, Some(end));
    }
    server.compact();
    get(&server, &path("")).await;
    assert_eq!(ended(&server), Some((Some(WatchEnd::Expired), 1)));
}

#[tokio::test(start_paused = true)]
async fn wait_returns_new_requests_and_later_outcomes() {
    let server = server();
    configmaps(&server, &["a"]);
    get(&server, CONFIGMAPS).await;
    let journal = server.journal();
    let mark = journal.mark();
    let watches = |request: &kube_testserver::Request| request.info.verb == Verb::Watch;
    assert!(timeout(Duration::from_secs(9), journal.wait_for(mark, watches)).await.is_err());
    let client = async {
        get(&server, CONFIGMAPS).await;
        get(&server, &format!("{CONFIGMAPS}?watch=1&timeoutSeconds=4")).await;
    };
    let ended = journal.wait_for(mark, |request| request.ended == Some(WatchEnd::TimedOut));
    let (arrived, ended, ()) = tokio::join!(journal.wait_for(mark, watches), ended, client);
    assert_eq!((arrived.number, arrived.ended), (3, None));
    assert_eq!((ended.number, ended.at), (3, Duration::from_secs(9)));
    assert_eq!(journal.since(mark).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn predicates_may_read_faults_and_journal() {
    let server = server();
    let read = server.clone();
    let selects = move |_: &Request| read.faults().pending() == 1 && read.journal().requests().len() == 1;
    server.faults().next(RequestMatch::any().when(selects), Fault::gone());
    assert_eq!(get(&server, CONFIGMAPS).await.code, 410);
    let journal = server.journal();
    assert_eq!(
        journal
            .count_where(|request| journal.count_since(journal.mark(), |_| true) == 0 && request.number == 1),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_does_not_affect_other_waits() {
    let server = server();
    let (journal, mark) = (server.journal(), server.journal().mark());
    let is = |verb: Verb| move |request: &Request| request.info.verb == verb;
    assert!(timeout(Duration::from_secs(1), journal.wait_for(mark, is(Verb::List))).await.is_err());
    let requests = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.restart();
        get(&server, CONFIGMAPS).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        journal.clear();
        get(&server, &format!("{CONFIGMAPS}/a")).await;
    };
    let (first, second, third, ()) = tokio::join!(
        journal.wait_for(mark, is(Verb::List)),
        timeout(Duration::from_secs(2), journal.wait_for(mark, is(Verb::Get))),
        journal.wait_for(mark, is(Verb::Get)),
        requests
    );
    assert_eq!((first.number, second.is_err(), third.number), (1, true, 2));
}

#[tokio::test(start_paused = true)]
async fn wait_until_observes_writes_and_restores() {
    let server = server();
    let then = configmaps(&server, &["a"]);
    let removed =
        |server: &Server| server.get_untyped("v1", "ConfigMap", Some("r"), "b").is_err().then_some(());
    configmaps(&server, &["b"]);
    let going = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.restore(then).unwrap();
    };
    timeout(Duration::from_secs(60), async {
        tokio::join!(server.wait_until(removed), server.wait_until(removed), going)
    })
    .await
    .unwrap();
}
