//! `Peers`: the other members, as this member observes their Leases. Plain data without I/O and without a
//! clock.
//!
//! A member is dead if another member has marked its Lease as killed because it was not renewed. The mark
//! has the observed resourceVersion as precondition, so a member that renewed its Lease in the meantime
//! stays alive. A killed Lease is deleted after the slots of the member are free.
//!
//! A user can also delete the Lease of a live member. The owner then acts until its own time is over. A
//! member whose Lease is absent is therefore dead only after the lease duration. Only a read proves the
//! absence: a watch may start again at an older state.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube_informer::ResourceVersion;
use tokio::time::Instant;

use super::own_lease::{MemberInfo, MemberLease};

/// A member, and since when its Lease has not changed.
#[derive(Clone, Debug)]
struct Peer {
    state: PeerState,
    since: Instant,
    /// For this time after `since`, the member may act: the longer one of its and of our lease duration.
    duration: Duration,
    /// A watch event or the table contradicts the state.
    must_read: bool,
    /// The member is in the table. Such a member has received the uid of its Lease, and creates no second
    /// Lease.
    is_owner: bool,
}

#[derive(Clone, Debug)]
enum PeerState {
    /// The table contains the member, and its Lease has not been read.
    Unknown,
    Alive(MemberLease),
    /// The Lease does not exist. The member may still act.
    Absent,
    /// The Lease is marked as killed. The member does not act again.
    Killed(MemberLease),
    /// The Lease does not exist. The member does not act again.
    Dead,
}

/// The mark or the deletion of a Lease, if it still has this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) member: String,
    pub(crate) uid: String,
    pub(crate) version: ResourceVersion,
}

impl Kill {
    fn new(member: &str, lease: &MemberLease) -> Self {
        Self { member: member.to_owned(), uid: lease.uid.clone(), version: lease.version.clone() }
    }
}

/// The other members.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    peers: BTreeMap<String, Peer>,
    /// The lease duration in the options of this member.
    duration: Duration,
}

impl Peers {
    pub(crate) fn new(duration: Duration) -> Self {
        Self { peers: BTreeMap::new(), duration }
    }

    /// Handles a Lease in a watch event. `None` means that it was deleted. The event may be older than the
    /// last read.
    pub(crate) fn on_event(&mut self, member: &str, lease: Option<MemberLease>, now: Instant) {
        let is_new = |before: &MemberLease, lease: &MemberLease| !before.version.at_least(&lease.version);
        match (self.peers.get_mut(member), lease) {
            (None, None) => {}
            (None, Some(lease)) => self.on_read(member, Some(lease), now),
            (Some(peer), None) => {
                peer.must_read |= matches!(peer.state, PeerState::Alive(_) | PeerState::Killed(_));
            }
            (Some(peer), Some(lease)) => match &peer.state {
                PeerState::Alive(before) if is_new(before, &lease) => {
                    self.on_read(member, Some(lease), now);
                }
                // The event is older than the last read, or the next step reads the Lease.
                PeerState::Alive(_)
                | PeerState::Unknown
                | PeerState::Absent
                | PeerState::Killed(_)
                | PeerState::Dead => {}
            },
        }
    }

    /// Handles a Lease that was read from the server. `None` means that it does not exist.
    pub(crate) fn on_read(&mut self, member: &str, lease: Option<MemberLease>, now: Instant) {
        let duration = self.duration;
        let peer = self.entry(member, now);
        peer.must_read = false;
        match (&peer.state, lease) {
            (state, Some(lease)) => {
                let before = match state {
                    PeerState::Alive(before) | PeerState::Killed(before) => Some(before),
                    PeerState::Unknown | PeerState::Absent | PeerState::Dead => None,
                };
                if before.is_none_or(|before| !before.is_same_renewal(&lease)) {
                    (peer.since, peer.duration) = (now, lease.duration.max(duration));
                }
                let is_killed = lease.is_killed;
                peer.state = if is_killed { PeerState::Killed(lease) } else { PeerState::Alive(lease) };
            }
            (PeerState::Unknown | PeerState::Alive(_), None) => {
                (peer.state, peer.since) = (PeerState::Absent, now);
            }
            // If a user has marked the Lease, the member acts until the same time as without the deletion.
            (PeerState::Killed(_), None) => peer.state = PeerState::Absent,
            (PeerState::Absent | PeerState::Dead, None) => {}
        }
    }

    /// Handles the Leases of a list by label. A user can remove the label, so a Lease that is not in the
    /// list is read by its name.
    pub(crate) fn on_list(&mut self, leases: BTreeMap<String, MemberLease>, now: Instant) {
        for (member, peer) in &mut self.peers {
            let is_missing = !leases.contains_key(member) && !matches!(peer.state, PeerState::Dead);
            peer.must_read |= is_missing && !matches!(peer.state, PeerState::Absent);
        }
        for (member, lease) in leases {
            self.on_read(&member, Some(lease), now);
        }
    }

    /// Handles a request for this Lease whose result is not known.
    pub(crate) fn on_failure(&mut self, member: &str) {
        if let Some(peer) = self.peers.get_mut(member) {
            peer.must_read = true;
        }
    }

    /// Reads the Leases of dead members again before their slots are taken. A backup may have been restored
    /// while the server did not respond.
    pub(crate) fn check_deaths(&mut self) {
        for peer in self.peers.values_mut() {
            peer.must_read |= !matches!(peer.state, PeerState::Alive(_));
        }
    }

    /// Starts the times of all live members again.
    pub(crate) fn restart_times(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.since = now;
        }
    }

    /// Handles a restored backup: deleted Leases may exist again.
    pub(crate) fn forget_deaths(&mut self) {
        for peer in self.peers.values_mut() {
            peer.must_read = true;
            if !matches!(peer.state, PeerState::Alive(_)) {
                peer.state = PeerState::Unknown;
            }
        }
    }

    /// Handles the owners in the table. Removes dead members that own no slot.
    pub(crate) fn on_owners(&mut self, owners: &BTreeSet<&str>, now: Instant) {
        for owner in owners {
            self.entry(owner, now);
        }
        for (member, peer) in &mut self.peers {
            let was_owner = std::mem::replace(&mut peer.is_owner, owners.contains(member.as_str()));
            // The member may have created its Lease after we observed the absence of an earlier one.
            if peer.is_owner && !was_owner && !matches!(peer.state, PeerState::Alive(_)) {
                peer.state = PeerState::Unknown;
            }
        }
        self.peers.retain(|member, peer| {
            matches!(peer.state, PeerState::Alive(_) | PeerState::Killed(_))
                || owners.contains(member.as_str())
        });
    }

    /// Advances to `now`: absent members die.
    pub(crate) fn advance(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            if matches!(peer.state, PeerState::Absent) && now >= peer.since + peer.duration {
                peer.state = PeerState::Dead;
            }
        }
    }

    /// Returns the next member whose Lease must be read.
    pub(crate) fn next_read(&self) -> Option<&str> {
        let must_read = |peer: &Peer| peer.must_read || matches!(peer.state, PeerState::Unknown);
        self.peers.iter().find(|(_, peer)| must_read(peer)).map(|(member, _)| member.as_str())
    }

    /// Returns the next member that must be killed at `now`.
    pub(crate) fn next_kill(&self, now: Instant) -> Option<Kill> {
        let mut expired = self.alive().filter(|(_, peer, _)| now >= peer.since + peer.duration);
        expired.next().map(|(member, _, lease)| Kill::new(member, lease))
    }

    /// Returns the next killed Lease that must be deleted. It does not own a slot.
    pub(crate) fn next_removal(&self, owners: &BTreeSet<&str>) -> Option<Kill> {
        self.peers.iter().find_map(|(member, peer)| match &peer.state {
            PeerState::Killed(lease) if !owners.contains(member.as_str()) => Some(Kill::new(member, lease)),
            _ => None,
        })
    }

    /// Returns the next time at which the Lease of a member expires.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let times = self.peers.values().filter_map(|peer| match peer.state {
            PeerState::Alive(_) | PeerState::Absent | PeerState::Killed(_) => {
                Some(peer.since + peer.duration)
            }
            PeerState::Unknown | PeerState::Dead => None,
        });
        times.min()
    }

    /// Returns whether a member does not act at `now`. A user can also mark the Lease of a live member as
    /// killed. The owner then acts until its own time is over.
    pub(crate) fn is_dead(&self, member: &str, now: Instant) -> bool {
        self.peers.get(member).is_some_and(|peer| match peer.state {
            PeerState::Killed(_) => now >= peer.since + peer.duration,
            PeerState::Dead => true,
            PeerState::Unknown | PeerState::Alive(_) | PeerState::Absent => false,
        })
    }

    /// Returns the names of the members that have a Lease.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.alive().map(|(member, ..)| member)
    }

    /// Returns the members that take part, without this member.
    pub(crate) fn infos(&self) -> impl Iterator<Item = (&str, MemberInfo)> {
        self.alive().filter_map(|(member, _, lease)| Some((member, lease.info?)))
    }

    fn alive(&self) -> impl Iterator<Item = (&str, &Peer, &MemberLease)> {
        self.peers.iter().filter_map(|(member, peer)| match &peer.state {
            PeerState::Alive(lease) => Some((member.as_str(), peer, lease)),
            PeerState::Unknown | PeerState::Absent | PeerState::Killed(_) | PeerState::Dead => None,
        })
    }

    fn entry(&mut self, member: &str, now: Instant) -> &mut Peer {
        let unknown = Peer {
            state: PeerState::Unknown,
            since: now,
            duration: self.duration,
            must_read: false,
            is_owner: false,
        };
        self.peers.entry(member.to_owned()).or_insert(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn lease(version: u64, is_killed: bool) -> MemberLease {
        MemberLease {
            uid: "lease".to_owned(),
            version: version.into(),
            info: None,
            renewed: "1".to_owned(),
            is_killed,
            duration: DURATION,
        }
    }

    #[test]
    fn marked_and_deleted_member_is_dead_only_after_its_lease_duration() {
        let start = Instant::now();
        let mut peers = Peers::new(DURATION);
        peers.on_owners(&BTreeSet::from(["b"]), start);
        peers.on_read("b", Some(lease(1, false)), start);
        // A user marks the Lease of the live member, and another member deletes it.
        let now = start + Duration::from_secs(1);
        peers.on_read("b", Some(lease(2, true)), now);
        peers.on_read("b", None, now);
        peers.advance(now);
        assert!(!peers.is_dead("b", now));
        let end = start + DURATION;
        peers.advance(end);
        assert!(peers.is_dead("b", end));
    }
}
