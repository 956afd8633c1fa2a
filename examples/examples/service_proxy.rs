//! Builds the routing table of a small kube-proxy from two caches.
//!
//! One factory creates informers for Services and EndpointSlices. Their handlers only report that
//! something changed. The example then builds the routing table again from the caches. Prints a
//! route for each port of a Service: `shop/web 10.96.0.1:80 -> 10.1.0.4:8080, ..`.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use kube_informer::{Index, InformerFactory, Lister, ObjectKey};
use kube_informer_examples::{cli, cluster::ClusterArgs};
use tokio::sync::Notify;

/// The label of an EndpointSlice that contains the name of the Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The delay of an update, so that one update includes several changes within a short time.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Prints the route of each Service port, and each change of a route.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(proxy).await
}

async fn proxy(Flags { cluster: flags }: Flags) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    cluster.check_list_access::<EndpointSlice>(flags.namespace.as_deref()).await?;

    let mut factory = InformerFactory::new(cluster.client.clone());
    if let Some(namespace) = &flags.namespace {
        factory = factory.namespace(namespace);
    }
    let services = factory.informer::<Service>()?;
    let slices = factory.informer::<EndpointSlice>()?;
    let by_service = slices.add_index("service", service_of)?;

    let changed = Arc::new(Notify::new());
    let (service_changed, slice_changed) = (Arc::clone(&changed), Arc::clone(&changed));
    services.on_event(move |_| service_changed.notify_one()).detach();
    slices.on_event(move |_| slice_changed.notify_one()).detach();
    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;

    let time_over = flags.duration.wait();
    tokio::pin!(time_over);
    let mut printed = BTreeMap::new();
    loop {
        let routes = routing_table(&services.lister(), &by_service);
        print_changes(&printed, &routes);
        printed = routes;
        tokio::select! {
            () = &mut time_over => break,
            () = async { changed.notified().await; tokio::time::sleep(DEBOUNCE).await } => {}
        }
    }
    println!("the final table has {} routes", printed.len());
    factory.shutdown().await;
    cluster.close().await;
    Ok(())
}

fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(ObjectKey::new(slice.metadata.namespace.as_deref(), service))
}

/// Returns the backends of each port of each Service.
fn routing_table(
    services: &Lister<Service>,
    by_service: &Index<EndpointSlice, ObjectKey>,
) -> BTreeMap<String, Vec<String>> {
    let mut table = BTreeMap::new();
    for entry in services.snapshot().iter() {
        let Some(spec) = &entry.spec else { continue };
        let address = spec.cluster_ip.as_deref().unwrap_or("None");
        for port in spec.ports.iter().flatten() {
            let mut backends: Vec<String> =
                by_service.get(entry.key()).iter().flat_map(|slice| ready_endpoints(slice, port)).collect();
            backends.sort();
            table.insert(format!("{} {address}:{}", entry.key(), port.port), backends);
        }
    }
    table
}

/// Returns the ready endpoints of a port, as address:port.
fn ready_endpoints(slice: &EndpointSlice, port: &ServicePort) -> Vec<String> {
    let named = |candidate: &&k8s_openapi::api::discovery::v1::EndpointPort| {
        candidate.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
    };
    let Some(target) = slice.ports.iter().flatten().find(named).and_then(|port| port.port) else {
        return Vec::new();
    };
    let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
        // The API defines an unknown condition as ready.
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    });
    ready.flat_map(|endpoint| &endpoint.addresses).map(|address| format!("{address}:{target}")).collect()
}

fn print_changes(before: &BTreeMap<String, Vec<String>>, now: &BTreeMap<String, Vec<String>>) {
    for (service, backends) in now {
        if before.get(service) != Some(backends) {
            let backends = if backends.is_empty() { "no endpoints".to_owned() } else { backends.join(", ") };
            println!("{service} -> {backends}");
        }
    }
    for service in before.keys().filter(|service| !now.contains_key(*service)) {
        println!("{service} is removed");
    }
}
