//! Events before the run, at the stop, and after the stop.

use kube_operator::{DroppedEvents, EventRecorder, EventType};
use kube_testserver::{Fault, Server};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Recording, SECOND, client, count, creating, event, events, map, request_counts};

#[tokio::test(start_paused = true)]
async fn stop_writes_queued_events_and_counted_repeats() {
    let server = Server::new();
    let recording = Recording::new(&server);
    for _ in 0..5 {
        recording.report("a", "Tested");
        sleep(SECOND).await;
    }
    for name in ["b", "c"] {
        recording.report(name, "Tested");
    }
    let (recorder, begun) = (recording.recorder.clone(), Instant::now());
    let status = recording.stop().await;
    assert_eq!((status.sent, status.dropped, status.tracked_series), (7, DroppedEvents::default(), 0));
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    let counts: Vec<_> = events(&server).await.iter().filter_map(count).collect();
    assert_eq!(counts, [5]);
    recorder.event(&map("d"), EventType::Normal, "Tested", "Test", "");
    assert_eq!(recorder.status().dropped.stopped, 1);
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_delays_stop_by_ten_seconds() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let _hangs = server.faults().always(creating(), Fault::Hang);
    for name in ["a", "b"] {
        recording.report(name, "Tested");
    }
    sleep(SECOND).await;
    let begun = Instant::now();
    let status = recording.stop().await;
    assert_eq!((status.sent, status.waiting, status.dropped.stopped), (0, 0, 2));
    assert_eq!(begun.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn dropped_writer_counts_events_as_dropped() {
    let server = Server::new();
    let (recorder, writer) =
        EventRecorder::new(client(&server), "shop", "shop-0", CancellationToken::new()).unwrap();
    recorder.event(&map("a"), EventType::Normal, "Tested", "Test", "");
    assert_eq!(recorder.status().waiting, 1);
    drop(writer);
    recorder.event(&map("a"), EventType::Normal, "Tested", "Test", "");
    assert_eq!((recorder.status().waiting, recorder.status().dropped.stopped), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn events_reported_before_the_writer_is_polled_are_written() {
    let server = Server::new();
    let stop = CancellationToken::new();
    let (recorder, writer) = EventRecorder::new(client(&server), "shop", "shop-0", stop.clone()).unwrap();
    for _ in 0..3 {
        recorder.event(&map("a"), EventType::Normal, "Tested", "Test", "");
    }
    stop.cancel();
    writer.await;
    assert_eq!((count(&event(&server).await), request_counts(&server)), (Some(3), (1, 0)));
}
