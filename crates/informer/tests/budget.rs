//! Tests the request limits of an informer for each failure of the server.
//!
//! The limits are 14 list attempts in the first minute of a failure, 4 in any later minute, and 5
//! other requests per second over any 10 seconds. The pages of one list count once. A streaming
//! list counts as a list.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Informer, ListWatch, ReflectorOptions};
use kube_testserver::{
    ApiService, CutAfter, Disruption, Fault, FaultPlan, Lag, LoadBalancing, Outage, Replicas, Request,
    RequestMatch, Server, ServerBuilder, Status, StreamingLists, Verb,
};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// The number of objects at the start of a fault, and of objects that are written during the fault.
const OBJECTS: usize = 5;
const WRITTEN: usize = 100;

/// The seeds cause short first delays, so that seven attempts occur within a minute.
const SHORT: [u64; 2] = [17, 259];

/// The list modes of the informers of each case. Together, they use every kind of list.
const LIST_MODES: [ListMode; 4] = [
    ListMode { streaming: true, page_size: None, seed: 7, healthy_first: false },
    ListMode { streaming: true, page_size: None, seed: 7, healthy_first: true },
    ListMode { streaming: false, page_size: Some(2), seed: 7, healthy_first: false },
    ListMode { streaming: false, page_size: None, seed: 7, healthy_first: true },
];

#[derive(Debug, Clone, Copy)]
struct ListMode {
    streaming: bool,
    page_size: Option<u32>,
    seed: u64,
    /// Whether the fault starts while a watch is open.
    healthy_first: bool,
}

fn write(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn new_server() -> Server {
    new_server_with(Server::builder())
}

fn new_server_with(builder: ServerBuilder) -> Server {
    let server = builder.build();
    for n in 0..OBJECTS {
        write(&server, &format!("o{n}"));
    }
    server
}

fn lists() -> RequestMatch {
    let streaming = |request: &Request| request.parameter("sendInitialEvents").is_some();
    RequestMatch::any().when(move |request| request.info.verb == Verb::List || streaming(request))
}

fn watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).when(|request| request.parameter("sendInitialEvents").is_none())
}

/// Runs an informer during ten minutes of a fault, with a write every few seconds. Then checks the
/// requests against the budget. At the start, open watches break and expire once, so that new
/// requests meet the fault.
async fn check_fault<F>(
    case: &str,
    mode: ListMode,
    server: &Server,
    service: ApiService,
    start_fault: impl FnOnce() -> F,
) {
    let breaks = |n| match n {
        0 => server.fail_watches(&RequestMatch::any(), Status::expired()),
        1 => server.cut_watches(&RequestMatch::any()),
        _ => 0,
    };
    check_fault_with_action(case, mode, server, service, start_fault, breaks).await;
}

/// Like `check_fault`, with an action after each write.
async fn check_fault_with_action<F>(
    case: &str,
    mode: ListMode,
    server: &Server,
    service: ApiService,
    start_fault: impl FnOnce() -> F,
    during: impl Fn(usize) -> usize,
) {
    let api = Api::<ConfigMap>::all(Client::new(service, "default"));
    let options = ReflectorOptions {
        streaming_lists: mode.streaming,
        page_size: mode.page_size,
        seed: Some(mode.seed),
        ..ReflectorOptions::default()
    };
    let informer = Informer::from_source(ListWatch::<ConfigMap>::new(api)).reflector_options(options).build();
    let mut start_fault = Some(start_fault);
    let mut fault = None;
    if !mode.healthy_first {
        fault = start_fault.take().map(|start_fault| start_fault());
    }
    informer.start();
    if let Some(start_fault) = start_fault {
        informer.wait_for_sync(MINUTE).await.expect("the fault has not started");
        tokio::time::sleep(5 * MINUTE).await;
        fault = Some(start_fault());
    }
    let mark = server.journal().mark();
    let writing = async {
        for n in 0..WRITTEN {
            tokio::time::sleep(6 * SECOND).await;
            write(server, &format!("w{n}"));
            during(n);
        }
    };
    // During a busy loop of requests, the paused clock does not advance.
    let first = server.journal().requests().len() as u64;
    tokio::select! {
        () = writing => {}
        _ = server.journal().wait_for(mark, |request| request.number > first + 3000) => {}
    }
    check(&format!("{case}, {mode:?}"), &server.journal().since(mark));
    drop(fault);
    informer.stop().await;
}

fn check(case: &str, requests: &[Request]) {
    let is_streaming = |request: &Request| request.parameter("sendInitialEvents").is_some();
    let is_list = |request: &Request| request.info.verb == Verb::List || is_streaming(request);
    let is_page = |request: &Request| request.parameter("continue").is_some();
    let start = requests.first().map_or(Duration::ZERO, |request| request.at);
    let at = |wanted: &dyn Fn(&Request) -> bool| -> Vec<Duration> {
        requests.iter().filter(|request| wanted(request)).map(|request| request.at - start).collect()
    };
    let lists = at(&|request| is_list(request) && !is_page(request));
    let most = max_in_window(&lists, MINUTE);
    assert!(most <= 14, "{case}: {most} lists in a minute: {lists:?}");
    let later = lists.partition_point(|at| *at < MINUTE);
    let most = max_in_window(&lists[later..], MINUTE);
    assert!(most <= 4, "{case}: {most} lists in a later minute: {lists:?}");
    let pages = at(&is_page).len();
    let full = lists.len() * (OBJECTS + WRITTEN);
    assert!(pages <= full, "{case}: {pages} pages of {} lists", lists.len());
    let other_requests = at(&|request| !is_list(request));
    let most = max_in_window(&other_requests, 10 * SECOND);
    assert!(most <= 50, "{case}: {most} other requests in 10 s");
}

/// Returns the maximum number of requests within any window of this length.
fn max_in_window(moments: &[Duration], time: Duration) -> usize {
    let from = |(first, at): (usize, &Duration)| {
        moments[first..].iter().take_while(|later| **later - *at < time).count()
    };
    moments.iter().enumerate().map(from).max().unwrap_or_default()
}

/// Checks a fault of all matching requests, with every list mode.
async fn check_constant_fault(case: &str, matches: RequestMatch, fault: Fault) {
    for mode in LIST_MODES {
        let server = new_server();
        let start_fault = || server.faults().always(matches.clone(), fault.clone());
        check_fault(case, mode, &server, server.service(), start_fault).await;
        // Otherwise, the case would not test the fault.
        let fault_count = server.journal().count_where(|request| request.fault == Some(fault.kind()));
        assert!(fault_count > 0, "{case}, {mode:?}: no request met the fault");
    }
}

/// Checks a fault of all requests, a fault of lists only, and a fault of watches only.
async fn check_all_lists_and_watches(case: &str, fault: &Fault) {
    for (of, matches) in [("everything", RequestMatch::any()), ("lists", lists()), ("watches", watches())] {
        check_constant_fault(&format!("{case} of {of}"), matches, fault.clone()).await;
    }
}

fn too_large() -> Status {
    Status::new(504, "Timeout", "Too large resource version: 1000000, current: 7")
}

fn raw(body: &str) -> Fault {
    Fault::Raw { status: 200, content_type: "application/json".into(), body: body.to_owned().into() }
}

#[tokio::test(start_paused = true)]
async fn error_statuses_stay_within_budget() {
    let refusals = [
        ("401", Fault::status(401, "Unauthorized", None)),
        ("403", Fault::Forbidden { user: "nobody".into() }),
        ("404", Fault::status(404, "NotFound", None)),
        ("406", Fault::status(406, "NotAcceptable", None)),
        ("409", Fault::status(409, "Conflict", None)),
        ("410", Fault::gone()),
        ("422", Fault::status(422, "Invalid", None)),
        ("429", Fault::Throttled { retry_after: 1 }),
        ("429 at once", Fault::Throttled { retry_after: 0 }),
        ("429 of a storage that starts", Fault::initializing(1)),
        ("500", Fault::internal_error("etcdserver: request timed out")),
        ("503", Fault::unavailable()),
        ("504", Fault::status(504, "Timeout", Some(1))),
        ("504 too large", Fault::Status(too_large())),
        ("302", Fault::Raw { status: 302, content_type: "text/html".into(), body: "".into() }),
    ];
    for (case, fault) in refusals {
        check_all_lists_and_watches(case, &fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn broken_and_silent_responses_stay_within_budget() {
    let broken = [
        ("reset", Fault::Reset),
        ("a lost response", Fault::LoseResponse),
        ("no response", Fault::Hang),
        ("a delay", Fault::Delay(20 * SECOND)),
        ("a late response", Fault::LateResponse(20 * SECOND)),
        ("a response after the timeout", Fault::Delay(10 * MINUTE)),
        ("a response without a body", Fault::Cut(CutAfter::Bytes(0))),
        ("a break inside of a frame", Fault::Cut(CutAfter::Bytes(100))),
        ("a break after a frame", Fault::Cut(CutAfter::Frames(1))),
        ("bytes one by one", Fault::Chunks(1)),
        ("nonsense", raw("<html>")),
        ("nothing", raw("")),
        ("another kind", raw(r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1"}"#)),
    ];
    for (case, fault) in broken {
        check_all_lists_and_watches(case, &fault).await;
    }
}

/// Faults of a list and of all lists that could replace it.
#[tokio::test(start_paused = true)]
async fn rejected_lists_stay_within_budget() {
    let page = || RequestMatch::verb(Verb::List).with_parameter("continue");
    let full = || RequestMatch::verb(Verb::List).when(|request| request.parameter("limit").is_none());
    let later_or_full = || {
        let picks = |request: &Request| ["continue", "limit"].map(|name| request.parameter(name).is_some());
        RequestMatch::verb(Verb::List).when(move |request| picks(request) != [false, true])
    };
    let faults = [
        ("410", Fault::gone()),
        ("422", Fault::status(422, "Invalid", None)),
        ("500", Fault::internal_error("etcdserver: request timed out")),
        ("504 too large", Fault::Status(too_large())),
        ("a cut", Fault::Cut(CutAfter::Bytes(100))),
    ];
    for (case, fault) in faults {
        for (of, matches) in [("pages", page()), ("full lists", full()), ("both", later_or_full())] {
            for seed in SHORT {
                for (streaming, cached) in [(false, true), (false, false), (true, true), (true, false)] {
                    let server = new_server_with(Server::builder().watch_cache(cached));
                    server.set_streaming_lists(StreamingLists::Refused);
                    let mode = ListMode { streaming, seed, ..LIST_MODES[2] };
                    let start_fault = || server.faults().always(matches.clone(), fault.clone());
                    check_fault(&format!("{case} of {of}"), mode, &server, server.service(), start_fault)
                        .await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unusual_lists_stay_within_budget() {
    let list = |metadata: &str, item: &str| {
        raw(&format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{{metadata}}},"items":[{item}]}}"#
        ))
    };
    let unusual = [
        ("repeated page", list(r#""resourceVersion":"7","continue":"x""#, "")),
        ("an item without a name", list(r#""resourceVersion":"7""#, "{}")),
        ("no version", list("", "")),
        ("version 0", list(r#""resourceVersion":"0""#, "")),
        ("an opaque version", list(r#""resourceVersion":"x""#, "")),
        ("a version of the future", list(r#""resourceVersion":"1000000""#, "")),
    ];
    for (case, fault) in unusual {
        check_constant_fault(case, lists(), fault).await;
    }
}

/// Faults of open watches, repeated.
type Break = fn(&Server) -> usize;

#[tokio::test(start_paused = true)]
async fn breaking_watches_stay_within_budget() {
    let breaks: [(&str, Break); 6] = [
        ("expired", |server| server.fail_watches(&RequestMatch::any(), Status::expired())),
        ("broken", |server| server.cut_watches(&RequestMatch::any())),
        ("closed", |server| server.close_watches()),
        ("a repeated event", |server| server.repeat_next_event(&RequestMatch::any())),
        ("a lost event", |server| server.lose_next_event(&RequestMatch::any())),
        ("nonsense", |server| server.inject_frame(&RequestMatch::any(), "{]\n")),
    ];
    for (case, done) in breaks {
        for mode in LIST_MODES {
            let server = new_server();
            check_fault_with_action(case, mode, &server, server.service(), || (), |_| done(&server)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closed_faulty_and_silent_watches_stay_within_budget() {
    let faults = [
        ("silence", Fault::Silence),
        ("a clean end", Fault::CloseWatch(0)),
        ("a clean end after an event", Fault::CloseWatch(1)),
        ("expired", Fault::ErrorEvent { after: 0, status: Status::expired() }),
        ("expired after an event", Fault::ErrorEvent { after: 1, status: Status::expired() }),
        ("an error", Fault::ErrorEvent { after: 0, status: Status::new(500, "InternalError", "decode") }),
        (
            "an error after an event",
            Fault::ErrorEvent { after: 1, status: Status::new(500, "InternalError", "no") },
        ),
        ("too large", Fault::ErrorEvent { after: 0, status: too_large() }),
        ("lost", Fault::LoseEvent(0)),
        ("repeated", Fault::RepeatEvent(0)),
        ("a slow reader", Fault::SlowReader(0)),
        ("an event without an object", raw(r#"{"type":"ADDED"}"#)),
    ];
    for (case, fault) in faults {
        check_constant_fault(
            &format!("{case} in everything"),
            RequestMatch::verb(Verb::Watch),
            fault.clone(),
        )
        .await;
        check_constant_fault(&format!("{case} in watches"), watches(), fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn server_restarts_and_restores_stay_within_budget() {
    let disruptions = [
        Disruption::Compact,
        Disruption::ExpireLists,
        Disruption::ExpireWatches,
        Disruption::FailWatches,
        Disruption::Restart,
        Disruption::Restore { back: 3 },
        Disruption::RestoreBumped { back: 3, bump: 1_000_000 },
        Disruption::Lag(Lag::Frozen),
        Disruption::Lag(Lag::Time(30 * SECOND)),
        Disruption::JumpClock(SignedDuration::from_hours(-1)),
    ];
    for disruption in disruptions {
        for (name, matches) in [("request", RequestMatch::any()), ("list", lists()), ("watch", watches())] {
            check_constant_fault(
                &format!("{disruption:?} at each {name}"),
                matches,
                Fault::Disrupt(disruption),
            )
            .await;
        }
    }
}

/// A fault of all requests of the server. The value ends the fault when it is dropped.
type Begin = fn(&Server) -> Box<dyn Send>;

#[tokio::test(start_paused = true)]
async fn unreachable_server_and_no_streaming_lists_stay_within_budget() {
    let faults: [(&str, Begin); 6] = [
        ("refused", |server| Box::new(server.outage(Outage::Refused))),
        ("frozen", |server| Box::new(server.outage(Outage::Frozen))),
        ("streaming lists rejected", |server| {
            server.set_streaming_lists(StreamingLists::Refused);
            Box::new(server.close_watches())
        }),
        ("streaming lists rejected by an event", |server| {
            server.set_streaming_lists(StreamingLists::ErrorEvent);
            Box::new(server.close_watches())
        }),
        ("streaming lists ignored", |server| {
            server.set_streaming_lists(StreamingLists::Ignored);
            Box::new(server.close_watches())
        }),
        ("an object that etcd cannot read", |server| {
            Box::new(server.corrupt("v1", "ConfigMap", Some("default"), "o1").unwrap())
        }),
    ];
    for (case, start_fault) in faults {
        for mode in LIST_MODES {
            let server = new_server();
            check_fault(case, mode, &server, server.service(), || start_fault(&server)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_of_different_age_stay_within_budget() {
    for turn in [LoadBalancing::RoundRobin, LoadBalancing::Random(7)] {
        for lag in [Lag::Frozen, Lag::Revisions(20), Lag::Time(MINUTE)] {
            for mode in LIST_MODES {
                let server = new_server();
                let stale = server.replica(lag);
                let replicas = Replicas::new(&server.primary_replica(), [stale], turn);
                check_fault(&format!("{turn:?}, {lag:?}"), mode, &server, replicas.service(), || ()).await;
            }
        }
    }
}

/// A mixture of all faults that affects half of the requests.
#[tokio::test(start_paused = true)]
async fn mixed_faults_stay_within_request_budget() {
    for seed in 0..10 {
        for mode in LIST_MODES {
            let server = new_server();
            let plan = FaultPlan::common_faults(seed).rate(0.5);
            let start_fault = || server.run_plan(plan.clone());
            check_fault(&format!("plan {seed}"), mode, &server, server.service(), start_fault).await;
        }
    }
}
