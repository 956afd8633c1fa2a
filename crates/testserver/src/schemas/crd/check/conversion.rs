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
    let client = conversion.pointer("/webhook/clientConfig").filter(|client| client.is_object());
    let reviews = conversion.get("webhook").into_iter().flat_map(|w| texts(w, "conversionReviewVersions"));
    let reviews: Vec<&str> = reviews.collect();
    let (client_field, reviews_field) =
        ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    if strategy == "Webhook" {
        let given =
            |key: &str| client.is_some_and(|client| client.get(key).is_some_and(|value| !value.is_null()));
        match client {
            None => causes.push(Cause::required(client_field, "required when strategy is set to Webhook")),
            Some(_) if given("url") == given("service") => {
                causes.push(Cause::required(client_field, "exactly one of url or service is required"));
            }
            Some(_) => {}
        }
        if reviews.is_empty() {
            causes.push(Cause::required(reviews_field, ""));
        } else if !reviews.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
            let shown = Value::from(reviews).to_string();
            causes.push(Cause::invalid(reviews_field, &shown, "must include at least one of v1, v1beta1"));
        }
        return causes;
    }
    let text = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        causes.push(Cause::forbidden(client_field, text));
    }
    if !reviews.is_empty() {
        causes.push(Cause::forbidden(reviews_field, text));
    }
    causes
}
