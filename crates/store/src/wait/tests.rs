//! Tests on paused time that a wait returns after a write or at its timeout.

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::testing::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the result of a wait for a version during which these batches are applied.
async fn wait(
    store: &Store<Pod>,
    version: &str,
    batches: Vec<Vec<kube_object::Delta<Pod>>>,
) -> Result<(), WaitError> {
    let version = ResourceVersion::new(version);
    let waiting = store.wait_until(&version, MINUTE);
    let writing = async {
        for batch in batches {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.apply(batch);
        }
    };
    tokio::join!(waiting, writing).0
}

#[tokio::test(start_paused = true)]
async fn wait_returns_immediately_for_cached_version() {
    let store = listed("9", &[]);
    assert_eq!(store.wait_until(&"9".into(), Duration::ZERO).await, Ok(()));
    assert_eq!(store.wait_until(&"8".into(), Duration::ZERO).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn wait_returns_after_event_bookmark_or_list() {
    for last in [
        put("a/x", "u", "12"),
        remove("a/x", "u", "13"),
        undecodable("a/x", "u", "12"),
        kube_object::Delta::Bookmark("14".into()),
    ] {
        let store = listed("9", &[]);
        let before = put("a/y", "v", "11");
        assert_eq!(wait(&store, "12", vec![vec![before], vec![last]]).await, Ok(()));
    }
    let store = listed("9", &[]);
    assert_eq!(
        wait(&store, "12", vec![vec![begin(), page(&[("a/x", "u", "12")])], vec![end("12")]]).await,
        Ok(())
    );
}

#[tokio::test(start_paused = true)]
async fn unfinished_list_does_not_end_wait() {
    let store = listed("9", &[]);
    let waited = wait(&store, "12", vec![vec![begin(), page(&[("a/x", "u", "12")])]]).await;
    let (wanted, reached) = ("12".into(), Some("9".into()));
    assert_eq!(waited, Err(WaitError::Timeout { wanted, reached, timeout: MINUTE }));
}

#[tokio::test(start_paused = true)]
async fn wait_timeout_reports_watermark() {
    let error = Store::<Pod>::new().wait_until(&"12".into(), MINUTE).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cache did not reach resourceVersion 12 within 60s; the cache has no resourceVersion"
    );
    let error = listed("9", &[]).wait_until(&"12".into(), MINUTE).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cache did not reach resourceVersion 12 within 60s; the cache is at resourceVersion 9"
    );
}

/// Property 13: versions of different epochs cannot be compared, even if the new one is higher.
#[tokio::test(start_paused = true)]
async fn new_epoch_fails_wait() {
    for batches in [vec![vec![begin(), end("5")]], vec![vec![begin(), end("5"), put("a/x", "u", "20")]]] {
        let store = listed("9", &[]);
        let error = wait(&store, "12", batches).await.unwrap_err();
        assert!(matches!(error, WaitError::HistoryLost { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_opaque_version_fails() {
    let error = listed("9", &[]).wait_until(&"abc".into(), MINUTE).await.unwrap_err();
    assert_eq!(error, WaitError::Opaque { wanted: "abc".into() });
}

#[tokio::test(start_paused = true)]
async fn condition_is_checked_after_each_write() {
    let store = listed("9", &[]);
    let mut checks = 0;
    let waiting = store.wait_for(MINUTE, |snapshot| {
        checks += 1;
        snapshot.len() == 2
    });
    let writing = async {
        for name in ["a/x", "a/y"] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.apply(vec![put(name, name, "10")]);
        }
    };
    let (snapshot, ()) = tokio::join!(waiting, writing);
    assert_eq!((snapshot.len(), checks), (2, 3));
}

/// Without a check of the closed state, these waits would never return.
#[tokio::test(start_paused = true)]
async fn waits_return_when_store_closes() {
    let store = listed("9", &[]);
    let version = ResourceVersion::new("12");
    let closing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.close();
    };
    let (waited, ()) = tokio::join!(store.wait_until(&version, Duration::MAX), closing);
    let stopped = WaitError::Stopped { wanted: version.clone(), reached: Some("9".into()) };
    assert_eq!(waited, Err(stopped.clone()), "a wait in progress returns");
    let lister = store.lister();
    assert_eq!(lister.wait_until(&version, Duration::MAX).await, Err(stopped), "a later wait returns");
    assert_eq!(
        lister.wait_until(&"9".into(), Duration::MAX).await,
        Ok(()),
        "a cached version counts as reached"
    );
    assert_eq!(lister.wait_for(Duration::MAX, |_| false).await.len(), 0);
}
