//! The program of docs/operator.md prints the roles of the page. They are sufficient, and each permission is
//! necessary.

use std::time::Duration;

use kube::Client;
use kube_informer_e2e::rights::{Reduced, Roles};
use kube_operator::{ElectionOptions, ManagerOptions, offline_client};
use kube_testserver::{Outcome, Server};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Page, operator};

const PAGE: &str = include_str!("../../../../docs/operator.md");

/// Returns the content of the page's code blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```\n").next().unwrap_or_default()).collect()
}

/// The program of the page uses the versions of this workspace.
#[test]
fn page_contains_versions_of_workspace() {
    let workspace = include_str!("../../../../Cargo.toml");
    let blocks = blocks("toml");
    let named: Vec<_> = blocks[0]
        .lines()
        .filter(|line| !line.contains("path = "))
        .filter_map(|line| Some((line.split_once(" = ")?.0, line.split('"').nth(1)?)))
        .collect();
    assert!(named.len() >= 8, "{named:?}");
    for (name, version) in named {
        let (begin, version) = (format!("{name} = "), format!("\"{version}\""));
        let mut of_it = workspace.lines().filter(|line| line.starts_with(&begin));
        assert!(of_it.any(|line| line.contains(&version)), "{name} {version}");
    }
}

/// The roles that the program of the page prints.
fn roles() -> String {
    let options =
        ManagerOptions { election: Some(election()), bind_address: None, ..ManagerOptions::default() };
    operator(offline_client("operators"), options).unwrap().rbac_roles("page-operator").to_string()
}

fn election() -> ElectionOptions {
    ElectionOptions { identity: "one".to_owned(), ..ElectionOptions::new("operators", "page-operator") }
}

#[tokio::test]
async fn page_contains_the_roles_that_its_program_prints() {
    assert_eq!(roles(), blocks("yaml").concat());
}

/// Checks that these roles suffice for an election, a Page, its event and its status. The error contains the
/// failed step.
async fn works(roles: &Roles) -> Result<(), String> {
    // With streaming lists, the permission to watch is sufficient.
    let server = Server::builder().streaming_lists(false).rbac(true).build();
    server.install::<Page>().unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operators"}});
    server.create(&namespace).unwrap();
    for object in roles.bind_to_service_account("page-operator") {
        server.create(&object).unwrap();
    }
    let token = server.access().service_account("default", "page-operator");
    let options =
        ManagerOptions { bind_address: None, election: Some(election()), ..ManagerOptions::default() };
    let client = Client::new(server.service().with_token(&token), "operators");
    let manager = operator(client, options).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let metadata = json!({"name": "home", "namespace": "default"});
    let page =
        json!({"apiVersion": "example.com/v1", "kind": "Page", "metadata": metadata, "spec": {"text": "hi"}});
    server.create(&page).unwrap();
    sleep(Duration::from_secs(30)).await;
    // The repeated creation causes a second event, which is a series.
    server.delete_untyped("v1", "ConfigMap", Some("default"), "home").ok();
    sleep(Duration::from_secs(30)).await;
    stop.cancel();
    let ended = running.await.unwrap().is_ok();
    let page = server.get_untyped("example.com/v1", "Page", Some("default"), "home").unwrap();
    let map = server.get_untyped("v1", "ConfigMap", Some("default"), "home").unwrap_or_default();
    let events = server.list_untyped("events.k8s.io/v1", "Event", Some("default")).unwrap();
    let requests = server.journal().requests().into_iter();
    let refused: Vec<_> = requests.filter(|request| request.outcome == Outcome::Answered(403)).collect();
    let is_told = events.iter().any(|event| event["reason"] == "Published" && event["series"]["count"] == 2);
    let is_made = map["data"]["index.html"] == "hi" && page["status"]["observedGeneration"] == 1;
    if ended && is_told && is_made && refused.is_empty() {
        return Ok(());
    }
    Err(format!("stopped {ended}, event {is_told}, created {is_made}, forbidden {refused:?}"))
}

#[tokio::test(start_paused = true)]
async fn rules_of_page_are_sufficient_and_minimal() {
    let roles = Roles::parse(&roles()).unwrap();
    works(&roles).await.unwrap();
    for Reduced { verb, resource, roles } in roles.without_each_verb() {
        assert!(works(&roles).await.is_err(), "{verb} of {resource} is not needed");
    }
}
