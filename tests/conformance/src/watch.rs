//! WATCH: the events, the start version, and the close.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::raw::Event;
use super::values::{uid, version};

checks! {
    "A WATCH from N gets all events after N in order: first past events, then new events.":
        watch_replays_events_after_its_version, watch_continues_with_new_events,
        watch_from_version_of_list_gets_later_events, two_watches_get_the_same_events;
    "A WATCH from N excludes N and all earlier events.":
        watch_leaves_out_its_own_version;
    "ADDED and MODIFIED contain the new state, DELETED the last state with the version of the delete.":
        events_carry_the_object_with_its_kind, deletion_carries_the_last_state_at_its_own_version,
        object_created_again_is_another_object;
    "The versions of the events of one watch only go up.":
        versions_of_events_go_up;
    "A WATCH without a version, or at 0, starts with an ADDED for each existing object.":
        watch_without_version_starts_with_existing_objects, watch_at_zero_starts_with_existing_objects,
        synthetic_additions_exclude_deleted_objects, changes_follow_synthetic_additions;
    "A WATCH closes after timeoutSeconds, between two lines and without an error.":
        idle_watch_closes_after_timeout, busy_watch_closes_after_timeout;
    "A write without changes causes no event.":
        write_without_change_causes_no_event;
    "A WATCH of a namespace gets events of this namespace only, a WATCH of all namespaces gets all events.":
        watch_of_a_namespace_stays_inside, watch_of_all_namespaces_gets_events_of_each;
    "A WATCH from a future version is accepted and gets no events.":
        watch_from_future_version_gets_no_events;
    "Limit and continue have no effect on a WATCH, and any true value of the parameter watch requests one.":
        watch_has_no_pages, other_values_of_watch_are_true;
}

async fn watch_replays_events_after_its_version(place: Place) -> Result<()> {
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

async fn watch_continues_with_new_events(place: Place) -> Result<()> {
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

async fn watch_from_version_of_list_gets_later_events(place: Place) -> Result<()> {
    place.create("a").await?;
    let n = version(&place.list("").await?)?;
    place.create("b").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn two_watches_get_the_same_events(place: Place) -> Result<()> {
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

async fn watch_leaves_out_its_own_version(place: Place) -> Result<()> {
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

async fn deletion_carries_the_last_state_at_its_own_version(place: Place) -> Result<()> {
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

async fn object_created_again_is_another_object(place: Place) -> Result<()> {
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

async fn starts_with_existing_objects(place: &Place, query: &str) -> Result<()> {
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

async fn watch_without_version_starts_with_existing_objects(place: Place) -> Result<()> {
    starts_with_existing_objects(&place, "").await?;
    // An empty version is the same as no version.
    let mut watch = place.watch("resourceVersion=&fieldSelector=metadata.name%3Db").await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn watch_at_zero_starts_with_existing_objects(place: Place) -> Result<()> {
    starts_with_existing_objects(&place, "resourceVersion=0").await
}

async fn synthetic_additions_exclude_deleted_objects(place: Place) -> Result<()> {
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

async fn changes_follow_synthetic_additions(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("").await?;
    watch.expect("ADDED", "a").await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    place.delete("a").await?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn idle_watch_closes_after_timeout(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.watch(&format!("resourceVersion={n}&timeoutSeconds=1")).await?.expect_end().await
}

async fn busy_watch_closes_after_timeout(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={n}&timeoutSeconds=2")).await?;
    place.set("a", "1").await?;
    let told = watch.rest().await?;
    ensure!(told.len() == 1 && told[0].brief() == ("MODIFIED", "a"), "{told:?}");
    Ok(())
}

async fn write_without_change_causes_no_event(place: Place) -> Result<()> {
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

async fn watch_of_a_namespace_stays_inside(place: Place) -> Result<()> {
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

async fn watch_of_all_namespaces_gets_events_of_each(place: Place) -> Result<()> {
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

async fn watch_from_future_version_gets_no_events(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch =
        place.watch("resourceVersion=999999999999&timeoutSeconds=3&allowWatchBookmarks=true").await?;
    place.set("a", "1").await?;
    watch.expect_end().await
}

async fn watch_has_no_pages(place: Place) -> Result<()> {
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
