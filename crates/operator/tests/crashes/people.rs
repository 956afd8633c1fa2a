//! What people do to the objects.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    support::{VERSION, site},
    world::{SECOND, World},
};

const OTHER: &str = "other.example.com/hold";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// They create, change and delete sites, with a finalizer of their own or without, and interfere with what sites own.
pub(crate) async fn work(world: &World, steps: usize, mut rng: Rng) {
    let server = &world.server;
    for step in 0..steps {
        sleep(Duration::from_millis(rng.u64(..2500))).await;
        let name = NAMES[rng.usize(..3)];
        let child = format!("{name}-{}", ["updated", "applied"][rng.usize(..2)]);
        let says = json!({"says": step.to_string()});
        let (what, done) = match rng.u8(..10) {
            0..=2 => {
                let others: &[&str] = if rng.bool() { &[OTHER] } else { &[] };
                ("create", server.create(site(name, &step.to_string(), others)))
            }
            3..=4 => ("change", server.patch(VERSION, "Site", Some("default"), name, &json!({"spec": says}))),
            5..=6 => ("delete", server.delete(VERSION, "Site", Some("default"), name)),
            7 => {
                let patch = json!({"data": says});
                ("interfere with", server.patch("v1", "ConfigMap", Some("default"), &child, &patch))
            }
            8 => ("delete what is owned by", server.delete("v1", "ConfigMap", Some("default"), &child)),
            _ => {
                release(world, name);
                continue;
            }
        };
        // Much of it is not possible just then.
        if done.is_ok() {
            world.tell(format_args!("people {what} {name}"));
        }
        world.check();
    }
}

/// Of what each site owns one is changed, and the other one is deleted.
pub(crate) async fn interfere(world: &World) {
    for name in NAMES {
        for kinds in [["updated", "applied"], ["applied", "updated"]] {
            let [changed, deleted] = kinds.map(|kind| format!("{name}-{kind}"));
            let patch = json!({"data": {"says": "nothing"}});
            // There is none of a site that is gone.
            let _changed = world.server.patch("v1", "ConfigMap", Some("default"), &changed, &patch);
            let _deleted = world.server.delete("v1", "ConfigMap", Some("default"), &deleted);
            sleep(2 * SECOND).await;
        }
    }
}

/// Their finalizer is taken away.
fn release(world: &World, name: &str) {
    let Some(there) = world.site(name) else { return };
    let mut finalizers: Vec<Value> = there["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|name| name != OTHER);
    let patch = json!({"metadata": {"finalizers": finalizers}});
    world.server.patch(VERSION, "Site", Some("default"), name, &patch).unwrap();
}

pub(crate) fn release_all(world: &World) {
    NAMES.iter().for_each(|name| release(world, name));
}
