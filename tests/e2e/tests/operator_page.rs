//! The code of docs/operator.md is this code: it is compiled and run here, with the rights that the page names and no others, and the
//! page is held against it.

use kube::CustomResourceExt;
use kube_operator::{ElectionOptions, LeaseTimes};
use kube_testserver::{Outcome, Server};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

// page begins
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, CustomResource};
use kube_informer::CachedApi;
use kube_operator::{
    Action, Applier, Controller, EventRecorder, EventType, Failure, Manager, ManagerOptions, OperationResult,
    Reconciler, Request, set_controller_reference, update_status,
};

#[derive(CustomResource, Clone, Debug, serde::Deserialize, schemars::JsonSchema, serde::Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
struct PageSpec {
    /// What is to be in the ConfigMap: a description in the CRD, as each such comment.
    text: String,
}

#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct PageStatus {
    observed_generation: Option<i64>,
}

struct Pages {
    pages: CachedApi<Page>,
    maps: CachedApi<ConfigMap>,
    applier: Applier,
    recorder: EventRecorder,
}

impl Reconciler<Page> for Pages {
    async fn reconcile(&self, request: Request<Page>) -> Result<Action, Failure> {
        let namespace = request.key.namespace().unwrap_or_default();
        let (pages, maps) = (self.pages.namespace(namespace), self.maps.namespace(namespace));
        let Some(page) = request.object else {
            self.applier.forget(&maps, request.key.name()); // the garbage collector takes what it owned
            return Ok(Action::AwaitChange);
        };
        let mut map = ConfigMap::default();
        map.metadata.name = page.metadata.name.clone();
        map.metadata.namespace = page.metadata.namespace.clone();
        map.data = Some([("index.html".to_owned(), page.spec.text.clone())].into());
        set_controller_reference(&*page, &(), &mut map)?;
        if self.applier.apply(&maps, &map).await?.result == OperationResult::Created {
            let note = "its text is in a ConfigMap of its name";
            self.recorder.event(&*page, EventType::Normal, "Published", "Publish", note);
        }
        update_status(&pages, page, |page| {
            page.status.get_or_insert_default().observed_generation = page.metadata.generation;
            Ok(())
        })
        .await?;
        Ok(Action::Done)
    }
}

fn operator(client: Client, options: ManagerOptions) -> anyhow::Result<Manager> {
    let mut manager = Manager::new(client, options)?;
    let writer = manager.client(); // writes only while this process leads
    let recorder = manager.event_recorder("page-operator")?;
    manager.require_permissions(&["create", "patch"], "events.k8s.io", "events", None); // a log says at the start what is not allowed
    let pages = manager.factory().informer::<Page>()?;
    let maps = manager.factory().informer::<ConfigMap>()?;
    let reconciler = Pages {
        pages: CachedApi::new(Api::all(writer.clone()), &pages),
        maps: CachedApi::new(Api::all(writer), &maps),
        applier: Applier::new("page-operator").force(),
        recorder,
    };
    let controller =
        Controller::new(&pages).owns(&maps).concurrency(4).reconcile_timeout(Duration::from_secs(30));
    manager.add_controller(controller, reconciler);
    Ok(manager)
}
// page ends

#[expect(dead_code, reason = "a program's own, which needs a cluster")]
mod program {
    use super::{Client, ManagerOptions, operator};

    // page begins
    use kube_operator::{ElectionOptions, shutdown_signal};
    use tracing_subscriber::EnvFilter;

    #[tokio::main]
    async fn main() -> anyhow::Result<()> {
        let filter = EnvFilter::try_from_default_env(); // RUST_LOG
        let filter = filter.unwrap_or_else(|_| EnvFilter::new("info,kube_client=error"));
        tracing_subscriber::fmt().with_env_filter(filter).init(); // failures and missing rules are logged
        let client = Client::try_default().await?;
        let namespace = client.default_namespace(); // in a Pod its own
        let options = ManagerOptions {
            election: Some(ElectionOptions::new(namespace, "page-operator")),
            probe_address: Some(([0, 0, 0, 0], 8081).into()), // /healthz and /readyz, for the kubelet
            ..ManagerOptions::default()
        };
        operator(client, options)?.run(shutdown_signal()).await?;
        Ok(())
    }
    // page ends
}

mod by_hand {
    use super::{Client, ManagerOptions, Page, operator};

    // page begins
    use kube::CustomResourceExt;
    use kube_testserver::Server;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    #[tokio::test(start_paused = true)]
    async fn a_page_gets_a_config_map_which_is_mended_and_goes_with_it() -> anyhow::Result<()> {
        let server = Server::builder().garbage_collector(true).build();
        server.create(serde_json::to_value(Page::crd())?)?;
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let manager = operator(Client::new(server.service(), "default"), options)?;
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));

        let metadata = json!({"name": "home", "namespace": "default"});
        let page = json!({"apiVersion": "example.com/v1", "kind": "Page", "metadata": metadata, "spec": {"text": "hi"}});
        server.create(page)?;
        let map = |server: &Server| server.get("v1", "ConfigMap", Some("default"), "home").ok();
        server.until(map).await;
        server.patch("v1", "ConfigMap", Some("default"), "home", &json!({"data": {"index.html": "ho"}}))?;
        server.until(|server| map(server).filter(|map| map["data"]["index.html"] == "hi")).await;
        server.delete("example.com/v1", "Page", Some("default"), "home")?;
        server.until(|server| map(server).is_none().then_some(())).await;

        stop.cancel();
        Ok(running.await??)
    }
    // page ends
}

const PAGE: &str = include_str!("../../../docs/operator.md");

/// What stands in the page's blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```\n").next().unwrap_or_default()).collect()
}

#[test]
fn the_page_shows_the_code_that_is_run_here() {
    let here = include_str!("operator_page.rs");
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let code = here.split("// page begins\n").skip(1).filter_map(|rest| rest.split("// page ends").next());
    // This test's own words of the marks begin none: no line ends after them.
    let code: Vec<_> = code.map(|block| lines(block.trim())).collect();
    let shown: Vec<_> = blocks("rust").into_iter().map(lines).collect();
    assert_eq!(code.len(), 3);
    assert_eq!(shown, code);
}

/// The program of the page has each crate in the version that this workspace has.
#[test]
fn the_page_names_the_versions_of_the_workspace() {
    let workspace = include_str!("../../../Cargo.toml");
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

/// A Role or a ClusterRole, as the page has them.
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

/// With these rules, and what every account may: an election, a Page, its event and its status. An error says what was not done.
async fn works(rules: &[(Option<String>, Rule)]) -> Result<(), String> {
    // Where lists are streams, to watch is enough.
    let server = Server::builder().streaming_lists(false).build();
    server.create(serde_json::to_value(Page::crd()).unwrap()).unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operators"}});
    server.create(namespace).unwrap();
    server.access().add_user("token", "somebody", &[]); // from now on what no rule allows is forbidden
    // One without verbs would be about all of them.
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
    server.create(page).unwrap();
    sleep(Duration::from_secs(30)).await;
    // Made again, it is told of again, which is a series.
    server.delete("v1", "ConfigMap", Some("default"), "home").ok();
    sleep(Duration::from_secs(30)).await;
    stop.cancel();
    let ended = running.await.unwrap().is_ok();
    let page = server.get("example.com/v1", "Page", Some("default"), "home").unwrap();
    let map = server.get("v1", "ConfigMap", Some("default"), "home").unwrap_or_default();
    let events = server.list("events.k8s.io/v1", "Event", Some("default")).unwrap();
    let requests = server.journal().requests().into_iter();
    let refused: Vec<_> = requests.filter(|request| request.outcome == Outcome::Answered(403)).collect();
    let is_told = events.iter().any(|event| event["reason"] == "Published" && event["series"]["count"] == 2);
    let is_made = map["data"]["index.html"] == "hi" && page["status"]["observedGeneration"] == 1;
    match ended && is_told && is_made && refused.is_empty() {
        true => Ok(()),
        false => Err(format!("ended {ended}, told {is_told}, made {is_made}, refused {refused:?}")),
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
