//! What happens when the server, or the client, does not write.

use kube_operator::{Election, ElectionOptions, EventType, LeaseTimes};
use kube_testserver::{Fault, Match, Server, Verb};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{MINUTE, Recording, SECOND, asked, client, count, creating, event, map};

#[tokio::test(start_paused = true)]
async fn failures_that_pass_cost_nothing_but_time() {
    let unavailable = Fault::status(503, "ServiceUnavailable", None);
    for fault in [unavailable, Fault::internal_error("x"), Fault::Reset, Fault::Hang, Fault::LoseAnswer] {
        let server = Server::new();
        let recording = Recording::new(&server);
        server.faults().times(3, &creating(), &fault);
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.sent, 1, "{fault:?}");
        event(&server).await;
        assert_eq!((asked(&server), recording.stop().await.failed), ((4, 0), 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_that_was_made_without_an_answer_does_not_hide_what_came_later() {
    let server = Server::new();
    let recording = Recording::new(&server);
    server.faults().next(creating(), Fault::LoseAnswer);
    recording.report("a", "Tested");
    sleep(SECOND / 10).await;
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 2);
    assert_eq!((count(&event(&server).await), asked(&server)), (Some(2), (2, 1)));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_name_is_another_s_counts_as_failed() {
    let server = Server::new();
    let recording = Recording::new(&server);
    server.faults().next(creating(), Fault::status(409, "AlreadyExists", None));
    recording.report("a", "Tested");
    let status = recording.written().await;
    assert_eq!((status.sent, status.failed, asked(&server)), (0, 1, (1, 0)));
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 1, "the next one has another name");
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_be_left_alone_is() {
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
async fn a_server_that_always_fails_is_asked_twelve_times_and_less_and_less_often() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let _fails = server.faults().always(creating(), Fault::status(500, "InternalError", None));
    recording.report("a", "Tested");
    let status = recording.written().await;
    assert_eq!((status.failed, status.sent, asked(&server)), (1, 0, (12, 0)));
    let at: Vec<_> = server.journal().requests().iter().map(|request| request.at).collect();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| (SECOND..=25 * SECOND).contains(pause)), "{pauses:?}");
    assert!(pauses[10] >= 20 * SECOND, "{pauses:?}");
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_tried_again() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (404, "NotFound")] {
        let server = Server::new();
        let recording = Recording::new(&server);
        let refuses = server.faults().always(creating(), Fault::status(code, reason, None));
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.failed, 1);
        sleep(60 * MINUTE).await;
        assert_eq!(asked(&server), (1, 0));
        drop(refuses);
        recording.report("a", "Tested");
        assert_eq!(recording.written().await.sent, 1);
        recording.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_can_not_be_written_holds_up_no_other() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let bad = Match::verb(Verb::Create).resource("events").namespace("bad");
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
async fn with_a_guarded_client_only_a_leader_writes() {
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
    assert_eq!(asked(&server), (0, 0));
    let stop = CancellationToken::new();
    let task = tokio::spawn(election.run(stop.clone()));
    leadership.acquired().await;
    recording.report("a", "Tested");
    assert_eq!(recording.written().await.sent, 1);
    recording.stop().await;
    stop.cancel();
    task.await.unwrap();
}
