//! WATCH with selectors: the events of an object that starts or stops matching.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::Watch;
use super::values::version;

checks! {
    "A WATCH with a selector gets only events of matching objects.":
        change_outside_selection_is_not_sent, change_inside_selection_is_sent;
    "An object that starts to match arrives as ADDED with its new state.":
        starting_to_match_is_an_addition;
    "An object that stops matching arrives as DELETED with its previous state and the version of the change.":
        no_longer_matching_is_a_deletion, deletion_outside_selection_is_not_sent;
    "A replayed WATCH with a selector gets the same events as a live one.":
        edges_are_replayed;
    "Field selectors cause the same events as label selectors.":
        phase_has_edges, binding_has_edges, watch_of_one_name_gets_one_object;
    "A selecting WATCH without a version begins with the selected objects.":
        selecting_watch_begins_with_the_selected;
}

const SELECTED: &str = "labelSelector=app%3Dx";

/// A watch of `app=x` from the creation of `a`, which has that label.
async fn watch_selected(place: &Place) -> Result<Watch> {
    let a = place.create_labelled("a", json!({"app": "x"})).await?;
    place.watch(&format!("{SELECTED}&resourceVersion={}", version(&a)?)).await
}

async fn change_outside_selection_is_not_sent(place: Place) -> Result<()> {
    let mut watch = watch_selected(&place).await?;
    place.create_labelled("b", json!({"app": "y"})).await?;
    place.set("b", "1").await?;
    place.create("c").await?;
    place.label("b", json!({"app": "z"})).await?;
    place.create_labelled("d", json!({"app": "x"})).await?;
    watch.expect("ADDED", "d").await?;
    Ok(())
}

async fn change_inside_selection_is_sent(place: Place) -> Result<()> {
    let mut watch = watch_selected(&place).await?;
    let changed = place.set("a", "1").await?;
    ensure!(watch.expect("MODIFIED", "a").await? == changed);
    let last = place.label("a", json!({"more": "1"})).await?;
    ensure!(watch.expect("MODIFIED", "a").await? == last);
    place.delete("a").await?;
    let told = watch.expect("DELETED", "a").await?;
    ensure!(
        told["metadata"]["labels"] == last["metadata"]["labels"] && version(&told)? > version(&last)?,
        "{told}"
    );
    Ok(())
}

async fn starting_to_match_is_an_addition(place: Place) -> Result<()> {
    let mut watch = watch_selected(&place).await?;
    place.create("b").await?;
    let labelled = place.label("b", json!({"app": "x"})).await?;
    ensure!(watch.expect("ADDED", "b").await? == labelled);
    Ok(())
}

/// `told` is `previous` with the version of `change`.
fn is_previous_state(told: &Value, previous: &Value, change: &Value) -> Result<()> {
    ensure!(version(told)? == version(change)?, "not at the version of the change: {told}");
    let mut expected = previous.clone();
    expected["metadata"]["resourceVersion"] = change["metadata"]["resourceVersion"].clone();
    ensure!(*told == expected, "{told} is not {expected}");
    Ok(())
}

async fn no_longer_matching_is_a_deletion(place: Place) -> Result<()> {
    let mut watch = watch_selected(&place).await?;
    let previous = place.set("a", "before").await?;
    watch.expect("MODIFIED", "a").await?;
    let change =
        place.patch("a", json!({"metadata": {"labels": {"app": "y"}}, "data": {"k": "after"}})).await?;
    is_previous_state(&watch.expect("DELETED", "a").await?, &previous, &change)
}

async fn deletion_outside_selection_is_not_sent(place: Place) -> Result<()> {
    let mut watch = watch_selected(&place).await?;
    place.label("a", json!({"app": null})).await?;
    watch.expect("DELETED", "a").await?;
    place.set("a", "1").await?;
    place.delete("a").await?;
    place.create_labelled("b", json!({"app": "x"})).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn edges_are_replayed(place: Place) -> Result<()> {
    let first = place.create_labelled("a", json!({"app": "x"})).await?;
    let out = place.label("a", json!({"app": "y"})).await?;
    place.set("a", "outside").await?;
    let back = place.label("a", json!({"app": "x"})).await?;
    place.delete("a").await?;
    let mut watch = place.watch(&format!("{SELECTED}&resourceVersion={}", version(&first)?)).await?;
    is_previous_state(&watch.expect("DELETED", "a").await?, &first, &out)?;
    ensure!(watch.expect("ADDED", "a").await? == back);
    ensure!(watch.expect("DELETED", "a").await?["data"]["k"] == "outside");
    Ok(())
}

async fn watch_pods(place: &Place, query: &str) -> Result<Watch> {
    place.admin().watch(&format!("{}?watch=true&{query}", place.core("pods"))).await
}

async fn phase_has_edges(place: Place) -> Result<()> {
    let created = place.create_pod("p", Some("n1")).await?;
    let query = format!("fieldSelector=status.phase%3DRunning&resourceVersion={}", version(&created)?);
    let mut watch = watch_pods(&place, &query).await?;
    let running = place.set_phase("p", "Running").await?;
    ensure!(watch.expect("ADDED", "p").await? == running);
    let succeeded = place.set_phase("p", "Succeeded").await?;
    is_previous_state(&watch.expect("DELETED", "p").await?, &running, &succeeded)
}

async fn binding_has_edges(place: Place) -> Result<()> {
    let created = place.create_pod("p", None).await?;
    let n = version(&created)?;
    let mut unbound =
        watch_pods(&place, &format!("fieldSelector=spec.nodeName%3D&resourceVersion={n}")).await?;
    let mut bound =
        watch_pods(&place, &format!("fieldSelector=spec.nodeName%3Dn1&resourceVersion={n}")).await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    let path = place.core("pods/p/binding");
    let done = place.admin().post(&path, &binding).await?.expect(201)?;
    ensure!(done["kind"] == "Status" && done["status"] == "Success", "{done}");
    place.admin().post(&path, &binding).await?.refused(409, "Conflict")?;

    let told = bound.expect("ADDED", "p").await?;
    ensure!(told == place.admin().get(&place.core("pods/p")).await?.ok()?, "{told}");
    is_previous_state(&unbound.expect("DELETED", "p").await?, &created, &told)
}

async fn watch_of_one_name_gets_one_object(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("fieldSelector=metadata.name%3Db&resourceVersion={n}")).await?;
    place.set("a", "1").await?;
    place.create("b").await?;
    place.delete("a").await?;
    place.delete("b").await?;
    watch.expect("ADDED", "b").await?;
    watch.expect("DELETED", "b").await?;
    Ok(())
}

async fn selecting_watch_begins_with_the_selected(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"app": "y"})).await?;
    place.create_labelled("b", json!({"app": "x"})).await?;
    let mut watch = place.watch(SELECTED).await?;
    watch.expect("ADDED", "b").await?;
    place.label("a", json!({"app": "x"})).await?;
    watch.expect("ADDED", "a").await?;
    Ok(())
}
