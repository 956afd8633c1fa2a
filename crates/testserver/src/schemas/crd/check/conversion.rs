//! Validation of the conversion of a CRD.

use serde_json::Value;

use crate::schemas::crd::schema::node::{text, texts};
use crate::status::Cause;

pub(super) fn check(spec: &Value) -> Vec<Cause> {
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => causes.push(Cause::unsupported("spec.conversion.strategy", other, &["None", "Webhook"])),
    }
    let given = |pointer: &str| conversion.pointer(pointer).is_some_and(|value| !value.is_null());
    let (client_field, reviews_field) =
        ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    let reviews: Vec<&str> =
        conversion.get("webhook").into_iter().flat_map(|w| texts(w, "conversionReviewVersions")).collect();
    let client = "/webhook/clientConfig";
    if strategy != "Webhook" {
        let text = "should not be set when strategy is not set to Webhook";
        let set = [(given(client), client_field), (!reviews.is_empty(), reviews_field)];
        causes.extend(set.iter().filter(|(is, _)| *is).map(|(_, field)| Cause::forbidden(field, text)));
        return causes;
    }
    if given(&format!("{client}/url")) == given(&format!("{client}/service")) {
        causes.push(Cause::required(client_field, "exactly one of url or service is required"));
    }
    if reviews.is_empty() {
        causes.push(Cause::required(reviews_field, ""));
    } else if !reviews.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        let shown = Value::from(reviews).to_string();
        causes.push(Cause::invalid(reviews_field, &shown, "must include at least one of v1, v1beta1"));
    }
    causes
}
