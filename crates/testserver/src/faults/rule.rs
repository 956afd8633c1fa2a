//! Faults on demand: a match that picks requests and what to do to them instead of, or during, the answer.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::journal::{About, Verb};
use crate::status::Status;

/// Picks requests; each part that is set must agree.
#[derive(Clone, Debug, Default)]
pub struct Match {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Only this resource (plural, such as `pods`).
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Only this namespace in the path.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only this object's name in the path.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(crate) fn picks(&self, about: &About) -> bool {
        self.verb.is_none_or(|verb| verb == about.verb)
            && self.resource.as_ref().is_none_or(|plural| *plural == about.resource)
            && self.namespace.as_ref().is_none_or(|n| Some(n) == about.namespace.as_ref())
            && self.name.as_ref().is_none_or(|n| Some(n) == about.name.as_ref())
    }
}

/// After how much of an answer's body the connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// After so many bytes of the body, in the middle of a frame if need be.
    Bytes(usize),
    /// After so many whole frames of a watch. (Of a list: pieces of about 64 KiB.)
    Frames(usize),
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is refused with this failure.
    Status(Status),
    /// The connection breaks before any header.
    Reset,
    /// It is accepted and never answered.
    Hang,
    /// It is answered with these bytes.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The header `Content-Type`.
        content_type: String,
        /// The body.
        body: Bytes,
    },
    /// It is refused as the real server refuses a user without rights.
    Forbidden {
        /// The user's name in the message.
        user: String,
    },
    /// The answer breaks on the way, after its headers.
    Cut(Cut),
    /// A watch is accepted, says nothing and ends when its time is over. Other requests are not touched.
    Silence,
}

impl Fault {
    /// A refusal by code and reason; `retry_after` in seconds.
    pub fn status(code: u16, reason: &str, retry_after: Option<u32>) -> Self {
        let status = Status::new(code, reason, format!("injected failure: {reason}"));
        Self::Status(match retry_after {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        })
    }

    /// A 200 with these bytes as JSON.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::Raw { status: 200, content_type: "application/json".into(), body: body.into() }
    }
}

#[derive(Debug)]
struct Rule {
    number: u64,
    matches: Match,
    fault: Fault,
    once: bool,
}

#[derive(Debug, Default)]
struct Rules {
    last: u64,
    rules: Vec<Rule>,
}

/// The faults that wait for their requests. The oldest that matches a request is the one that happens to it.
///
/// Cloning gives another handle to the same faults. The list is as long as what was asked for and not yet used.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Rules>>);

impl Faults {
    /// The next request that `matches` picks has this fault, and only that one.
    pub fn next(&self, matches: Match, fault: Fault) {
        self.add(matches, fault, true);
    }

    /// The next `count` requests that `matches` picks have this fault.
    pub fn times(&self, count: usize, matches: &Match, fault: &Fault) {
        for _ in 0..count {
            self.next(matches.clone(), fault.clone());
        }
    }

    /// Every request that `matches` picks has this fault, until the guard is dropped.
    pub fn always(&self, matches: Match, fault: Fault) -> FaultGuard {
        FaultGuard { number: self.add(matches, fault, false), faults: self.clone() }
    }

    /// Forgets all faults.
    pub fn clear(&self) {
        self.0.lock().rules.clear();
    }

    /// How many faults still wait; those of guards count.
    pub fn waiting(&self) -> usize {
        self.0.lock().rules.len()
    }

    fn add(&self, matches: Match, fault: Fault, once: bool) -> u64 {
        let mut rules = self.0.lock();
        rules.last += 1;
        let number = rules.last;
        rules.rules.push(Rule { number, matches, fault, once });
        number
    }

    pub(crate) fn take(&self, about: &About) -> Option<Fault> {
        let mut rules = self.0.lock();
        let applies = |rule: &Rule| {
            let for_watches = matches!(rule.fault, Fault::Silence);
            rule.matches.picks(about) && (!for_watches || about.verb == Verb::Watch)
        };
        let at = rules.rules.iter().position(applies)?;
        let rule = rules.rules.get(at)?;
        if rule.once { Some(rules.rules.remove(at).fault) } else { Some(rule.fault.clone()) }
    }
}

/// Keeps a fault in force; dropping it ends the fault.
#[derive(Debug)]
#[must_use = "the fault ends when the guard is dropped"]
pub struct FaultGuard {
    number: u64,
    faults: Faults,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        self.faults.0.lock().rules.retain(|rule| rule.number != self.number);
    }
}
