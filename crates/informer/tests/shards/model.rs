//! A random model: slots change while objects change and requests fail. At the end, cache and handler must
//! agree with the server.

use std::time::Duration;

use kube_informer::{ReflectorOptions, ShardKey};
use kube_testserver::{Disruption, Fault, RequestMatch, Verb};

use crate::stack::{NAMESPACES, Stack, set};

const OBJECTS: usize = 24;

struct Model {
    stack: Stack,
    rng: fastrand::Rng,
    slots: Vec<u8>,
    exists: [bool; OBJECTS],
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let key = if rng.bool() { ShardKey::Namespace } else { ShardKey::Uid };
        let options = ReflectorOptions {
            streaming_lists: rng.u8(..4) == 0,
            page_size: rng.bool().then_some(3),
            seed: Some(seed),
            ..ReflectorOptions::default()
        };
        let stack = Stack::build(rng.bool(), key, options, rng.u8(..4) == 0);
        Self { stack, rng, slots: Vec::new(), exists: [false; OBJECTS] }
    }

    fn write(&mut self) {
        let number = self.rng.usize(..OBJECTS);
        let (namespace, name) = (number % NAMESPACES.len(), format!("map-{number}"));
        match (self.exists[number], self.rng.u8(..3)) {
            (false, _) => self.stack.create(namespace, &name),
            (true, 0) => self.stack.delete(namespace, &name),
            // The new object has another uid, and can be in another slot.
            (true, 1) => {
                self.stack.delete(namespace, &name);
                self.stack.create(namespace, &name);
            }
            (true, _) => self.stack.patch(namespace, &name, &self.rng.u32(..).to_string()),
        }
        self.exists[number] =
            self.stack.server.get_untyped("v1", "ConfigMap", Some(NAMESPACES[namespace]), &name).is_ok();
    }

    fn change_slots(&mut self) {
        match self.rng.u8(..6) {
            0 => self.slots.clear(),
            1 => self.slots = (0..8).filter(|_| self.rng.bool()).collect(),
            2 | 3 => self.slots.push(self.rng.u8(..8)),
            _ if self.slots.is_empty() => {}
            _ => drop(self.slots.swap_remove(self.rng.usize(..self.slots.len()))),
        }
        self.stack.set(self.slots.clone());
    }

    fn fail(&mut self) {
        let verb = if self.rng.bool() { Verb::List } else { Verb::Watch };
        let delay = Duration::from_millis(self.rng.u64(1..200));
        let fault = match self.rng.u8(..7) {
            0 => Fault::Reset,
            1 => Fault::internal_error("injected"),
            2 => Fault::Delay(delay),
            3 | 4 => Fault::LateResponse(delay),
            5 => Fault::gone(),
            _ => Fault::Disrupt(Disruption::Compact),
        };
        self.stack.server.faults().next(RequestMatch::verb(verb), fault);
        if self.rng.u8(..4) == 0 {
            self.stack.server.close_watches();
        }
    }

    async fn run(mut self, steps: usize) {
        (0..OBJECTS / 2).for_each(|_| self.write());
        self.change_slots();
        self.stack.informer.start();
        for _ in 0..steps {
            match self.rng.u8(..10) {
                0..6 => self.write(),
                6..8 => self.change_slots(),
                8 => self.fail(),
                _ => {
                    let pause = [1, 5, 30, 200, 3000][self.rng.usize(..5)];
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
        }
        self.stack.server.faults().clear();
        self.stack.agrees(set(self.slots.clone())).await;
        self.write();
        self.stack.agrees(set(self.slots.clone())).await;
        self.stack.informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn cache_and_handler_agree_with_server_after_random_changes() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let first = number("SHARD_SEED", 0);
    for seed in first..first + number("SHARD_SEEDS", 100) {
        println!("seed {seed}");
        Model::new(seed).run(150).await;
    }
}
