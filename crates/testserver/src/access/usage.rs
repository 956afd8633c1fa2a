//! The record of the rights that requests used or lacked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::access::attributes::Attributes;

/// The maximum number of different records of all users.
const MAX_RECORDS: usize = 16_384;

/// Compares the roles of a user with its requests. [`Access::usage`](crate::Access::usage) creates the
/// value.
///
/// A test of a program can end with `assert!(usage.is_exact(), "{usage}")`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// The name of the user.
    pub user: String,
    /// The requests that the server rejected because no role and no rule allows them, with their number.
    pub denied: Vec<(Attributes, u64)>,
    /// The rights that roles grant to the user, but that no request used.
    pub unused: Vec<RoleRight>,
    /// The rights of roles that at least one request used.
    pub used: Vec<RoleRight>,
    /// The number of requests of all users that were not recorded, because the record was full.
    pub omitted: u64,
}

/// Identifies a part of a rule in a Role or ClusterRole, with one verb and one resource or path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RoleRight {
    /// The kind and name of the role, for example `ClusterRole "operator"` or `Role "shop/operator"`.
    pub role: String,
    /// The index of the rule in the role.
    pub rule: usize,
    /// The right. Its namespace is empty, because a role can be bound in several namespaces.
    pub right: Attributes,
}

impl Usage {
    /// Returns whether the roles allow all requests of the user, and grant no right that no request used.
    /// Returns false if no request used a role, for example if the user name is misspelled.
    pub fn is_exact(&self) -> bool {
        self.denied.is_empty() && self.unused.is_empty() && !self.used.is_empty() && self.omitted == 0
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, denied, unused, used, omitted } = self;
        write!(f, "roles of {user}: {} rights used", used.len())?;
        if !denied.is_empty() {
            write!(f, "\nrequests without a right:")?;
        }
        for (request, count) in denied {
            write!(f, "\n  {request} ({count} times)")?;
        }
        if !unused.is_empty() {
            write!(f, "\nrights without a request:")?;
        }
        for unused in unused {
            write!(f, "\n  {unused}")?;
        }
        if *omitted > 0 {
            write!(f, "\n{omitted} requests were not recorded, because the record was full")?;
        }
        Ok(())
    }
}

impl fmt::Display for RoleRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, rules[{}]: {}", self.role, self.rule, self.right)
    }
}

/// The bounded record of all users.
#[derive(Debug, Default)]
pub(crate) struct UsageLog {
    counts: BTreeMap<(String, Record), u64>,
    omitted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Record {
    Denied(Attributes),
    Used(RoleRight),
}

impl UsageLog {
    pub(crate) fn add(&mut self, user: &str, record: Record) {
        let key = (user.to_owned(), record);
        if self.counts.len() < MAX_RECORDS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        } else {
            self.omitted += 1;
        }
    }

    /// Compares the record of a user with the rights that its roles grant.
    pub(crate) fn usage(&self, user: &str, granted: BTreeSet<RoleRight>) -> Usage {
        let (mut denied, mut used) = (Vec::new(), BTreeSet::new());
        for ((_, record), count) in self.counts.iter().filter(|((name, _), _)| name == user) {
            match record {
                Record::Denied(request) => denied.push((request.clone(), *count)),
                Record::Used(right) => drop(used.insert(right.clone())),
            }
        }
        let unused = granted.into_iter().filter(|right| !used.contains(right)).collect();
        Usage { user: user.into(), denied, unused, used: used.into_iter().collect(), omitted: self.omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Attributes {
        Attributes::Path { verb: "get".into(), path: path.into() }
    }

    fn right(at: &str) -> RoleRight {
        RoleRight { role: "ClusterRole \"r\"".into(), rule: 0, right: path(at) }
    }

    #[test]
    fn usage_lists_denied_requests_and_unused_rights_of_one_user() {
        let mut log = UsageLog::default();
        log.add("ann", Record::Used(right("/a")));
        log.add("bob", Record::Denied(path("/b")));
        assert!(log.usage("ann", [right("/a")].into()).is_exact());
        assert!(!log.usage("bob", BTreeSet::new()).is_exact());
        assert!(!log.usage("nobody", BTreeSet::new()).is_exact());
        log.add("ann", Record::Denied(path("/b")));
        log.add("ann", Record::Denied(path("/b")));
        let usage = log.usage("ann", [right("/a"), right("/c")].into());
        assert_eq!(
            usage.to_string(),
            "roles of ann: 1 rights used\nrequests without a right:\n  get /b (2 times)\n\
             rights without a request:\n  ClusterRole \"r\", rules[0]: get /c"
        );
    }

    #[test]
    fn full_record_counts_omitted_requests() {
        let mut log = UsageLog::default();
        for number in 0..=MAX_RECORDS {
            log.add("ann", Record::Denied(path(&number.to_string())));
        }
        log.add("ann", Record::Denied(path("0")));
        assert_eq!((log.counts.len(), log.omitted), (MAX_RECORDS, 1));
        log.add("bob", Record::Used(right("/a")));
        assert!(!log.usage("bob", BTreeSet::new()).is_exact());
    }
}
