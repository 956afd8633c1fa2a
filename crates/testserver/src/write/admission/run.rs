//! Calls the webhooks of a write in the order of kube-apiserver.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::Value;

use crate::encoding::scale::Scale;
use crate::read::conversion;
use crate::status::Status;
use crate::wire::object::Object;
use crate::write::admission::Admission;
use crate::write::admission::hook::Hook;
use crate::write::admission::review::Response;
use crate::write::json_patch::JsonPatch;

const TIMEOUT_SECONDS: u64 = 10;

impl Admission<'_> {
    /// Calls both kinds of webhooks for an object that the server does not store, such as a Binding.
    ///
    /// # Errors
    /// See [`Admission::mutate`].
    pub(crate) async fn review_all(&self, object: Object) -> Result<Object, Status> {
        let object = self.mutate(Some(object), None).await?.unwrap_or_default();
        self.validate(Some(&object), None).await?;
        Ok(object)
    }

    /// Calls the mutating webhooks. Returns the changed object, which is not valid yet.
    ///
    /// # Errors
    /// Returns the rejection of a webhook, or 500 if a call fails.
    pub(crate) async fn mutate(
        &self,
        mut object: Option<Object>,
        old: Option<&Object>,
    ) -> Result<Option<Object>, Status> {
        let (mut reinvocable, mut again) = (Vec::new(), BTreeSet::new());
        for is_first in [true, false] {
            // A webhook that the first round did not call is not called in the second round.
            let selected: Vec<usize> =
                if is_first { (0..self.mutating.len()).collect() } else { again.iter().copied().collect() };
            for index in selected {
                let hook = &self.mutating[index];
                let Some(response) = self.call(hook, object.as_ref(), old, true).await? else { continue };
                if let Some(patch) = response.patch {
                    let Some(before) = object else { return Err(unmodifiable(hook)) };
                    let after = self.patched(hook, &before, &patch).await?;
                    if after != before {
                        again.extend(reinvocable.drain(..));
                    }
                    object = Some(after);
                }
                if hook.text("reinvocationPolicy") == "IfNeeded" {
                    reinvocable.push(index);
                }
            }
        }
        Ok(object)
    }

    /// Calls the validating webhooks.
    ///
    /// # Errors
    /// Returns the first rejection, or 500 if a call fails.
    pub(crate) async fn validate(&self, object: Option<&Object>, old: Option<&Object>) -> Result<(), Status> {
        let calls = self.validating.iter().map(|hook| self.call(hook, object, old, false));
        join_all(calls).await.into_iter().try_for_each(|response| response.map(drop))
    }

    /// Calls a webhook. Returns `None` if the webhook does not select the write, or if its failure is
    /// ignored.
    async fn call(
        &self,
        hook: &Hook,
        object: Option<&Object>,
        old: Option<&Object>,
        mutating: bool,
    ) -> Result<Option<Response>, Status> {
        let review = self.review(hook, object, old).await?;
        if !hook.selects(self, &review)? {
            return Ok(None);
        }
        let name = hook.text("name");
        let supports_dry_run = matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun");
        if self.caller.dry_run && !supports_dry_run {
            return Err(Status::bad_request(format!("admission webhook {name:?} does not support dry run")));
        }
        let uid = review["request"]["uid"].clone();
        let config = hook.spec.get("clientConfig").unwrap_or(&Value::Null);
        let seconds = hook.spec.get("timeoutSeconds").and_then(Value::as_u64);
        let called =
            self.shared.webhooks.call(name, config, seconds.unwrap_or(TIMEOUT_SECONDS), review).await;
        let response = called
            .map_err(|reason| format!("failed to call webhook: {reason}"))
            .and_then(|review| Response::read(review, &uid, mutating));
        match response {
            Ok(response) => {
                self.caller.warnings.add(response.warnings.iter().cloned());
                if response.allowed { Ok(Some(response)) } else { Err(denial(name, &response.status)) }
            }
            Err(reason) if hook.text("failurePolicy") == "Ignore" => {
                tracing::warn!(name, reason, "a webhook failed; its failure policy ignores this");
                Ok(None)
            }
            Err(reason) => Err(Status::internal_error(&format!("failed calling webhook {name:?}: {reason}"))),
        }
    }

    async fn patched(&self, hook: &Hook, object: &Object, patch: &JsonPatch) -> Result<Object, Status> {
        let patched = patch
            .apply(self.shown(hook, Some(object)).await?)
            .map_err(|error| Status::internal_error(error.message()))?;
        let Value::Object(patched) = patched else {
            return Err(Status::internal_error("the patch of a webhook removed the object"));
        };
        if let Some(paths) = self.scale() {
            return Ok(Scale::of(object, paths).put_into(object, &patched, paths));
        }
        let kind = self.target.kind();
        if hook.version == kind.version {
            return Ok(patched);
        }
        conversion::to_version(self.shared, kind, patched, &kind.version).await
    }
}

fn unmodifiable(hook: &Hook) -> Status {
    let reason = "attempted to modify the object, which is not supported for this operation";
    Status::internal_error(&format!("admission webhook {:?} {reason}", hook.text("name")))
}

/// Returns the rejection of a webhook. `status` is the status in its response.
fn denial(name: &str, status: &Value) -> Status {
    let text = |key: &str| status.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let reason = match text("message").or_else(|| text("reason")) {
        Some(reason) => format!(": {reason}"),
        None => " without explanation".into(),
    };
    Status::of_webhook(status, format!("admission webhook {name:?} denied the request{reason}"))
}
