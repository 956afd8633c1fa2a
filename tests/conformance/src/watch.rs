//! WATCH: what is told, from which version on, and how a stream ends.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::raw::Event;
use super::values::{uid, version};

checks! {
    "A WATCH from N tells everything after N, in order, first what has happened, then what happens.":
        a_watch_replays_what_came_after_its_version, a_watch_goes_on_with_what_happens,
        a_watch_from_the_version_of_a_list_tells_what_the_list_lacks, two_watches_tell_the_same;
    "A WATCH from N leaves out N itself and all before it.":
        a_watch_leaves_out_its_own_version;
    "ADDED and MODIFIED carry the new state, DELETED the last one with the version of the delete.":
        events_carry_the_object_with_its_kind, a_deletion_carries_the_last_state_at_its_own_version,
        an_object_created_again_is_another_object;
    "The versions of the events of one watch only go up.":
        versions_of_events_go_up;
    "A WATCH without a version, or at 0, begins with an ADDED for each object that is there.":
        a_watch_without_version_begins_with_what_is_there, a_watch_at_zero_begins_with_what_is_there,
        synthetic_additions_leave_out_what_is_gone, after_synthetic_additions_come_changes;
    "A WATCH ends by itself after timeoutSeconds, between two lines and without an error.":
        an_idle_watch_ends_after_its_time, a_busy_watch_ends_after_its_time;
    "A write that changes nothing tells nothing.":
        a_write_without_change_tells_nothing;
    "A WATCH of a namespace tells of this namespace only, one of all namespaces of all.":
        a_watch_of_a_namespace_stays_inside, a_watch_of_all_namespaces_tells_of_each;
    "A WATCH from a version of the future is accepted and says nothing.":
        a_watch_from_the_future_says_nothing;
    "Limit and continue mean nothing to a WATCH, and any true value of the parameter watch makes one.":
        a_watch_has_no_pages, other_values_of_watch_are_true;
}

async fn a_watch_replays_what_came_after_its_version(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.create("b").await?;
    place.set("a", "1").await?;
    place.delete("b").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "b").await?;
    ensure!(watch.expect("MODIFIED", "a").await?["data"]["k"] == "1");
    watch.expect("DELETED", "b").await?;
    Ok(())
}

async fn a_watch_goes_on_with_what_happens(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    let changed = place.set("a", "1").await?;
    ensure!(watch.expect("MODIFIED", "a").await? == changed);
    let created = place.create("b").await?;
    ensure!(watch.expect("ADDED", "b").await? == created);
    place.delete("a").await?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn a_watch_from_the_version_of_a_list_tells_what_the_list_lacks(place: Place) -> Result<()> {
    place.create("a").await?;
    let n = version(&place.list("").await?)?;
    place.create("b").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn two_watches_tell_the_same(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut early = place.watch(&format!("resourceVersion={n}")).await?;
    for k in ["1", "2", "3"] {
        place.set("a", k).await?;
    }
    let mut late = place.watch(&format!("resourceVersion={n}")).await?;
    for k in ["1", "2", "3"] {
        let told = early.expect("MODIFIED", "a").await?;
        ensure!(told["data"]["k"] == k && late.expect("MODIFIED", "a").await? == told);
    }
    Ok(())
}

async fn a_watch_leaves_out_its_own_version(place: Place) -> Result<()> {
    let [_, b, _] = place.create_all(["a", "b", "c"]).await?;
    let mut watch = place.watch(&format!("resourceVersion={}", version(&b)?)).await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn events_carry_the_object_with_its_kind(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let b = place.create("b").await?;
    let changed = place.set("b", "1").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    let told = watch.expect("ADDED", "b").await?;
    ensure!(told["kind"] == "ConfigMap" && told["apiVersion"] == "v1", "{told}");
    ensure!(told == b, "{told}");
    ensure!(watch.expect("MODIFIED", "b").await? == changed);
    Ok(())
}

async fn a_deletion_carries_the_last_state_at_its_own_version(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "last").await?;
    place.delete("a").await?;
    let mut watch = place.watch(&format!("resourceVersion={}", version(&last)?)).await?;
    let mut told = watch.expect("DELETED", "a").await?;
    ensure!(version(&told)? > version(&last)?, "{told}");
    told["metadata"]["resourceVersion"] = last["metadata"]["resourceVersion"].clone();
    ensure!(told == last, "{told} is not {last}");
    Ok(())
}

async fn an_object_created_again_is_another_object(place: Place) -> Result<()> {
    let first = place.create("a").await?;
    place.delete("a").await?;
    let second = place.create("a").await?;
    ensure!(uid(&first)? != uid(&second)?);
    let mut watch = place.watch(&format!("resourceVersion={}", version(&first)?)).await?;
    ensure!(uid(&watch.expect("DELETED", "a").await?)? == uid(&first)?);
    ensure!(uid(&watch.expect("ADDED", "a").await?)? == uid(&second)?);
    Ok(())
}

async fn versions_of_events_go_up(place: Place) -> Result<()> {
    let mut last = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={last}")).await?;
    for round in 0..10 {
        place.create("b").await?;
        place.set("a", &round.to_string()).await?;
        place.delete("b").await?;
        for (kind, name) in [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")] {
            let next = version(&watch.expect(kind, name).await?)?;
            ensure!(next > last, "{kind} of {name} at {next} after {last}");
            last = next;
        }
    }
    Ok(())
}

async fn begins_with_what_is_there(place: &Place, query: &str) -> Result<()> {
    let [a, b] = place.create_all(["a", "b"]).await?;
    place.seen(&b).await?;
    let mut watch = place.watch(query).await?;
    let mut told = [watch.event().await?, watch.event().await?];
    told.sort_by(|one, other| one.brief().cmp(&other.brief()));
    let [first, second] = told;
    ensure!(first.brief() == ("ADDED", "a") && first.object == a, "{first}");
    ensure!(second.brief() == ("ADDED", "b") && second.object == b, "{second}");
    Ok(())
}

async fn a_watch_without_version_begins_with_what_is_there(place: Place) -> Result<()> {
    begins_with_what_is_there(&place, "").await?;
    // An empty version is none.
    let mut watch = place.watch("resourceVersion=&fieldSelector=metadata.name%3Db").await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn a_watch_at_zero_begins_with_what_is_there(place: Place) -> Result<()> {
    begins_with_what_is_there(&place, "resourceVersion=0").await
}

async fn synthetic_additions_leave_out_what_is_gone(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    place.delete("a").await?;
    let last = place.set("b", "last").await?;
    place.seen(&last).await?;
    let mut watch = place.watch("").await?;
    ensure!(watch.expect("ADDED", "b").await? == last);
    place.create("c").await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn after_synthetic_additions_come_changes(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("").await?;
    watch.expect("ADDED", "a").await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    place.delete("a").await?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn an_idle_watch_ends_after_its_time(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.watch(&format!("resourceVersion={n}&timeoutSeconds=1")).await?.expect_end().await
}

async fn a_busy_watch_ends_after_its_time(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={n}&timeoutSeconds=2")).await?;
    place.set("a", "1").await?;
    let told = watch.rest().await?;
    ensure!(told.len() == 1 && told[0].brief() == ("MODIFIED", "a"), "{told:?}");
    Ok(())
}

async fn a_write_without_change_tells_nothing(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "1").await?;
    let mut watch = place.watch(&format!("resourceVersion={}", version(&last)?)).await?;
    place.set("a", "1").await?;
    place.admin().put(&place.one("a"), &last).await?.ok()?;
    place.patch("a", json!({"data": {"absent": null}})).await?;
    place.set("a", "2").await?;
    ensure!(watch.expect("MODIFIED", "a").await?["data"]["k"] == "2");
    Ok(())
}

async fn a_watch_of_a_namespace_stays_inside(place: Place) -> Result<()> {
    let beside = place.beside().await?;
    let n = version(&place.create("a").await?)?;
    beside.create("elsewhere").await?;
    place.create("b").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "b").await?;
    beside.set("elsewhere", "1").await?;
    place.set("b", "1").await?;
    watch.expect("MODIFIED", "b").await?;
    Ok(())
}

async fn a_watch_of_all_namespaces_tells_of_each(place: Place) -> Result<()> {
    let beside = place.beside().await?;
    let label = json!({"everywhere": place.namespace});
    let n = version(&place.create("a").await?)?;
    let path = format!(
        "/api/v1/configmaps?watch=true&resourceVersion={n}&labelSelector=everywhere%3D{}",
        place.namespace
    );
    let mut watch = place.admin().watch(&path).await?;
    place.create_labelled("here", label.clone()).await?;
    beside.create_labelled("there", label).await?;
    ensure!(watch.expect("ADDED", "here").await?["metadata"]["namespace"] == place.namespace);
    ensure!(watch.expect("ADDED", "there").await?["metadata"]["namespace"] == beside.namespace);
    Ok(())
}

async fn a_watch_from_the_future_says_nothing(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch =
        place.watch("resourceVersion=999999999999&timeoutSeconds=3&allowWatchBookmarks=true").await?;
    place.set("a", "1").await?;
    watch.expect_end().await
}

async fn a_watch_has_no_pages(place: Place) -> Result<()> {
    let [a, _, _] = place.create_all(["a", "b", "c"]).await?;
    let page = place.list("limit=1").await?;
    let token = page["metadata"]["continue"].as_str().unwrap_or("");
    let query = format!("resourceVersion={}&limit=1&continue={token}&timeoutSeconds=1", version(&a)?);
    let told = place.watch(&query).await?.rest().await?;
    let told: Vec<_> = told.iter().map(Event::brief).collect();
    ensure!(told == [("ADDED", "b"), ("ADDED", "c")], "{told:?}");
    Ok(())
}

async fn other_values_of_watch_are_true(place: Place) -> Result<()> {
    place.create("a").await?;
    for value in ["1", "True", "maybe", ""] {
        let mut watch = place.admin().watch(&format!("{}?watch={value}", place.all())).await?;
        watch.expect("ADDED", "a").await?;
    }
    for value in ["false", "0"] {
        let list = place.admin().get(&format!("{}?watch={value}", place.all())).await?.ok()?;
        ensure!(list["kind"] == "ConfigMapList", "{list}");
    }
    Ok(())
}
