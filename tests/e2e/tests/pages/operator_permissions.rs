//! The permissions that docs/operator.md lists are sufficient, and each is necessary.

use std::time::Duration;

use kube::Client;
use kube_operator::{ElectionOptions, LeaseTimes, ManagerOptions};
use kube_testserver::{Outcome, Server};
use serde::Deserialize;
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

/// A Role or a ClusterRole of the page.
#[derive(Deserialize)]
struct Role {
    kind: String,
    metadata: Metadata,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    fn given(&self, namespace: Option<&str>) -> kube_testserver::Rule {
        let [groups, resources, verbs] = [&self.api_groups, &self.resources, &self.verbs]
            .map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
        let rule = kube_testserver::Rule::allow().api_groups(&groups).resources(&resources).verbs(&verbs);
        match namespace {
            Some(namespace) => rule.namespaces(&[namespace]),
            None => rule,
        }
    }
}

/// The rules of the page, each with the namespace that it is for.
fn rules() -> Vec<(Option<String>, Rule)> {
    let roles = blocks("yaml").into_iter().flat_map(|block| block.split("---\n"));
    let roles = roles.map(|role| serde_saphyr::from_str::<Role>(role).unwrap());
    let of = |role: Role| {
        assert_eq!(role.kind == "Role", role.metadata.namespace.is_some());
        role.rules.into_iter().map(move |rule| (role.metadata.namespace.clone(), rule))
    };
    roles.flat_map(of).collect()
}

/// Checks that these rules, with the permissions of all accounts, suffice for an election, a Page, its
/// event and its status. The error contains the failed step.
async fn works(rules: &[(Option<String>, Rule)]) -> Result<(), String> {
    // Where lists are streams, to watch is enough.
    let server = Server::builder().streaming_lists(false).build();
    server.install::<Page>().unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operators"}});
    server.create(&namespace).unwrap();
    server.access().add_user("token", "somebody", &[]); // requires a rule for each request
    // A rule without verbs would match all verbs.
    for (namespace, rule) in rules.iter().filter(|(_, rule)| !rule.verbs.is_empty()) {
        server.access().add_rule(rule.given(namespace.as_deref()));
    }
    let reviews = kube_testserver::Rule::allow().resources(&["selfsubjectaccessreviews"]);
    server.access().add_rule(reviews);
    let election = ElectionOptions {
        namespace: "operators".to_owned(),
        name: "page-operator".to_owned(),
        identity: "one".to_owned(),
        times: LeaseTimes::default(),
    };
    let options =
        ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
    let manager = operator(Client::new(server.service(), "operators"), options).unwrap();
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
    match ended && is_told && is_made && refused.is_empty() {
        true => Ok(()),
        false => Err(format!("stopped {ended}, event {is_told}, created {is_made}, forbidden {refused:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn the_rules_of_the_page_are_enough_and_none_is_too_much() {
    let rules = rules();
    works(&rules).await.unwrap();
    for (at, (_, rule)) in rules.iter().enumerate() {
        // To create by an apply takes the right to create on a kube-apiserver only.
        let is_asked_for = |verb: &&String| !(*verb == "create" && rule.resources == ["configmaps"]);
        for verb in rule.verbs.iter().filter(is_asked_for) {
            let mut fewer = rules.clone();
            fewer[at].1.verbs.retain(|other| other != verb);
            assert!(works(&fewer).await.is_err(), "{verb} of {:?} is not needed", rule.resources);
        }
    }
}
