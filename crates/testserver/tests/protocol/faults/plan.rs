//! Plans: faults drawn from a seed.

use std::time::Duration;

use jiff::SignedDuration;
use kube_testserver::{
    CutAfter, Disruption, Fault, FaultKind, FaultPlan, Lag, RequestMatch, Server, Verb, WatchEnd,
};
use tokio::time::timeout;

use crate::ask::{Lines, R, configmaps, get, server};

/// A run of many requests of all kinds; what the client saw, and what the plan says it did.
async fn run(seed: u64) -> (Vec<String>, Vec<String>) {
    let server = Server::builder().plan(FaultPlan::common_faults(seed).rate(0.4)).build();
    let mut seen = Vec::new();
    for round in 0..60 {
        let write = format!("{R}?round={round}");
        let version = configmaps(&server, &[&format!("c{round}")]);
        for path in [
            format!("{R}?limit=3"),
            format!("{R}?resourceVersion=0"),
            format!("{R}?watch=1&resourceVersion={}&timeoutSeconds=5", version - 1),
            write,
        ] {
            let request = http::Request::get(&path).body(http_body_util::Full::<bytes::Bytes>::default());
            seen.push(match server.service().respond(request.unwrap()).await {
                Ok(answer) => {
                    let code = answer.status().as_u16();
                    let mut lines = Lines::from(answer.into_body());
                    let mut text = format!("{code}");
                    let end = loop {
                        match lines.line().await {
                            Some(Ok(line)) => text.push_str(&format!(" {}", line.len())),
                            Some(Err(broken)) => break broken.to_string(),
                            None => break String::new(),
                        }
                    };
                    text.push_str(&end);
                    text
                }
                Err(broken) => broken.to_string(),
            });
        }
    }
    let plan = server.plan().unwrap();
    (seen, plan.incidents().iter().map(ToString::to_string).collect())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults_and_another_one_others() {
    let (first, again, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(first, again);
    assert!(first.1.len() > 50, "{:?}", first.1);
    assert_ne!(first.1, other.1);
}

#[tokio::test(start_paused = true)]
async fn the_journal_names_the_fault_of_each_request_and_the_plan_counts_them() {
    let plan = FaultPlan::new(3).rate(0.5).fault(1, RequestMatch::verb(Verb::List), Fault::gone()).fault(
        1,
        RequestMatch::verb(Verb::Get),
        Fault::Throttled { retry_after: 9 },
    );
    let server = Server::builder().plan(plan).build();
    for _ in 0..50 {
        get(&server, R).await;
        get(&server, &format!("{R}/x")).await;
        get(&server, "/version").await;
    }
    let plan = server.plan().unwrap();
    let counted = plan.counts();
    let journal = server.journal();
    for (kind, verb) in [(FaultKind::Status(410), Verb::List), (FaultKind::Status(429), Verb::Get)] {
        let met =
            |request: &kube_testserver::Request| request.fault == Some(kind) && request.info.verb == verb;
        assert_eq!(journal.count_where(met), counted[&kind]);
        assert!((10..40).contains(&counted[&kind]), "{counted:?}");
    }
    let numbers: Vec<_> = plan.incidents().iter().map(|incident| incident.request).collect();
    let journalled: Vec<_> = journal
        .requests()
        .iter()
        .filter(|request| request.fault.is_some())
        .map(|request| request.number)
        .collect();
    assert_eq!(numbers, journalled);
    plan.stop();
    let mark = journal.mark();
    for _ in 0..50 {
        get(&server, R).await;
    }
    assert_eq!(journal.count_since(mark, |request| request.fault.is_some()), 0);
}

#[tokio::test(start_paused = true)]
async fn stopping_heals_what_would_go_on() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let watches = RequestMatch::verb(Verb::Watch);
    let plan = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, watches, Fault::Silence).fault(
        1,
        RequestMatch::verb(Verb::List),
        Fault::Disrupt(Disruption::Lag(Lag::Revisions(0))),
    ));
    get(&server, R).await;
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    configmaps(&server, &["b"]);
    assert!(timeout(Duration::from_secs(60), watch.line()).await.is_err());
    plan.stop();
    let line = watch.line().await.unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
    assert!(watch.line().await.is_none());
    let hang = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Hang));
    let request = http::Request::get(R).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let mut hung = Box::pin(server.service().respond(request));
    assert!(timeout(Duration::from_secs(60), &mut hung).await.is_err());
    hang.stop();
    assert!(hung.await.is_err());
    assert_eq!(get(&server, R).await.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn numbers_are_drawn_up_to_those_that_were_given() {
    let server = server();
    let start = configmaps(&server, &["a", "b", "c", "d", "e", "f"]) - 6;
    server.run_plan(FaultPlan::new(5).rate(1.0).fault(
        1,
        RequestMatch::any(),
        Fault::Cut(CutAfter::Frames(4)),
    ));
    for _ in 0..40 {
        get_cut(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    }
    let frames: std::collections::BTreeSet<_> =
        server.journal().requests().iter().map(kube_testserver::Request::frames).collect();
    assert_eq!(frames.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(server.journal().requests().iter().all(|request| request.ended == Some(WatchEnd::Cut)));
}

async fn get_cut(server: &Server, path: &str) {
    let mut lines = Lines::open(server, path).await;
    while let Some(Ok(_)) = lines.line().await {}
}

#[tokio::test(start_paused = true)]
async fn a_lag_ends_with_its_plan_however_long_ago_it_was() {
    let plan = FaultPlan::new(1)
        .rate(1.0)
        .only(RequestMatch::verb(Verb::List))
        .fault(1, RequestMatch::any().resource("configmaps"), Fault::Disrupt(Disruption::Lag(Lag::Frozen)))
        .fault(
            1,
            RequestMatch::any().resource("pods"),
            Fault::Disrupt(Disruption::JumpClock(SignedDuration::ZERO)),
        );
    let server = Server::builder().plan(plan).build();
    get(&server, "/api/v1/configmaps").await;
    // More incidents than a plan remembers.
    for _ in 0..16_400 {
        get(&server, "/api/v1/pods?resourceVersion=0").await;
    }
    assert!(server.plan().unwrap().incidents().len() == 16_384);
    server.plan().unwrap().stop();
    let now = configmaps(&server, &["a"]);
    assert_eq!(server.primary_replica().resource_version(), now);
}

/// A request whose body does not come before `plan` has stopped.
async fn while_the_plan_stops(server: &Server, path: &str) -> Lines {
    let (plan, mut sent) = (server.plan().unwrap(), false);
    let slow = futures_util::stream::poll_fn(move |cx| {
        if std::mem::replace(&mut sent, true) {
            plan.stop();
            return std::task::Poll::Ready(None::<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>);
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    });
    let request = http::Request::get(path).body(http_body_util::StreamBody::new(slow)).unwrap();
    Lines::from(server.service().respond(request).await.unwrap().into_body())
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_opens_while_its_plan_stops_is_healed_too() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Silence));
    let mut watch = while_the_plan_stops(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    let line = timeout(Duration::from_secs(60), watch.line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn what_picks_requests_may_ask_the_plan_and_stop_it() {
    let server = Server::new();
    let asked = server.clone();
    let scope = RequestMatch::any().when(move |_| asked.plan().is_some_and(|plan| plan.counts().is_empty()));
    server.run_plan(FaultPlan::new(1).rate(1.0).only(scope).fault(1, RequestMatch::any(), Fault::gone()));
    assert_eq!([get(&server, R).await.code, get(&server, R).await.code], [410, 200]);
    let stopped = server.clone();
    let stops = RequestMatch::any().when(move |_| stopped.plan().map(|plan| plan.stop()).is_some());
    let plan = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, stops, Fault::gone()));
    assert_eq!(get(&server, R).await.code, 200);
    assert!(plan.counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plan_ends_with_the_next_one() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Silence));
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    server.run_plan(FaultPlan::new(1).rate(0.0));
    let line = timeout(Duration::from_secs(60), watch.line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn faults_of_watches_leave_other_requests_alone() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let watch = format!("{R}?watch=1&resourceVersion={}&timeoutSeconds=5", start - 1);
    server.faults().next(RequestMatch::any(), Fault::LoseEvent(0));
    assert_eq!(get(&server, R).await.names(), ["a"]);
    assert_eq!(server.faults().pending(), 1);
    assert_eq!(get(&server, &watch).await.text, "");
    let plan =
        server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::LoseEvent(0)));
    get(&server, R).await;
    assert!(plan.counts().is_empty());
    assert_eq!(get(&server, &watch).await.text, "");
}
