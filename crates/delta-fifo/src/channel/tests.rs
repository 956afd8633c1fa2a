//! Tests waits, wake-ups and cancellation with manual polls. A stress test uses two threads.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::FutureExt;

use super::*;
use crate::testing::{bookmark, page, put, text};

/// Counts the wake-ups of a task.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (Arc::clone(&wakes), Waker::from(wakes))
}

fn versions(range: std::ops::RangeInclusive<u64>) -> VecDeque<Delta<()>> {
    range.map(|version| put(&format!("object-{version}"), version)).collect()
}

/// Receives a batch. Panics if no batch is queued.
fn take(receiver: &mut Receiver<()>) -> Vec<String> {
    text(receiver.recv().now_or_never().expect("no batch is queued").expect("the channel is closed"))
}

#[test]
fn sender_waits_while_queue_is_full() {
    let (mut sender, mut receiver) = channel(2);
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let mut deltas = versions(1..=3);
    {
        let mut send = pin!(sender.send(&mut deltas));
        assert!(send.as_mut().poll(&mut cx).is_pending());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        assert_eq!(take(&mut receiver), text(versions(1..=2)));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(send.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    }
    assert!(deltas.is_empty());
    assert_eq!(take(&mut receiver), text(versions(3..=3)));
}

#[test]
fn delta_wakes_idle_receiver() {
    let (mut sender, mut receiver) = channel(2);
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let mut recv = pin!(receiver.recv());
    assert!(recv.as_mut().poll(&mut cx).is_pending());
    sender.send(&mut versions(1..=1)).now_or_never().unwrap().unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Some(batch)) = recv.as_mut().poll(&mut cx) else { panic!("no batch") };
    assert_eq!(text(batch), text(versions(1..=1)));
}

/// Tests the order of operations in the docs of `channel`: the receiver removes a batch between the
/// check and the wait of the sender. In this test, the wake-up even precedes the first poll.
#[test]
fn wake_up_before_wait_is_stored() {
    let (sender, mut receiver) = channel(1);
    let mut deltas = versions(1..=2);
    sender.fill(&mut deltas).unwrap();
    assert_eq!(deltas.len(), 1, "the queue is full");
    take(&mut receiver);
    assert!(sender.shared.room.notified().now_or_never().is_some(), "the wait returns immediately");
}

#[test]
fn cancelled_send_keeps_unqueued_deltas() {
    let (mut sender, mut receiver) = channel(2);
    let mut deltas = versions(1..=5);
    assert!(sender.send(&mut deltas).now_or_never().is_none());
    assert_eq!(text(deltas.iter().cloned()), text(versions(3..=5)));
    assert_eq!(take(&mut receiver), text(versions(1..=2)));
    assert!(sender.send(&mut deltas).now_or_never().is_none());
    assert_eq!(take(&mut receiver), text(versions(3..=4)));
    sender.send(&mut deltas).now_or_never().unwrap().unwrap();
    assert_eq!(take(&mut receiver), text(versions(5..=5)));
}

#[test]
fn receiver_cancelled_after_wake_up_loses_no_batch() {
    let (mut sender, mut receiver) = channel(2);
    let (wakes, waker) = waker();
    {
        let mut recv = pin!(receiver.recv());
        assert!(recv.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sender.send(&mut versions(1..=1)).now_or_never().unwrap().unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }
    assert_eq!(take(&mut receiver), text(versions(1..=1)));
}

#[test]
fn sender_cancelled_after_wake_up_can_send_again() {
    let (mut sender, mut receiver) = channel(1);
    let mut deltas = versions(1..=2);
    {
        let mut send = pin!(sender.send(&mut deltas));
        assert!(send.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        take(&mut receiver);
    }
    sender.send(&mut deltas).now_or_never().expect("there is room").unwrap();
}

#[test]
fn receiver_drains_queue_after_sender_is_dropped() {
    let (mut sender, mut receiver) = channel(8);
    let mut deltas = VecDeque::from([put("a", 1), put("a", 2)]);
    sender.send(&mut deltas).now_or_never().unwrap().unwrap();
    drop(sender);
    assert_eq!(take(&mut receiver), text([put("a", 1)]));
    assert_eq!(take(&mut receiver), text([put("a", 2)]));
    for _ in 0..2 {
        assert!(receiver.recv().now_or_never().unwrap().is_none());
    }
}

#[test]
fn waiting_receiver_returns_when_sender_is_dropped() {
    let (sender, mut receiver) = channel::<()>(8);
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let mut recv = pin!(receiver.recv());
    assert!(recv.as_mut().poll(&mut cx).is_pending());
    drop(sender);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(recv.as_mut().poll(&mut cx), Poll::Ready(None)));
}

#[test]
fn waiting_send_fails_when_receiver_is_dropped() {
    let (mut sender, receiver) = channel(1);
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let mut deltas = versions(1..=2);
    {
        let mut send = pin!(sender.send(&mut deltas));
        assert!(send.as_mut().poll(&mut cx).is_pending());
        drop(receiver);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(send.as_mut().poll(&mut cx), Poll::Ready(Err(SendError)));
    }
    assert_eq!(text(deltas), text(versions(2..=2)));
    assert!(sender.closed().now_or_never().is_some());
}

#[test]
fn closed_resolves_when_receiver_is_dropped() {
    let (mut sender, mut receiver) = channel(1);
    sender.send(&mut versions(1..=1)).now_or_never().unwrap().unwrap();
    take(&mut receiver);
    assert!(sender.closed().now_or_never().is_none(), "an empty queue is not closed");
    drop(receiver);
    assert!(sender.closed().now_or_never().is_some());
}

#[test]
fn dropped_receiver_frees_queued_objects() {
    let (mut sender, receiver) = channel(8);
    let object = crate::testing::entry("a", 1);
    sender.send(&mut VecDeque::from([Delta::Put(object.clone())])).now_or_never().unwrap().unwrap();
    assert_eq!(Arc::strong_count(&object.object), 2);
    drop(receiver);
    assert_eq!(Arc::strong_count(&object.object), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_store_slows_reflector() {
    let (mut sender, mut receiver) = channel(1);
    let store = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(batch) = receiver.recv().await {
            seen.extend(text(batch));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        seen
    });
    let start = tokio::time::Instant::now();
    sender.send(&mut versions(1..=10)).await.unwrap();
    // The tenth delta is queued when the ninth delta is received, after eight pauses.
    assert_eq!(start.elapsed().as_secs(), 8);
    drop(sender);
    assert_eq!(store.await.unwrap(), text(versions(1..=10)));
}

/// The queue holds one delta, so a lost wake-up on either side would block both threads.
/// Property 14: the order does not depend on the threads.
#[test]
fn channel_between_threads_keeps_order_and_never_stalls() {
    const COUNT: u64 = 20_000;
    let block_on = |future: std::pin::Pin<Box<dyn Future<Output = u64> + Send>>| {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    };
    let (mut sender, mut receiver) = channel::<()>(1);
    let sending = std::thread::spawn(move || {
        block_on(Box::pin(async move {
            for version in 1..=COUNT {
                let mut deltas = VecDeque::from([bookmark(version), page(version % 3)]);
                sender.send(&mut deltas).await.unwrap();
            }
            COUNT
        }))
    });
    let received = block_on(Box::pin(async move {
        let mut last = 0;
        while let Some(batch) = receiver.recv().await {
            for delta in batch {
                if let Delta::Bookmark(version) = delta {
                    last += 1;
                    assert_eq!(version, last.into());
                }
            }
        }
        last
    }));
    assert_eq!((received, sending.join().unwrap()), (COUNT, COUNT));
}
