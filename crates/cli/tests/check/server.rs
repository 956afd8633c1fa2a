//! The version, discovery, lists and watches of a server.

use kube_testserver::{CutAfter, Fault, Lag, RequestMatch, Status, StreamingLists, Verb};
use std::time::Duration;

use super::*;

const MAPS: [&str; 3] = ["-n", "shop", "configmaps"];

fn lists() -> RequestMatch {
    RequestMatch::verb(Verb::List).resource("configmaps")
}

fn watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).resource("configmaps")
}

fn raw(status: u16, body: &str) -> Fault {
    Fault::Raw { status, content_type: "application/json".to_owned(), body: body.to_owned().into() }
}

fn path(path: &'static str) -> RequestMatch {
    RequestMatch::verb(Verb::Other).when(move |request| request.path == path)
}

#[tokio::test]
async fn healthy_server_is_green() -> Result<()> {
    let world = World::start().await?;
    let report = world.check(&MAPS).await?;
    report.expect("server", "green", "Kubernetes v1.");
    report.expect("API groups", "green", "resources");
    report.expect("verbs", "green", "1 resource can be listed and watched");
    report.expect("lists", "green", "1 of 1 resource");
    report.expect("cache lag", "green", "the watch cache of configmaps");
    report.expect("pages", "green", "continues after the first object of 3");
    report.expect("gzip", "green", "not needed");
    report.expect("streaming lists", "green", "3 configmaps");
    report.expect("bookmarks", "green", "a bookmark after");
    Ok(())
}

#[tokio::test]
async fn unsupported_version_is_amber() -> Result<()> {
    let world = World::start().await?;
    let version = json!({
        "major": "1", "minor": "29", "gitVersion": "v1.29.4", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    });
    let _fault = world.server.faults().always(path("/version"), raw(200, &version.to_string()));
    world.check(&MAPS).await?.expect("server", "amber", "v1.29.4");
    Ok(())
}

#[tokio::test]
async fn missing_namespace_is_amber() -> Result<()> {
    let world = World::start().await?;
    let report = world.check(&["-n", "shopp", "configmaps"]).await?;
    report.expect("namespace", "amber", "the namespace shopp does not exist");
    let existing = world.check(&MAPS).await?;
    assert!(!existing.run.out.contains("\"namespace\""), "{:?}", existing.run);
    Ok(())
}

#[tokio::test]
async fn group_that_does_not_respond_is_amber() -> Result<()> {
    let world = World::start().await?;
    let _fault = world.server.faults().always(path("/apis/batch/v1"), raw(503, "{}"));
    world.check(&MAPS).await?.expect(
        "API groups",
        "amber",
        "no response from 1 API group, the first is batch/v1",
    );
    Ok(())
}

#[tokio::test]
async fn resource_without_watch_is_red() -> Result<()> {
    let world = World::start().await?;
    let report = world.check(&["selfsubjectaccessreviews"]).await?;
    report.expect("verbs", "red", "the server cannot watch selfsubjectaccessreviews");
    Ok(())
}

#[tokio::test]
async fn unsupported_field_selector_is_red() -> Result<()> {
    let world = World::start().await?;
    let report = world.check(&["-A", "pods", "--field-selector", "spec.colour=blue"]).await?;
    report.expect("lists", "red", "field label not supported: spec.colour");
    let report = world.check(&["-A", "pods", "--field-selector", "spec.nodeName=a"]).await?;
    report.expect("lists", "green", "1 of 1");
    Ok(())
}

#[tokio::test]
async fn failed_lists_have_causes() -> Result<()> {
    let world = World::start().await?;
    let faults = world.server.faults();
    for (fault, verdict, text) in [
        (raw(200, "<html>proxy</html>"), "red", "the response is not a list"),
        (raw(500, "oops"), "red", "500 Internal Server Error: oops"),
        (Fault::Throttled { retry_after: 1 }, "amber", "429"),
        (Fault::Reset, "red", "cannot list configmaps"),
    ] {
        let _fault = faults.always(lists(), fault);
        world.check(&MAPS).await?.expect("lists", verdict, text);
    }
    Ok(())
}

#[tokio::test]
async fn server_without_streaming_lists_is_amber() -> Result<()> {
    for (mode, text) in [
        (StreamingLists::Refused, "422"),
        (StreamingLists::ErrorEvent, "the server does not stream lists"),
        (StreamingLists::Ignored, "no end of the list"),
    ] {
        let world = World::with(Server::builder().streaming_lists(mode)).await?;
        world.check(&MAPS).await?.expect("streaming lists", "amber", text);
    }
    Ok(())
}

#[tokio::test]
async fn watch_without_bookmarks_is_amber() -> Result<()> {
    let world = World::start().await?;
    let _fault = world.server.faults().always(watches(), Fault::Silence);
    let report = world.check(&MAPS).await?;
    report.expect("bookmarks", "amber", "received no bookmark within 1.5 s");
    report.expect("streaming lists", "amber", "no end of the list in 1.5 s");
    Ok(())
}

#[tokio::test]
async fn closed_and_failed_watches_have_causes() -> Result<()> {
    let world = World::start().await?;
    let faults = world.server.faults();
    let closed = faults.always(watches(), Fault::CloseWatch(0));
    let report = world.check(&MAPS).await?;
    report.expect("streaming lists", "amber", "closed a watch after 0 configmaps");
    report.expect("bookmarks", "amber", "the server closed a watch of configmaps");
    drop(closed);
    let forbidden = faults.always(watches(), Fault::Forbidden { user: "ann".to_owned() });
    world.check(&MAPS).await?.expect("bookmarks", "amber", "not measured: 403");
    drop(forbidden);
    let _html = faults.always(watches(), raw(200, "<html>\n"));
    world.check(&MAPS).await?.expect("bookmarks", "red", "no valid event");
    Ok(())
}

#[tokio::test]
async fn slow_watch_cache_is_amber() -> Result<()> {
    let world = World::start().await?;
    let not_older = lists().parameter("resourceVersionMatch", "NotOlderThan");
    // Each measurement sends two of these lists, and only the first list waits for the cache.
    for number in [1, 3, 5] {
        let delay = Fault::Delay(Duration::from_millis(1200));
        world.server.faults().nth(number, not_older.clone(), delay);
    }
    world.check(&MAPS).await?.expect("cache lag", "amber", "behind");
    Ok(())
}

#[tokio::test]
async fn frozen_watch_cache_is_amber() -> Result<()> {
    let world = World::start().await?;
    world.server.set_lag(Lag::Frozen);
    world.apply(&config_map("later", "x"))?;
    let (verdict, detail) = {
        let report = world.check(&MAPS).await?;
        let (verdict, detail) = report.finding("cache lag");
        (verdict.to_owned(), detail.to_owned())
    };
    assert_eq!(verdict, "amber", "{detail}");
    Ok(())
}

#[tokio::test]
async fn large_lists_are_compressed_or_amber() -> Result<()> {
    let world = World::start().await?;
    world.apply(&config_map("large", &"abc".repeat(100_000)))?;
    world.check(&MAPS).await?.expect("gzip", "green", "the server compresses lists of configmaps");
    let page = json!({"metadata": {"resourceVersion": "1"}, "items": [], "padding": "x".repeat(200_000)});
    let _fault = world.server.faults().always(lists().parameter("limit", "500"), raw(200, &page.to_string()));
    world.check(&MAPS).await?.expect("gzip", "amber", "does not compress");
    Ok(())
}

#[tokio::test]
async fn problems_of_pages_have_causes() -> Result<()> {
    let world = World::start().await?;
    let faults = world.server.faults();
    let next = || lists().with_parameter("continue");
    let expired = faults.always(next(), Fault::Status(Status::expired()));
    world.check(&MAPS).await?.expect("pages", "amber", "410");
    drop(expired);
    let broken = faults.always(next(), Fault::Cut(CutAfter::Bytes(10)));
    world.check(&MAPS).await?.expect("pages", "red", "the second page of configmaps failed");
    drop(broken);
    world.check(&["-n", "shop", "secrets"]).await?.expect("pages", "amber", "no resource has two objects");
    let page = json!({"metadata": {"resourceVersion": "1"}, "items": [{}, {}]});
    let _fault = faults.always(lists().parameter("limit", "1"), raw(200, &page.to_string()));
    world.check(&MAPS).await?.expect("pages", "amber", "2 configmaps for limit=1");
    Ok(())
}

#[tokio::test]
async fn unreachable_server_and_wrong_token_are_one_line() -> Result<()> {
    let world = World::start().await?;
    let config = std::fs::read_to_string(world.kubeconfig.path())?;
    let mut other = NamedTempFile::new()?;
    other.write_all(config.replace("\"admin\"", "\"stranger\"").as_bytes())?;
    let failed = run(Some(other.path()), &["check"]).await?;
    assert!(failed.error_line(1).contains("failed to read the version"), "{failed:?}");
    drop(world);
    let mut other = NamedTempFile::new()?;
    other.write_all(config.as_bytes())?;
    let failed = run(Some(other.path()), &["check"]).await?;
    assert!(failed.error_line(1).contains("failed to read the version"), "{failed:?}");
    let failed = run(None, &["check", "--service-account", "operator"]).await?;
    assert!(failed.error_line(2).contains("use NAMESPACE/NAME"), "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn empty_resource_is_not_green() -> Result<()> {
    let world = World::start().await?;
    for empty in ["", ","] {
        let failed = run(Some(world.kubeconfig.path()), &["check", empty]).await?;
        assert!(failed.error_line(2).contains("no resource is selected"), "{failed:?}");
    }
    Ok(())
}

#[tokio::test]
async fn demo_contains_missing_permissions() -> Result<()> {
    let arguments =
        ["check", "--demo", "--service-account", "shop/operator", "pods", "secrets", "-o", "json"];
    let run = run(None, &[&arguments[..], &["--wait", "2s"]].concat()).await?;
    let report = Report { document: run.json()?, run };
    report.expect("permissions", "red", "may not list and watch secrets in the namespace shop");
    report.expect("streaming lists", "green", "200 pods");
    assert_eq!(report.document["roles"]["items"].as_array().map(Vec::len), Some(2));
    Ok(())
}
