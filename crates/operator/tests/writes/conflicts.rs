//! Tests of `retry_on_conflict`.

use kube_client::api::PostParams;
use kube_operator::retry_on_conflict;
use tokio::time::Instant;

use super::*;

/// Reads the map from the server, lets another client change it `conflicts` times, and replaces it.
/// Returns the result and the number of attempts.
async fn replace_with_conflicts(world: &World, conflicts: usize) -> (Result<ConfigMap, Failure>, usize) {
    let mut attempts = 0;
    let replaced = retry_on_conflict(async || {
        let mut map = world.maps.api().get("a").await?;
        if attempts < conflicts {
            let patch = json!({"data": {"more": format!("{conflicts} {attempts}")}});
            world.server.patch_untyped("v1", "ConfigMap", Some("default"), "a", &patch).unwrap();
        }
        attempts += 1;
        map.data.get_or_insert_default().insert("says".to_owned(), "2".to_owned());
        world.maps.replace("a", &PostParams::default(), &map).await
    })
    .await;
    (replaced, attempts)
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_with_a_growing_delay_up_to_five_attempts() {
    let world = World::new().await;
    world.write_text("1").await.unwrap();
    for (conflicts, millis) in [(0, 0), (1, 10), (4, 150)] {
        let start = Instant::now();
        let (replaced, attempts) = replace_with_conflicts(&world, conflicts).await;
        assert_eq!(replaced.unwrap().data.unwrap()["says"], "2");
        assert_eq!((attempts, start.elapsed()), (conflicts + 1, Duration::from_millis(millis)));
    }
    let (replaced, attempts) = replace_with_conflicts(&world, 5).await;
    assert!(replaced.unwrap_err().to_string().contains("409"));
    assert_eq!(attempts, 5);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_conflicts_are_retried_also_as_a_source() {
    let world = World::new().await;
    let mut attempts = 0;
    let missing = retry_on_conflict(async || {
        attempts += 1;
        world.maps.api().get("none").await
    });
    assert!(missing.await.is_err());
    assert_eq!(attempts, 1);

    world.write_text("1").await.unwrap();
    let stale = world.maps.get("a").await.unwrap().unwrap();
    world
        .server
        .patch_untyped("v1", "ConfigMap", Some("default"), "a", &json!({"data": {"more": "x"}}))
        .unwrap();
    let mut attempts = 0;
    let failed = retry_on_conflict(async || {
        attempts += 1;
        let replaced = world.maps.replace("a", &PostParams::default(), &stale).await;
        Err::<(), _>(anyhow::Error::new(replaced.unwrap_err()).context("cannot replace the map"))
    });
    assert!(failed.await.is_err());
    assert_eq!(attempts, 5);
    world.end().await;
}
