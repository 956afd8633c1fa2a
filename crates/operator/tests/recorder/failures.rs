//! What happens when the server, or the client, does not write.

use kube_operator::{Election, ElectionOptions, EventType, LeaseTimes};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{MINUTE, Recording, SECOND, client, count, creating, event, map, request_counts};

#[tokio::test(start_paused = true)]
async fn transient_failures_lose_no_event() {
    let unavailable = Fault::status(503, "ServiceUnavailable", None);
    for fault in [unavailable, Fault::internal_error("x"), Fault::Reset, Fault::Hang, Fault::LoseResponse] {
        let server = Server::new();
        let recording = Recording::new(&server);
        server.faults().times(3, &creating(), &fault);
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.sent, 1, "{fault:?}");
        event(&server).await;
        assert_eq!((request_counts(&server), recording.stop().await.failed), ((4, 0), 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeat_after_lost_response_is_counted_in_series() {
    let server = Server::new();
    let recording = Recording::new(&server);
    server.faults().next(creating(), Fault::LoseResponse);
    recording.report("a", "Tested");
    sleep(SECOND / 10).await;
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 2);
    assert_eq!((count(&event(&server).await), request_counts(&server)), (Some(2), (2, 1)));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn event_name_conflict_counts_as_failed() {
    let server = Server::new();
    let recording = Recording::new(&server);
    server.faults().next(creating(), Fault::status(409, "AlreadyExists", None));
    recording.report("a", "Tested");
    let status = recording.written().await;
    assert_eq!((status.sent, status.failed, request_counts(&server)), (0, 1, (1, 0)));
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 1, "the next event has another name");
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_delays_the_next_write() {
    for fault in [Fault::status(429, "TooManyRequests", Some(30)), Fault::Throttled { retry_after: 30 }] {
        let server = Server::new();
        let recording = Recording::new(&server);
        server.faults().next(creating(), fault);
        for name in ["a", "b"] {
            recording.report(name, "Tested");
        }
        recording.written().await;
        let at: Vec<_> = server.journal().requests().iter().map(|request| request.at).collect();
        assert!(at.len() == 3 && at[1] - at[0] >= 30 * SECOND, "{at:?}");
        recording.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_write_is_sent_twelve_times_with_backoff() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let _fails = server.faults().always(creating(), Fault::status(500, "InternalError", None));
    recording.report("a", "Tested");
    let status = recording.written().await;
    assert_eq!((status.failed, status.sent, request_counts(&server)), (1, 0, (12, 0)));
    let at: Vec<_> = server.journal().requests().iter().map(|request| request.at).collect();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| (SECOND..=25 * SECOND).contains(pause)), "{pauses:?}");
    assert!(pauses[10] >= 20 * SECOND, "{pauses:?}");
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_not_retried() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (404, "NotFound")] {
        let server = Server::new();
        let recording = Recording::new(&server);
        let refuses = server.faults().always(creating(), Fault::status(code, reason, None));
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.failed, 1);
        sleep(60 * MINUTE).await;
        assert_eq!(request_counts(&server), (1, 0));
        drop(refuses);
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.sent, 1);
        recording.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_event_does_not_block_other_events() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let bad = RequestMatch::verb(Verb::Create).resource("events").namespace("bad");
    let _fails = server.faults().always(bad, Fault::internal_error("a webhook fails"));
    let mut elsewhere = map("a");
    elsewhere.metadata.namespace = Some("bad".to_owned());
    recording.recorder.event(&elsewhere, EventType::Normal, "Tested", "Test", "");
    recording.report("b", "Tested");
    sleep(3 * SECOND).await;
    let status = recording.recorder.status();
    assert_eq!((status.sent, status.waiting), (1, 1));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn guarded_client_writes_events_only_while_leader() {
    let server = Server::new();
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: "me".to_owned(),
        times: LeaseTimes::default(),
    };
    let election = Election::new(client(&server), options).unwrap();
    let leadership = election.leadership();
    let recording = Recording::through(leadership.guard(client(&server)));
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.failed, 1);
    assert_eq!(request_counts(&server), (0, 0));
    let stop = CancellationToken::new();
    let task = tokio::spawn(election.run(stop.clone()));
    leadership.acquired().await;
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 1);
    recording.stop().await;
    stop.cancel();
    task.await.unwrap();
}
