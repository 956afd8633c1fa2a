//! Label and field selectors: the matching objects of a LIST, and invalid selectors.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::values::names;

checks! {
    "A label selector matches by equality, by sets, by existence and by integer comparison. All its parts must match.":
        labels_are_equal_or_not, labels_are_in_sets_or_not, labels_exist_or_not, labels_are_above_or_below_bounds,
        parts_of_a_label_selector_all_hold;
    "Objects of each kind are selected by metadata.name, and by metadata.namespace where the kind has namespaces.":
        objects_are_selected_by_name, objects_are_selected_by_namespace, every_kind_is_selected_by_name,
        kind_without_namespaces_is_not_selected_by_one;
    "Pods can also be selected by spec.nodeName and status.phase.":
        pods_are_selected_by_node, pods_are_selected_by_phase;
    "Label and field selectors both hold.":
        both_selectors_hold;
    "A shard selector is applied and contained in the list, or it is ignored.":
        shards_are_obeyed_or_ignored;
    "A malformed selector, or one with an unknown field, is rejected with 400 in a LIST and in a WATCH.":
        malformed_label_selectors_are_rejected, malformed_field_selectors_are_rejected, unknown_fields_are_rejected;
}

/// Each selector with the names that it chooses.
async fn select(place: &Place, kind: &str, cases: &[(&str, &[&str])]) -> Result<()> {
    for (selector, expected) in cases {
        let list = place.admin().get(&format!("{}?{selector}", place.core(kind))).await?.ok()?;
        ensure!(names(&list) == *expected, "{selector} chose {:?}, not {expected:?}", names(&list));
    }
    Ok(())
}

/// `a` and `b` with two labels, `c` with one, `d` with none.
async fn labelled(place: &Place) -> Result<()> {
    place.create_labelled("a", json!({"app": "x", "tier": "front"})).await?;
    place.create_labelled("b", json!({"app": "y", "tier": "front"})).await?;
    place.create_labelled("c", json!({"app": "z", "example.com/tier": ""})).await?;
    place.create("d").await?;
    Ok(())
}

async fn labels_are_equal_or_not(place: Place) -> Result<()> {
    labelled(&place).await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=app%3Dx", &["a"]),
            ("labelSelector=app%3D%3Dx", &["a"]),
            ("labelSelector=app!%3Dx", &["b", "c", "d"]),
            ("labelSelector=app%3Dnone", &[]),
            ("labelSelector=example.com/tier%3D", &["c"]),
            ("labelSelector=", &["a", "b", "c", "d"]),
        ],
    )
    .await
}

async fn labels_are_in_sets_or_not(place: Place) -> Result<()> {
    labelled(&place).await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=app%20in%20(x,z)", &["a", "c"]),
            ("labelSelector=app%20in%20(%20x%20,%20none%20)", &["a"]),
            ("labelSelector=app%20notin%20(x,y)", &["c", "d"]),
            ("labelSelector=app%20notin%20()", &["a", "b", "c", "d"]),
            ("labelSelector=example.com/tier%20notin%20()", &["a", "b", "d"]),
            ("labelSelector=example.com/tier%20in%20()", &["c"]),
        ],
    )
    .await
}

async fn labels_exist_or_not(place: Place) -> Result<()> {
    labelled(&place).await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=tier", &["a", "b"]),
            ("labelSelector=!tier", &["c", "d"]),
            ("labelSelector=example.com/tier", &["c"]),
        ],
    )
    .await
}

async fn labels_are_above_or_below_bounds(place: Place) -> Result<()> {
    place.create_labelled("five", json!({"n": "5"})).await?;
    place.create_labelled("six", json!({"n": "006"})).await?;
    place.create_labelled("text", json!({"n": "x"})).await?;
    place.create_labelled("too-large", json!({"n": "9223372036854775808"})).await?;
    place.create("without").await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=n%3E4", &["five", "six"]),
            ("labelSelector=n%20%3E%20005", &["six"]),
            ("labelSelector=n%3C6", &["five"]),
            ("labelSelector=n%3C5", &[]),
            ("labelSelector=n%3E4,n%3C6", &["five"]),
            ("labelSelector=n%3C9223372036854775807", &["five", "six"]),
        ],
    )
    .await
}

async fn parts_of_a_label_selector_all_hold(place: Place) -> Result<()> {
    labelled(&place).await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=tier%3Dfront,app!%3Dx", &["b"]),
            ("labelSelector=tier,%20app%20in%20(x,y,z),%20!none", &["a", "b"]),
            ("labelSelector=app,!tier", &["c"]),
            ("labelSelector=app%3Dx,app%3Dy", &[]),
        ],
    )
    .await
}

async fn objects_are_selected_by_name(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    select(
        &place,
        "configmaps",
        &[
            ("fieldSelector=metadata.name%3Da", &["a"]),
            ("fieldSelector=metadata.name%3D%3Da", &["a"]),
            ("fieldSelector=metadata.name!%3Da", &["b"]),
            ("fieldSelector=metadata.name%3Dnone", &[]),
            ("fieldSelector=metadata.name!%3Da,metadata.name!%3Db", &[]),
            ("fieldSelector=", &["a", "b"]),
        ],
    )
    .await
}

async fn objects_are_selected_by_namespace(place: Place) -> Result<()> {
    let beside = place.beside().await?;
    place.create("a").await?;
    beside.create("b").await?;
    let path = format!("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{}", beside.namespace);
    let list = place.admin().get(&path).await?.ok()?;
    ensure!(names(&list) == ["b"], "{list}");
    let here = format!("fieldSelector=metadata.namespace%3D{}", place.namespace);
    let elsewhere = format!("fieldSelector=metadata.namespace%3D{}", beside.namespace);
    select(&place, "configmaps", &[(&here, &["a"]), (&elsewhere, &[])]).await
}

async fn every_kind_is_selected_by_name(place: Place) -> Result<()> {
    let name = &place.namespace;
    for path in ["/apis/apps/v1/deployments", "/api/v1/services", "/api/v1/events", "/api/v1/secrets"] {
        let query = format!("{path}?fieldSelector=metadata.name%3D{name},metadata.namespace!%3D{name}");
        ensure!(names(&place.admin().get(&query).await?.ok()?).is_empty());
    }
    let query = format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{name}");
    ensure!(names(&place.admin().get(&query).await?.ok()?) == [name]);
    Ok(())
}

async fn kind_without_namespaces_is_not_selected_by_one(place: Place) -> Result<()> {
    for path in ["/api/v1/nodes", "/api/v1/namespaces"] {
        place
            .admin()
            .get(&format!("{path}?fieldSelector=metadata.namespace%3Dx"))
            .await?
            .refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn pods_are_selected_by_node(place: Place) -> Result<()> {
    place.create_pod("a", Some("n1")).await?;
    place.create_pod("b", Some("n2")).await?;
    place.create_pod("c", None).await?;
    select(
        &place,
        "pods",
        &[
            ("fieldSelector=spec.nodeName%3Dn1", &["a"]),
            ("fieldSelector=spec.nodeName!%3Dn1", &["b", "c"]),
            ("fieldSelector=spec.nodeName%3D", &["c"]),
            ("fieldSelector=spec.nodeName!%3D", &["a", "b"]),
        ],
    )
    .await
}

async fn pods_are_selected_by_phase(place: Place) -> Result<()> {
    place.create_pod("a", None).await?;
    place.create_pod("b", Some("n1")).await?;
    place.set_phase("b", "Running").await?;
    select(
        &place,
        "pods",
        &[
            ("fieldSelector=status.phase%3DPending", &["a"]),
            ("fieldSelector=status.phase%3DRunning", &["b"]),
            ("fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed", &["a", "b"]),
            ("fieldSelector=status.phase%3DRunning,spec.nodeName%3Dn2", &[]),
        ],
    )
    .await
}

async fn both_selectors_hold(place: Place) -> Result<()> {
    labelled(&place).await?;
    select(
        &place,
        "configmaps",
        &[
            ("labelSelector=tier%3Dfront&fieldSelector=metadata.name!%3Da", &["b"]),
            ("labelSelector=tier%3Dfront&fieldSelector=metadata.name%3Dc", &[]),
        ],
    )
    .await
}

async fn shards_are_obeyed_or_ignored(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c", "d", "e", "f"]).await?;
    let (mut seen, mut obeyed) = (Vec::new(), 0);
    for half in ["'0x0000000000000000','0x8000000000000000'", "'0x8000000000000000','0x10000000000000000'"] {
        let list = place.list(&format!("shardSelector=shardRange(object.metadata.uid,{half})")).await?;
        obeyed += usize::from(list["metadata"]["shardInfo"]["selector"].is_string());
        seen.extend(names(&list).into_iter().map(str::to_owned));
    }
    seen.sort();
    let copies = if obeyed == 2 { 1 } else { 2 };
    let expected: Vec<&str> =
        ["a", "b", "c", "d", "e", "f"].into_iter().flat_map(|name| vec![name; copies]).collect();
    ensure!(obeyed != 1 && seen == expected, "{obeyed} halves were obeyed, together they show {seen:?}");
    Ok(())
}

async fn all_refused(place: &Place, kind: &str, selectors: &[&str]) -> Result<()> {
    for selector in selectors {
        for watch in ["", "watch=true&"] {
            let path = format!("{}?{watch}{selector}", place.core(kind));
            place.admin().get(&path).await?.refused(400, "BadRequest")?;
        }
    }
    Ok(())
}

async fn malformed_label_selectors_are_rejected(place: Place) -> Result<()> {
    let selectors = [
        "labelSelector=a%20in",
        "labelSelector=%3D%3D",
        "labelSelector=a%3Db%3Dc",
        "labelSelector=Bad%20key%3D1",
        "labelSelector=a/b/c%3D1",
        "labelSelector=a%3Dnot%20a%20value",
        "labelSelector=a,,b",
        "labelSelector=a%3E",
        "labelSelector=a%3Eb",
        "labelSelector=a%3E-1",
        "labelSelector=a%3E%2B1",
        "labelSelector=a%3E1.5",
        "labelSelector=a%3E%3D1",
        "labelSelector=a%3E9223372036854775808",
        "labelSelector=!a%3E1",
        "labelSelector=a%20gt%201",
        "labelSelector=a%C2%A0%3Db",
    ];
    all_refused(&place, "configmaps", &selectors).await
}

async fn malformed_field_selectors_are_rejected(place: Place) -> Result<()> {
    let selectors = ["fieldSelector=bad", "fieldSelector=metadata.name", "fieldSelector=metadata.name%3E1"];
    all_refused(&place, "configmaps", &selectors).await
}

async fn unknown_fields_are_rejected(place: Place) -> Result<()> {
    all_refused(&place, "configmaps", &["fieldSelector=data.k%3Dv", "fieldSelector=metadata.uid%3Dx"])
        .await?;
    all_refused(&place, "pods", &["fieldSelector=spec.unknown%3Dx", "fieldSelector=metadata.labels%3Dx"])
        .await
}
