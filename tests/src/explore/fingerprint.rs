//! What a world means, as a number: two worlds with the same future have the same.
//!
//! Objects are named by key, uid, version and value, never by where the store keeps them.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use kube_object::{Delta, Event, Listed};

use super::{
    client::{Client, Member},
    thing::{self, Thing},
    world::World,
};

/// 64 bits: among a hundred million worlds two are taken for one with a probability of 1 to 3700.
pub(super) fn of(world: &World) -> u64 {
    let mut hasher = FixedState::with_seed(7).build_hasher();
    let left = &world.left;
    (left.changes, left.faults, left.times, left.moves).hash(&mut hasher);
    (&world.server, &world.open, world.position).hash(&mut hasher);
    (world.lost, world.unasked, world.incomplete, world.restored, world.passed).hash(&mut hasher);
    (world.haste, world.tries).hash(&mut hasher);
    client(&world.client, &mut hasher);
    let past = world.judge.past();
    (&past.server.lives, &past.handlers).hash(&mut hasher);
    hasher.finish()
}

fn client(client: &Client, hasher: &mut impl Hasher) {
    (&client.machine, client.armed, client.synced).hash(hasher);
    let deltas = |deltas: &mut dyn Iterator<Item = &Delta<Thing>>, hasher: &mut _| {
        deltas.for_each(|of| delta(of, hasher));
        255_u8.hash(hasher);
    };
    deltas(&mut client.outgoing.iter(), hasher);
    deltas(&mut client.fifo.iter(), hasher);
    deltas(&mut client.collected.iter(), hasher);
    client.shown().hash(hasher);
    let position = client.store.position();
    (position.epoch, position.version, position.synced).hash(hasher);
    client.members.iter().for_each(|of| member(of, hasher));
}

fn delta(delta: &Delta<Thing>, hasher: &mut impl Hasher) {
    match delta {
        Delta::Begin { fresh } => (1_u8, fresh).hash(hasher),
        Delta::Page(items) => {
            2_u8.hash(hasher);
            for item in items {
                match item {
                    Listed::Object(entry) => entry.0.hash(hasher),
                    Listed::Undecodable(id) => (thing::number(&id.key), &id.uid, &id.version).hash(hasher),
                }
            }
        }
        Delta::End { version, complete } => (3_u8, version, complete).hash(hasher),
        Delta::Put(entry) => (4_u8, entry.0).hash(hasher),
        Delta::Remove { id, last } => {
            (5_u8, thing::number(&id.key), &id.uid, &id.version).hash(hasher);
            last.as_ref().map(|last| last.0).hash(hasher);
        }
        Delta::Undecodable(id) => (6_u8, thing::number(&id.key), &id.uid, &id.version).hash(hasher),
        Delta::Bookmark(version) => (7_u8, version).hash(hasher),
        Delta::Clear => 8_u8.hash(hasher),
    }
}

fn member(member: &Member, hasher: &mut impl Hasher) {
    (member.id, member.complete, member.synced).hash(hasher);
    (member.backlog.merged_keys(), member.backlog.initial_pending()).hash(hasher);
    if let Some((delivery, at)) = &member.in_hand {
        at.hash(hasher);
        events(delivery, hasher);
    }
    let mut backlog = member.backlog.clone();
    while let Some(delivery) = backlog.take() {
        events(&delivery, hasher);
    }
}

fn events(events: &[Event<Thing>], hasher: &mut impl Hasher) {
    events.len().hash(hasher);
    events.iter().for_each(|event| thing::seen(event).hash(hasher));
}
