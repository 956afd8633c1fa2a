//! Fault plans.

use std::time::Duration;

use jiff::SignedDuration;
use kube_testserver::{
    CutAfter, Disruption, Fault, FaultKind, FaultPlan, Lag, RequestMatch, Server, Verb, WatchEnd,
};
use tokio::time::timeout;

use crate::client::{CONFIGMAPS, Lines, configmaps, get, server};

/// Sends many requests of all kinds. Returns the observations of the client and the incidents of the
/// plan.
async fn run(seed: u64) -> (Vec<String>, Vec<String>) {
    let server = Server::builder().plan(FaultPlan::common_faults(seed).rate(0.4)).build();
    let mut seen = Vec::new();
    for round in 0..60 {
        let write = format!("{CONFIGMAPS}?round={round}");
        let version = configmaps(&server, &[&format!("c{round}")]);
        for path in [
            format!("{CONFIGMAPS}?limit=3"),
            format!("{CONFIGMAPS}?resourceVersion=0"),
            format!("{CONFIGMAPS}?watch=1&resourceVersion={}&timeoutSeconds=5", version - 1),
            write,
        ] {
            let request = http::Request::get(&path).body(http_body_util::Full::<bytes::Bytes>::default());
            seen.push(match server.service().respond(request.unwrap()).await {
                Ok(response) => {
                    let code = response.status().as_u16();
                    let mut lines = Lines::from(response.into_body());
                    let mut text = format!("{code}");
                    let end = loop {
                        match lines.line().await {
                            Some(Ok(line)) => text.push_str(&format!(" {}", line.len())),
                            Some(Err(error)) => break error.to_string(),
                            None => break String::new(),
                        }
                    };
                    text.push_str(&end);
                    text
                }
                Err(error) => error.to_string(),
            });
        }
    }
    let plan = server.plan().unwrap();
    (seen, plan.incidents().iter().map(ToString::to_string).collect())
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_produce_equal_faults() {
    let (first, again, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(first, again);
    assert!(first.1.len() > 50, "{:?}", first.1);
    assert_ne!(first.1, other.1);
}

#[tokio::test(start_paused = true)]
async fn journal_and_plan_record_the_same_faults() {
    let plan = FaultPlan::new(3).rate(0.5).fault(1, RequestMatch::verb(Verb::List), Fault::gone()).fault(
        1,
        RequestMatch::verb(Verb::Get),
        Fault::Throttled { retry_after: 9 },
    );
    let server = Server::builder().plan(plan).build();
    for _ in 0..50 {
        get(&server, CONFIGMAPS).await;
        get(&server, &format!("{CONFIGMAPS}/x")).await;
        get(&server, "/version").await;
    }
    let plan = server.plan().unwrap();
    let counted = plan.counts();
    let journal = server.journal();
    for (kind, verb) in [(FaultKind::Status(410), Verb::List), (FaultKind::Status(429), Verb::Get)] {
        let matches =
            |request: &kube_testserver::Request| request.fault == Some(kind) && request.info.verb == verb;
        assert_eq!(journal.count_where(matches), counted[&kind]);
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
        get(&server, CONFIGMAPS).await;
    }
    assert_eq!(journal.count_since(mark, |request| request.fault.is_some()), 0);
}

#[tokio::test(start_paused = true)]
async fn stopping_a_plan_stops_its_lasting_effects() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let watches = RequestMatch::verb(Verb::Watch);
    let plan = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, watches, Fault::Silence).fault(
        1,
        RequestMatch::verb(Verb::List),
        Fault::Disrupt(Disruption::Lag(Lag::Revisions(0))),
    ));
    get(&server, CONFIGMAPS).await;
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    configmaps(&server, &["b"]);
    assert!(timeout(Duration::from_secs(60), watch.line()).await.is_err());
    plan.stop();
    let line = watch.line().await.unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
    assert!(watch.line().await.is_none());
    let hang = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Hang));
    let request =
        http::Request::get(CONFIGMAPS).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let mut hung = Box::pin(server.service().respond(request));
    assert!(timeout(Duration::from_secs(60), &mut hung).await.is_err());
    hang.stop();
    assert!(hung.await.is_err());
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn fault_parameters_are_drawn_up_to_their_bounds() {
    let server = server();
    let start = configmaps(&server, &["a", "b", "c", "d", "e", "f"]) - 6;
    server.run_plan(FaultPlan::new(5).rate(1.0).fault(
        1,
        RequestMatch::any(),
        Fault::Cut(CutAfter::Frames(4)),
    ));
    for _ in 0..40 {
        get_cut(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
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
async fn stopping_a_plan_removes_its_lag() {
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
    // More incidents than the plan keeps.
    for _ in 0..16_400 {
        get(&server, "/api/v1/pods?resourceVersion=0").await;
    }
    assert!(server.plan().unwrap().incidents().len() == 16_384);
    server.plan().unwrap().stop();
    let now = configmaps(&server, &["a"]);
    assert_eq!(server.primary_replica().resource_version(), now);
}

/// Sends a request whose body completes after the plan has stopped.
async fn stop_plan_during_request(server: &Server, path: &str) -> Lines {
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
async fn watch_that_opens_during_stop_expires() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Silence));
    let mut watch =
        stop_plan_during_request(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let line = timeout(Duration::from_secs(60), watch.line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn predicates_may_read_and_stop_the_plan() {
    let server = Server::new();
    let read = server.clone();
    let scope = RequestMatch::any().when(move |_| read.plan().is_some_and(|plan| plan.counts().is_empty()));
    server.run_plan(FaultPlan::new(1).rate(1.0).only(scope).fault(1, RequestMatch::any(), Fault::gone()));
    assert_eq!([get(&server, CONFIGMAPS).await.code, get(&server, CONFIGMAPS).await.code], [410, 200]);
    let stopped = server.clone();
    let stops = RequestMatch::any().when(move |_| stopped.plan().map(|plan| plan.stop()).is_some());
    let plan = server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, stops, Fault::gone()));
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
    assert!(plan.counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_plan_stops_the_previous_plan() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::Silence));
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    server.run_plan(FaultPlan::new(1).rate(0.0));
    let line = timeout(Duration::from_secs(60), watch.line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("\"code\":410"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn watch_faults_apply_only_to_watches() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let watch = format!("{CONFIGMAPS}?watch=1&resourceVersion={}&timeoutSeconds=5", start - 1);
    server.faults().next(RequestMatch::any(), Fault::LoseEvent(0));
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a"]);
    assert_eq!(server.faults().pending(), 1);
    assert_eq!(get(&server, &watch).await.text, "");
    let plan =
        server.run_plan(FaultPlan::new(1).rate(1.0).fault(1, RequestMatch::any(), Fault::LoseEvent(0)));
    get(&server, CONFIGMAPS).await;
    assert!(plan.counts().is_empty());
    assert_eq!(get(&server, &watch).await.text, "");
}
