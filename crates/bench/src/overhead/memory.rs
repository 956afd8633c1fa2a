//! The memory of indexes and handlers.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_informer::{Event, Informer, handler_fn};
use tokio::time::sleep;

use super::memory_source::MemorySource;
use super::objects::{config_map, entry, group_of, secret};
use super::reconcile::Figures;
use super::usage::resident;
use super::{HANDLERS, SYNC_TIMEOUT};

/// The pause before each measurement of the memory.
const REST: Duration = Duration::from_millis(500);

/// Measures the bytes per object of three indexes, and the bytes per handler.
pub(super) async fn measure(objects: usize) -> Result<Figures> {
    let mut figures = Figures::new();
    // First, because later allocations could reuse memory that the indexes released.
    handlers(&mut figures).await?;
    let (source, _changes) =
        MemorySource::new((0..objects).map(|number| entry(config_map(number))).collect());
    let maps = Informer::from_source(source).name("ConfigMap /api/v1/configmaps").build();
    maps.start();
    maps.wait_for_sync(SYNC_TIMEOUT).await?;
    let mut before = rested().await?;
    let by_name = maps.add_index("name", |map: &ConfigMap| map.metadata.name.clone())?;
    before = record(&mut figures, "unique_index_bytes", before, objects).await?;
    let by_group = maps.add_index("group", group_of)?;
    before = record(&mut figures, "index_bytes", before, objects).await?;
    let by_namespace = maps.add_index("namespace", |map: &ConfigMap| map.metadata.namespace.clone())?;
    record(&mut figures, "coarse_index_bytes", before, objects).await?;
    let values = [by_name.values().len(), by_group.values().len(), by_namespace.values().len()];
    ensure!(values[0] == objects && values[1] < objects && values[2] < values[1], "{values:?} index values");
    Ok(figures)
}

/// Measures handlers without pending events.
async fn handlers(figures: &mut Figures) -> Result<()> {
    let (source, _changes) = MemorySource::new(vec![entry(secret(0, 1, 1))]);
    let secrets = Informer::from_source(source).name("Secret /api/v1/secrets").build();
    secrets.start();
    secrets.wait_for_sync(SYNC_TIMEOUT).await?;
    let before = rested().await?;
    let mut registrations = Vec::with_capacity(HANDLERS);
    for _ in 0..HANDLERS {
        registrations.push(secrets.add_handler(handler_fn(|_: &Event<Secret>| ())));
    }
    for registration in &registrations {
        ensure!(registration.wait_for_sync(SYNC_TIMEOUT).await, "a handler is not synced");
    }
    record(figures, "handler_bytes", before, HANDLERS).await?;
    drop(registrations);
    Ok(())
}

/// Records the growth of the resident memory since `before` per unit. Returns the current memory.
async fn record(figures: &mut Figures, name: &str, before: f64, units: usize) -> Result<f64> {
    let after = rested().await?;
    figures.insert(name.into(), (after - before) / units as f64);
    Ok(after)
}

async fn rested() -> Result<f64> {
    sleep(REST).await;
    resident()
}
