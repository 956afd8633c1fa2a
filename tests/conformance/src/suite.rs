//! Runs the checks: a few at a time, each under the same deadline.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use tokio::time::timeout;

use super::differences::Differences;
use super::place::Place;
use super::report::{Outcome, report};
use super::target::Target;
use super::topics::TOPICS;
use super::variant::Variant;

/// The deadline of a check. The slowest check waits a few seconds for the timeout of a watch.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The number of checks that run in parallel. Most checks wait for timers of the server, so many
/// parallel checks use little CPU.
const AT_ONCE: usize = 32;

/// The variable that selects checks by a part of their name.
const CHOICE: &str = "KUBE_INFORMER_CHECKS";

/// A check of one sentence.
pub struct Check {
    /// The guarantee of the server.
    pub sentence: &'static str,
    /// The case that is checked.
    pub name: &'static str,
    /// The variants of a server that satisfy the sentence.
    pub(super) on: fn(Variant) -> bool,
    pub(super) run: fn(Place) -> BoxFuture<'static, Result<()>>,
}

/// All checks, in reading order.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    TOPICS.iter().copied().flatten().copied().flatten()
}

/// Returns the checks for this variant.
fn on(variant: Variant) -> impl Iterator<Item = &'static Check> {
    checks().filter(move |check| (check.on)(variant))
}

/// Runs the checks against `target`, prints each result, and fails if a check failed.
///
/// The variable `KUBE_INFORMER_CHECKS` selects checks by a part of their name.
///
/// # Errors
///
/// Fails with the failures of all checks, or if the variable selects no check.
///
/// # Cancel safety
///
/// If the future is dropped, the checks stop, and their namespaces remain on the server.
pub async fn run(target: Target) -> Result<()> {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let chosen: Vec<&Check> = on(target.variant).filter(|check| check.name.contains(&choice)).collect();
    ensure!(!chosen.is_empty(), "{CHOICE} is {choice:?}, and no check has this in its name");
    let (name, differences) = (target.name, target.differences.clone());
    let outcomes = outcomes(target, &chosen).await;
    report(name, &expected(outcomes, &differences))
}

/// Runs all checks against `target` and returns the names of the failed checks, without output.
///
/// # Cancel safety
///
/// See [`run`].
pub async fn failing(target: Target) -> Vec<&'static str> {
    let chosen: Vec<&Check> = on(target.variant).collect();
    let outcomes = outcomes(target, &chosen).await;
    outcomes.iter().filter(|outcome| outcome.result.is_err()).map(|outcome| outcome.check.name).collect()
}

/// Replaces the failures of checks that are known to differ. Such a check fails if it passes.
fn expected<'a>(outcomes: Vec<Outcome<'a>>, differences: &Differences) -> Vec<Outcome<'a>> {
    let expected = |Outcome { check, result }: Outcome<'a>| {
        let result = match (differences.get(check.name), result) {
            (Some(_), Err(_)) => Ok(()),
            (Some(difference), Ok(())) => Err(anyhow!("passes, but is listed as a difference: {difference}")),
            (None, result) => result,
        };
        Outcome { check, result }
    };
    outcomes.into_iter().map(expected).collect()
}

async fn outcomes<'a>(target: Target, chosen: &[&'a Check]) -> Vec<Outcome<'a>> {
    let target = Arc::new(target);
    let running = chosen.iter().enumerate().map(|(place, &check)| {
        let target = Arc::clone(&target);
        async move { (place, Outcome { check, result: run_one(check, target).await }) }
    });
    let mut outcomes: Vec<_> = stream::iter(running).buffer_unordered(AT_ONCE).collect().await;
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

async fn run_one(check: &Check, target: Arc<Target>) -> Result<()> {
    let work = async {
        let place = Place::new(target, namespace(check.name)).await.context("the check's namespace")?;
        (check.run)(place).await
    };
    within_deadline(work).await
}

async fn within_deadline(work: impl Future<Output = Result<()>>) -> Result<()> {
    timeout(DEADLINE, work).await.with_context(|| format!("still waiting after {DEADLINE:?}"))?
}

/// A name of a check as the name of a namespace.
fn namespace(check: &str) -> String {
    check.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Leaves room for the `-2` of a second namespace.
    const LONGEST: usize = 61;

    #[test]
    fn each_check_has_a_separate_namespace() {
        let names: Vec<String> = checks().map(|check| namespace(check.name)).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for name in names {
            assert!(name.len() <= LONGEST, "{name} is too long for a namespace");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
        }
    }

    #[test]
    fn sentences_are_complete_and_unique() {
        let mut sentences: Vec<&str> = checks().map(|check| check.sentence).collect();
        sentences.dedup();
        assert_eq!(sentences.iter().collect::<HashSet<_>>().len(), sentences.len());
        for sentence in sentences {
            assert!(sentence.ends_with('.') && sentence.starts_with(char::is_uppercase), "{sentence}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn check_without_end_fails_at_deadline() {
        let failure = within_deadline(std::future::pending()).await.map_err(|error| error.to_string());
        assert_eq!(failure, Err("still waiting after 20s".to_owned()));
    }
}
