//! Compares the tables of both servers: the columns and the cells of each object in `objects.txt`.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use http::{Method, Request, header};
use kube_client::client::Body;
use kube_client::discovery::{Scope, verbs};
use kube_client::{Client, Discovery};
use kube_informer_e2e::real::{Options, RealServer, skip_or_fail};
use kube_testserver::Server;
use regex::Regex;
use serde_json::{Value, json};

const OBJECTS: &str = include_str!("objects.txt");
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const NAMESPACE: &str = "tables";

/// The columns whose cells differ, because kube-testserver prints a simpler text.
const SIMPLER: [(&str, &str); 4] = [
    ("horizontalpodautoscalers", "Targets"),
    ("nodes", "Kernel-Version"),
    ("ingressclasses", "Parameters"),
    ("pods", "Readiness Gates"),
];

/// An object of `objects.txt`.
struct Sample {
    api_version: &'static str,
    plural: &'static str,
    object: Value,
}

impl Sample {
    fn all() -> Result<Vec<Self>> {
        let lines = OBJECTS.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| Self::parse(line).with_context(|| line.to_owned())).collect()
    }

    fn parse(line: &'static str) -> Result<Self> {
        let (api_version, rest) = line.split_once(' ').context("no resource")?;
        let (plural, object) = rest.split_once(' ').context("no object")?;
        Ok(Self { api_version, plural, object: serde_json::from_str(object)? })
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or("")
    }
}

/// The kind of a resource, and whether its objects are in a namespace.
struct Resource {
    kind: String,
    namespaced: bool,
}

/// Sends a request, and returns the body of a successful response.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    accept: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let request = Request::builder().method(&method).uri(path).header(header::ACCEPT, accept);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let response = client.send(request.body(Body::from(body))?).await?;
    let (status, body) = (response.status(), response.into_body().collect_bytes().await?);
    ensure!(status.is_success(), "{method} {path}: {status} {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

/// Creates the object, and returns its table.
async fn table(client: &Client, sample: &Sample, resource: &Resource) -> Result<Value> {
    let prefix = if sample.api_version.contains('/') { "apis" } else { "api" };
    let scope = if resource.namespaced { format!("namespaces/{NAMESPACE}/") } else { String::new() };
    let all = format!("/{prefix}/{}/{scope}{}", sample.api_version, sample.plural);
    let one = format!("{all}/{}", sample.name());
    let mut object = sample.object.clone();
    object["apiVersion"] = sample.api_version.into();
    object["kind"] = resource.kind.as_str().into();
    let json = "application/json";
    let mut created = send(client, Method::POST, &all, json, Some(&object)).await?;
    if let Some(status) = sample.object.get("status") {
        created["status"] = status.clone();
        send(client, Method::PUT, &format!("{one}/status"), json, Some(&created)).await?;
    }
    send(client, Method::GET, &one, TABLE, None).await
}

/// Returns the columns of a table with their cells, in a form that is equal on both servers: without
/// descriptions and ages of new objects.
fn comparable(sample: &Sample, table: &Value, new: &Regex) -> Vec<(Value, Value)> {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
    let columns = columns.zip(cells).map(|(of, cell)| {
        let is_new = cell.as_str().is_some_and(|text| new.is_match(text));
        let is_simpler = SIMPLER.contains(&(sample.plural, of["name"].as_str().unwrap_or("")));
        let cell = if is_new || is_simpler { json!("DIFFERENT") } else { cell.clone() };
        (json!([of["name"], of["type"], of["format"], of["priority"]]), cell)
    });
    columns.collect()
}

async fn resources(client: &Client) -> Result<Vec<(String, Resource)>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let kinds = discovery.groups().flat_map(|group| group.resources_by_stability());
    // The reviews are not stored, so they have no tables.
    let kinds = kinds.filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST));
    let resources = kinds.map(|(resource, capabilities)| {
        let namespaced = capabilities.scope == Scope::Namespaced;
        let key = format!("{} {}", resource.api_version, resource.plural);
        (key, Resource { kind: resource.kind, namespaced })
    });
    Ok(resources.collect())
}

async fn differences(real: &Client, ours: &Client) -> Result<String> {
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    for client in [real, ours] {
        send(client, Method::POST, "/api/v1/namespaces", "application/json", Some(&namespace)).await?;
    }
    let samples = Sample::all()?;
    let resources = resources(ours).await?;
    // The age and the creation time of a new object.
    let new = Regex::new(r"^([0-9]{1,2}s|20[2-9][0-9]-.*Z)$")?;
    let (mut report, mut compared) = (String::new(), BTreeSet::new());
    for sample in &samples {
        let key = format!("{} {}", sample.api_version, sample.plural);
        let (_, resource) = resources.iter().find(|(name, _)| *name == key).context(key.clone())?;
        let (theirs, own) = tokio::join!(table(real, sample, resource), table(ours, sample, resource));
        let (theirs, own) = match (theirs, own) {
            (Ok(theirs), Ok(own)) => (comparable(sample, &theirs, &new), comparable(sample, &own, &new)),
            (theirs, own) => {
                let failures = [("-", theirs.err()), ("+", own.err())];
                let failures = failures.into_iter().filter_map(|(mark, failure)| Some((mark, failure?)));
                report.extend(failures.map(|(mark, failure)| format!("{key}\n  {mark} {failure}\n")));
                continue;
            }
        };
        compared.insert(key.clone());
        // kube-testserver prints rare kinds with the default columns, and omits some wide columns.
        let is_default = own.get(1).is_some_and(|(column, _)| column[0] == "Created At");
        let differ = own.iter().filter(|column| !is_default && !theirs.contains(column));
        report.extend(
            differ.map(|column| format!("{key} {}: {column:?} is not in {theirs:?}\n", sample.name())),
        );
    }
    for (key, _) in resources.iter().filter(|(key, _)| !compared.contains(key)) {
        report += &format!("{key}: no object is compared\n");
    }
    eprintln!("{} objects of {} resources", samples.len(), compared.len());
    Ok(report)
}

#[tokio::test]
async fn tables_of_all_kinds_equal_tables_of_real_server() -> Result<()> {
    let count = Sample::all()?.len();
    let Some(real) = RealServer::start_or_skip("tables", count, Options::default()).await? else {
        return Ok(());
    };
    if !real.is_own() {
        return skip_or_fail("tables, which require a separate server", count);
    }
    // Tables also exist for kinds that the server only stores.
    let server = Server::builder().strict(false).build();
    let ours = Client::new(server.service(), NAMESPACE);
    let report = differences(&real.client().await?, &ours).await?;
    real.stop().await?;
    ensure!(report.is_empty(), "kube-apiserver (-) and kube-testserver (+) differ:\n{report}");
    Ok(())
}
