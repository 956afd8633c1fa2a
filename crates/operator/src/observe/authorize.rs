//! Authentication and authorization of requests for the pages, like `WithAuthenticationAndAuthorization` of
//! controller-runtime: a TokenReview returns the user of a token, and a SubjectAccessReview decides about
//! the path.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube_client::{Api, Client, Error};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::{log_throttle::LogThrottle, redact::redact, write::requests};

/// The time for which a decision is reused.
const DECISION_LIFETIME: Duration = Duration::from_secs(10);

/// Maximum number of cached decisions.
const MAX_DECISIONS: usize = 1024;

/// Time limit for the two reviews of a request. By default, a scrape of Prometheus times out after 10 s.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// Requires a token for each request, also for unknown paths. Sends the reviews with `client`.
pub(crate) fn require_authorization(router: Router, client: Client) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(Authorizer::new(client)), authorize))
}

/// Decides about requests, and caches the decisions.
struct Authorizer {
    client: Client,
    hashers: [RandomState; 2],
    decisions: Mutex<DecisionCache>,
    throttle: Mutex<LogThrottle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allowed,
    /// The token is missing or invalid.
    Unauthenticated,
    /// The user lacks the permission.
    Forbidden,
}

/// The cause of a failed review. The texts never contain the token.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("cannot create a TokenReview: {0}")]
    Token(String),
    #[error("cannot create a SubjectAccessReview: {0}")]
    Access(String),
    #[error("the server did not respond to the reviews within {REVIEW_TIMEOUT:?}")]
    TimedOut,
}

async fn authorize(State(authorizer): State<Arc<Authorizer>>, request: Request, next: Next) -> Response {
    let decision = match bearer_token(request.headers()) {
        Some(token) => authorizer.decide(token, request.uri().path()).await,
        None => Ok(Decision::Unauthenticated),
    };
    match decision {
        Ok(Decision::Allowed) => next.run(request).await,
        Ok(Decision::Unauthenticated) => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, "a valid bearer token is required\n").into_response()
        }
        Ok(Decision::Forbidden) => {
            let text = "the user of the token is not allowed to get this path\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(error) => {
            authorizer.log(&error);
            let text = "the token cannot be checked; see the log of this process\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Returns the token in the header `Authorization: Bearer TOKEN`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Authorizer {
    fn new(client: Client) -> Self {
        Self {
            client,
            hashers: [RandomState::new(), RandomState::new()],
            decisions: Mutex::default(),
            throttle: Mutex::default(),
        }
    }

    /// Returns the cached decision about this token and path. Otherwise requests a new decision.
    async fn decide(&self, token: &str, path: &str) -> Result<Decision, ReviewError> {
        let key = self.hashers.each_ref().map(|hasher| hasher.hash_one((token, path)));
        if let Some(decision) = self.decisions.lock().get(key, Instant::now()) {
            return Ok(decision);
        }
        let decision =
            timeout(REVIEW_TIMEOUT, self.review(token, path)).await.unwrap_or(Err(ReviewError::TimedOut))?;
        self.decisions.lock().insert(key, decision, Instant::now());
        Ok(decision)
    }

    async fn review(&self, token: &str, path: &str) -> Result<Decision, ReviewError> {
        let Some(user) = self.review_token(token).await? else { return Ok(Decision::Unauthenticated) };
        let is_allowed = self.review_access(user, path).await?;
        Ok(if is_allowed { Decision::Allowed } else { Decision::Forbidden })
    }

    /// Returns the user of the token, or `None` if the token is invalid.
    async fn review_token(&self, token: &str) -> Result<Option<UserInfo>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let review = requests::create_review(&Api::all(self.client.clone()), &review)
            .await
            .map_err(|error| ReviewError::Token(without_message(&error)))?;
        match review.status {
            Some(TokenReviewStatus { authenticated: Some(true), user: Some(user), .. }) => Ok(Some(user)),
            Some(TokenReviewStatus { authenticated: Some(true), user: None, .. }) => {
                Err(ReviewError::Token("the response contains no user".to_owned()))
            }
            Some(_) => Ok(None),
            None => Err(ReviewError::Token("the response contains no status".to_owned())),
        }
    }

    async fn review_access(&self, user: UserInfo, path: &str) -> Result<bool, ReviewError> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(attributes),
                resource_attributes: None,
            },
            ..Default::default()
        };
        let review = requests::create_review(&Api::all(self.client.clone()), &review)
            .await
            .map_err(|error| ReviewError::Access(redact(&error)))?;
        match review.status {
            Some(status) => Ok(status.allowed && status.denied != Some(true)),
            None => Err(ReviewError::Access("the response contains no status".to_owned())),
        }
    }

    /// Logs at most one warning per interval, because each request may fail.
    fn log(&self, error: &ReviewError) {
        if let Some(suppressed) = self.throttle.lock().allow(Instant::now()) {
            tracing::warn!(%error, suppressed, "cannot authorize a request for a page; responded with 503");
        }
    }
}

/// Returns the text of an error without the message of the server, which may contain the token.
fn without_message(error: &Error) -> String {
    match error {
        Error::Api(status) => {
            format!("the server responded with {} {}", status.code, status.reason).trim_end().to_owned()
        }
        other => redact(other),
    }
}

/// The hash of a token and a path. Two hashes with different keys make a collision negligible.
type DecisionKey = [u64; 2];

/// Recent decisions. The cache contains hashes, and never a token.
#[derive(Default)]
struct DecisionCache(HashMap<DecisionKey, (Decision, Instant)>);

impl DecisionCache {
    fn get(&self, key: DecisionKey, now: Instant) -> Option<Decision> {
        self.0.get(&key).filter(|(_, expiry)| now < *expiry).map(|(decision, _)| *decision)
    }

    /// Inserts a decision. A full cache loses its oldest decision.
    fn insert(&mut self, key: DecisionKey, decision: Decision, now: Instant) {
        self.0.retain(|_, (_, expiry)| now < *expiry);
        if self.0.len() >= MAX_DECISIONS
            && !self.0.contains_key(&key)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (_, expiry))| *expiry).map(|(key, _)| *key)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(key, (decision, now + DECISION_LIFETIME));
    }
}

#[cfg(test)]
mod tests {
    use kube_client::core::Status;

    use super::*;

    #[test]
    fn cache_is_bounded_and_loses_old_decisions() {
        let (mut cache, start) = (DecisionCache::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        cache.insert([0, 0], Decision::Allowed, at(0));
        for number in 1..2 * MAX_DECISIONS as u64 {
            cache.insert([number, 0], Decision::Forbidden, at(1));
        }
        assert_eq!(cache.0.len(), MAX_DECISIONS);
        assert_eq!(cache.get([0, 0], at(1)), None, "the oldest decision is removed");
        cache.insert([0, 0], Decision::Unauthenticated, at(5));
        assert_eq!(cache.get([0, 0], at(14)), Some(Decision::Unauthenticated));
        assert_eq!(cache.get([0, 0], at(15)), None);
        cache.insert([1, 1], Decision::Allowed, at(11));
        assert_eq!(cache.0.len(), 2, "expired decisions are removed");
    }

    #[test]
    fn only_a_bearer_header_contains_a_token() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        for invalid in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(token(invalid), None, "{invalid:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn error_of_a_token_review_does_not_contain_the_message() {
        let status = Status::failure("TokenReview is invalid: spec.token: \"hunter2\"", "Invalid");
        let error = Error::Api(Box::new(status.with_code(422)));
        assert_eq!(without_message(&error), "the server responded with 422 Invalid");
    }
}
