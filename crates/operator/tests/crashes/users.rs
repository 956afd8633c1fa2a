//! The actions of users.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    support::{VERSION, site},
    world::{SECOND, World},
};

const USER_FINALIZER: &str = "other.example.com/hold";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Creates, changes and deletes sites, with or without a further finalizer. Changes and deletes the
/// ConfigMaps of sites.
pub(crate) async fn work(world: &World, steps: usize, mut rng: Rng) {
    let server = &world.server;
    for step in 0..steps {
        sleep(Duration::from_millis(rng.u64(..2500))).await;
        let name = NAMES[rng.usize(..3)];
        let child = format!("{name}-{}", ["updated", "applied"][rng.usize(..2)]);
        let says = json!({"says": step.to_string()});
        let (action, result) = match rng.u8(..10) {
            0..=2 => {
                let finalizers: &[&str] = if rng.bool() { &[USER_FINALIZER] } else { &[] };
                ("create", server.create(&site(name, &step.to_string(), finalizers)))
            }
            3..=4 => (
                "change",
                server.patch_untyped(VERSION, "Site", Some("default"), name, &json!({"spec": says})),
            ),
            5..=6 => (
                "delete",
                server.delete_untyped(VERSION, "Site", Some("default"), name).map(Option::unwrap_or_default),
            ),
            7 => {
                let patch = json!({"data": says});
                (
                    "change a ConfigMap of",
                    server.patch_untyped("v1", "ConfigMap", Some("default"), &child, &patch),
                )
            }
            8 => (
                "delete a ConfigMap of",
                server
                    .delete_untyped("v1", "ConfigMap", Some("default"), &child)
                    .map(Option::unwrap_or_default),
            ),
            _ => {
                remove_finalizer(world, name);
                continue;
            }
        };
        // Many of these requests fail, for example if the site does not exist.
        if result.is_ok() {
            world.log(format_args!("users {action} {name}"));
        }
        world.check_resources();
    }
}

/// Changes one ConfigMap of each site and deletes the other ConfigMap.
pub(crate) async fn interfere(world: &World) {
    for name in NAMES {
        for kinds in [["updated", "applied"], ["applied", "updated"]] {
            let [changed, deleted] = kinds.map(|kind| format!("{name}-{kind}"));
            let patch = json!({"data": {"says": "nothing"}});
            // These requests fail if the site does not exist.
            let _changed = world.server.patch_untyped("v1", "ConfigMap", Some("default"), &changed, &patch);
            let _deleted = world.server.delete_untyped("v1", "ConfigMap", Some("default"), &deleted);
            sleep(2 * SECOND).await;
        }
    }
}

/// Removes the further finalizer of a site.
fn remove_finalizer(world: &World, name: &str) {
    let Some(site) = world.site(name) else { return };
    let mut finalizers: Vec<Value> = site["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|name| name != USER_FINALIZER);
    let patch = json!({"metadata": {"finalizers": finalizers}});
    world.server.patch_untyped(VERSION, "Site", Some("default"), name, &patch).unwrap();
}

pub(crate) fn release_all(world: &World) {
    NAMES.iter().for_each(|name| remove_finalizer(world, name));
}
