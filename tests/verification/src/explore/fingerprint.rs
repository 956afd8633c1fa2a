//! The fingerprint of a world: worlds with the same future have the same fingerprint.
//!
//! Objects are identified by key, and not by their position in the store. Only the order of versions
//! matters, and only the equality of uids and values. Fingerprints therefore contain ranks instead of
//! versions, and numbers in the order of occurrence instead of uids and values. They exclude history of
//! the server that no client can read.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use kube_object::{Delta, Event, Listed, ObjectId};

use super::{
    bounds::OPAQUE,
    cache_gap::CacheGap,
    client::{Client, Member},
    server::{UIDS, VERSIONS},
    test_object::{self, TestObject},
    world::World,
};
use crate::properties::Written;

/// 64 bits: among a hundred million worlds, two different worlds have the same fingerprint with a
/// probability of 1 to 3700.
pub(super) fn of(world: &World) -> u64 {
    let mut names = Renaming::default();
    let left = &world.left;
    (left.changes, left.faults, left.times, left.moves, left.stops, left.restarts).hash(&mut names);
    (&world.open, world.position).hash(&mut names);
    (world.lost, world.unasked, world.incomplete, world.restored, world.passed).hash(&mut names);
    (world.failed, world.unchecked, world.disordered).hash(&mut names);
    (world.haste, world.tries, world.extensions, world.stopped, world.check).hash(&mut names);
    let first_list = world.position.version.is_none();
    world.server.hash_from(world.reads_from(), first_list || left.faults > 0, &mut names);
    client(&world.client, &mut names);
    for saved in [&world.saved, &world.verifying] {
        saved.is_some().hash(&mut names);
        saved.iter().for_each(|saved| saved.hash(&mut names));
    }
    let past = world.judge.past();
    // The server cannot return to states before the cached state.
    let settled = left.faults == 0 && world.restored == CacheGap::None;
    for (key, life) in &past.server.lives {
        (key, life.len()).hash(&mut names);
        life.iter()
            .for_each(|of| written(of, settled && past.cache.mark.version >= Some(of.version), &mut names));
    }
    past.handlers.hash(&mut names);
    names.finish()
}

/// A hasher that renumbers its input.
#[derive(Default)]
struct Renaming {
    words: Vec<Word>,
    versions: Vec<u64>,
    others: Vec<u64>,
}

enum Word {
    Plain(u64),
    Version(u64),
}

impl Renaming {
    fn plain(&mut self, word: u64) {
        self.words.push(Word::Plain(word));
    }
}

impl Hasher for Renaming {
    fn write_u64(&mut self, number: u64) {
        match number {
            ..VERSIONS => self.plain(number),
            VERSIONS..UIDS => {
                self.versions.push(number);
                self.words.push(Word::Version(number));
            }
            UIDS.. => {
                let met = self.others.iter().position(|other| *other == number);
                let name = met.unwrap_or_else(|| {
                    self.others.push(number);
                    self.others.len() - 1
                });
                self.plain(UIDS + name as u64);
            }
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.plain(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.plain(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.plain(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.plain(number as u64);
    }

    /// Text is an opaque version, or the token of a list: a version and the next position.
    fn write(&mut self, bytes: &[u8]) {
        let (digits, rest) = match bytes.strip_prefix(OPAQUE.as_bytes()) {
            Some(digits) => (digits, &[][..]),
            None => bytes.split_at(bytes.iter().position(|byte| *byte == b'/').unwrap_or(0)),
        };
        let version = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        self.write_u64(version.unwrap_or_default());
        rest.iter().for_each(|byte| self.write_u8(*byte));
    }

    fn finish(&self) -> u64 {
        let mut ranks = self.versions.clone();
        ranks.sort_unstable();
        ranks.dedup();
        let mut hasher = FixedState::with_seed(7).build_hasher();
        for word in &self.words {
            match word {
                Word::Plain(word) => word.hash(&mut hasher),
                Word::Version(version) => {
                    let rank = ranks.partition_point(|other| other < version);
                    (VERSIONS + rank as u64).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

fn written(written: &Written, settled: bool, hasher: &mut impl Hasher) {
    let Written { version, object, decodable, lost } = written;
    // No client reads the version of a delete.
    (if settled && object.is_none() { 0 } else { *version }).hash(hasher);
    (object, decodable, lost).hash(hasher);
}

fn identity(id: &ObjectId, hasher: &mut impl Hasher) {
    (test_object::number(&id.key), test_object::uid_number(&id.uid), &id.version).hash(hasher);
}

fn client(client: &Client, hasher: &mut impl Hasher) {
    (&client.machine, client.armed, client.synced, client.is_restored).hash(hasher);
    let deltas = |deltas: &mut dyn Iterator<Item = &Delta<TestObject>>, hasher: &mut _| {
        deltas.for_each(|of| delta(of, hasher));
        255_u8.hash(hasher);
    };
    deltas(&mut client.outgoing.iter(), hasher);
    deltas(&mut client.fifo.iter(), hasher);
    deltas(&mut client.collected.iter(), hasher);
    client.shown().hash(hasher);
    let position = client.store.watermark();
    (position.epoch, position.version, position.synced).hash(hasher);
    client.store.snapshot().applied_version().hash(hasher);
    let snapshot = client.store.snapshot();
    for of in &client.members {
        member(of, hasher);
        // The objects of the next pages, in their order.
        let mut cursor = of.resync;
        while let Some(at) = cursor {
            let (entries, next) = snapshot.page(at, 1);
            entries.iter().for_each(|entry| test_object::number(entry.key()).hash(hasher));
            cursor = next;
        }
        of.resync.is_some().hash(hasher);
    }
}

fn delta(delta: &Delta<TestObject>, hasher: &mut impl Hasher) {
    match delta {
        Delta::Begin { without_reuse: fresh } => (1_u8, fresh).hash(hasher),
        Delta::Page(items) => {
            2_u8.hash(hasher);
            for item in items {
                match item {
                    Listed::Object(entry) => entry.0.hash(hasher),
                    Listed::Undecodable(id) => identity(id, hasher),
                }
            }
        }
        Delta::End { version, complete } => (3_u8, version, complete).hash(hasher),
        Delta::Put(entry) => (4_u8, entry.0).hash(hasher),
        Delta::Remove { id, last } => {
            5_u8.hash(hasher);
            identity(id, hasher);
            last.as_ref().map(|last| last.0).hash(hasher);
        }
        Delta::Undecodable(id) => {
            6_u8.hash(hasher);
            identity(id, hasher);
        }
        Delta::Bookmark(version) => (7_u8, version).hash(hasher),
        Delta::Clear => 8_u8.hash(hasher),
        Delta::Hold { .. } => unreachable!("the client is not sharded"),
    }
}

fn member(member: &Member, hasher: &mut impl Hasher) {
    (member.id, member.complete, member.synced).hash(hasher);
    (member.backlog.coalesced_keys(), member.backlog.initial_pending()).hash(hasher);
    if let Some((delivery, at)) = &member.in_hand {
        at.hash(hasher);
        events(delivery, hasher);
    }
    let mut backlog = member.backlog.clone();
    while let Some(delivery) = backlog.take() {
        events(&delivery, hasher);
    }
}

fn events(events: &[Event<TestObject>], hasher: &mut impl Hasher) {
    events.len().hash(hasher);
    events.iter().for_each(|event| test_object::seen(event).hash(hasher));
}
