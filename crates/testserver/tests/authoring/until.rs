//! Waits for conditions on objects.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_testserver::{Server, UntilError};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::{Site, server, site};

const LIMIT: Duration = Duration::from_secs(60);

fn text(site: Option<&Site>) -> Option<&str> {
    site.map(|site| site.spec.text.as_str())
}

fn change(server: &Server, text: &str) {
    server.patch::<Site>(None, "home", &json!({"spec": {"text": text}})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn condition_sees_each_state_in_order() {
    let server = Server::new();
    let mut seen = Vec::new();
    let wait = server.until(None, "home", LIMIT, |site: Option<&Site>| {
        seen.push(text(site).map(str::to_owned));
        seen.len() == 6
    });
    let writes = async {
        sleep(Duration::from_millis(1)).await;
        server.install::<Site>().unwrap();
        server.create(&site("other", "x")).unwrap();
        server.create(&site("home", "a")).unwrap();
        let version = server.resource_version();
        sleep(Duration::from_millis(1)).await;
        change(&server, "b");
        change(&server, "c");
        server.delete::<Site>(None, "home").unwrap();
        sleep(Duration::from_millis(1)).await;
        server.restore(version).unwrap();
        sleep(Duration::from_millis(1)).await;
        change(&server, "d");
    };
    let (found, ()) = tokio::join!(wait, writes);
    assert_eq!(text(found.unwrap().as_ref()), Some("a"));
    assert_eq!(
        seen,
        [None, Some("a"), Some("b"), Some("c"), None, Some("a")].map(|text| text.map(str::to_owned))
    );
}

#[tokio::test(start_paused = true)]
async fn absence_is_a_condition_and_other_objects_do_not_call_it() {
    let server = server();
    let mut calls = 0;
    let absent = server.until(None, "home", LIMIT, |site: Option<&Site>| site.is_none()).await;
    assert!(absent.unwrap().is_none());
    let wait = server.until(None, "home", LIMIT, |site: Option<&Site>| {
        calls += 1;
        site.is_some()
    });
    let writes = async {
        for name in ["one", "two", "home"] {
            server.create(&site(name, "x")).unwrap();
            sleep(Duration::from_millis(1)).await;
        }
    };
    let (found, ()) = tokio::join!(wait, writes);
    assert_eq!((found.unwrap().is_some(), calls), (true, 2));
}

#[tokio::test(start_paused = true)]
async fn failed_wait_reports_the_last_state_the_changes_and_the_requests() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    server.create(&site("home", "a")).unwrap();
    let started = Instant::now();
    let wait = server.until(None, "home", LIMIT, |site: Option<&Site>| text(site) == Some("z"));
    let writes = async {
        maps.get_opt("settings").await.unwrap();
        for number in 0..12 {
            change(&server, &number.to_string());
        }
    };
    let (failed, ()) = tokio::join!(wait, writes);
    assert_eq!(started.elapsed(), LIMIT);
    let error = failed.unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let report = error.to_string();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "the condition on Site home did not hold within 60s");
    assert_eq!(lines[1..3], ["last state:", "    apiVersion: example.com/v1"]);
    assert!(report.contains("\n      text: \"11\"\nchanges during the wait: 12\n"), "{report}");
    assert!(
        report.contains(
            "\n  at resourceVersion 20: metadata.generation: 11 -> 12; spec.text: \"9\" -> \"10\"\n"
        ),
        "{report}"
    );
    assert_eq!(report.matches("at resourceVersion").count(), 9);
    assert!(!report.contains("managedFields"), "{report}");
    assert!(
        report
            .contains("last requests of clients: 1\n  #1 get /api/v1/namespaces/default/configmaps/settings"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_wait_reports_a_kind_that_is_not_served() {
    let error = Server::new()
        .until(Some("shop"), "home", LIMIT, |site: Option<&Site>| site.is_some())
        .await
        .unwrap_err();
    let expected = "the condition on Site shop/home, whose kind the server does not serve, did not hold within 60s\n\
                    last state: the object does not exist\nchanges during the wait: 0\nlast requests of clients: 0";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn state_of_another_type_ends_the_wait() {
    let server = server();
    crate::create_malformed_site(&server);
    let error =
        server.until(None, "malformed", LIMIT, |site: Option<&Site>| site.is_some()).await.unwrap_err();
    assert!(matches!(error, UntilError::Decode(_)), "{error}");
}
