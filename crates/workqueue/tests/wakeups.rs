//! Each event wakes only one getter. `src/interleavings.rs` tests that wake-ups are not lost.

use std::task::Poll;
use std::time::Duration;

use kube_workqueue::WorkQueue;

mod support;
use support::Getter;

const SECOND: Duration = Duration::from_secs(1);

/// Creates `N` getters and polls each of them once, in this order.
fn waiting_getters<const N: usize>(queue: &WorkQueue<u8>) -> [Getter; N] {
    std::array::from_fn(|_| {
        let mut getter = Getter::new(queue);
        assert!(getter.poll().is_pending());
        getter
    })
}

fn wakes<const N: usize>(getters: &[Getter; N]) -> [usize; N] {
    std::array::from_fn(|index| getters[index].wakes())
}

#[track_caller]
fn assert_gets(getter: &mut Getter, key: u8) {
    match getter.poll() {
        Poll::Ready(Some(item)) => assert_eq!(*item, key),
        other => panic!("{other:?} instead of {key}"),
    }
}

#[tokio::test]
async fn add_wakes_one_getter() {
    let queue = WorkQueue::new();
    let mut getters = waiting_getters::<3>(&queue);
    queue.add(1);
    assert_eq!(wakes(&getters), [1, 0, 0]);
    assert_gets(&mut getters[0], 1);
    assert_eq!(wakes(&getters), [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn deadline_wakes_one_getter() {
    let queue = WorkQueue::new();
    queue.add_after(1, SECOND);
    let mut getters = waiting_getters::<4>(&queue);
    let before: usize = wakes(&getters).iter().sum();
    tokio::time::advance(SECOND).await;
    let woken: Vec<usize> = (0..4).filter(|index| getters[*index].is_woken()).collect();
    assert_eq!((woken.len(), wakes(&getters).iter().sum::<usize>()), (1, before + 1));
    assert_gets(&mut getters[woken[0]], 1);
    assert_eq!(wakes(&getters).iter().sum::<usize>(), before + 1, "no deadline remains");
}

#[tokio::test(start_paused = true)]
async fn earlier_deadline_wakes_only_timekeeper() {
    let queue = WorkQueue::new();
    queue.add_after(1, 60 * SECOND);
    let mut getters = waiting_getters::<3>(&queue);
    let before = wakes(&getters);
    queue.add_after(2, SECOND);
    queue.add_after(3, 30 * SECOND);
    assert_eq!(wakes(&getters), [before[0] + 1, before[1], before[2]]);
    assert!(getters[0].poll().is_pending());
    tokio::time::advance(SECOND).await;
    assert_gets(&mut getters[0], 2);
}
