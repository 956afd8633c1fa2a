//! Validation of the conversion of a CRD.

use serde_json::Value;

use crate::schemas::crd::schema::node::{list, text};
use crate::status::Cause;

pub(super) fn check(spec: &Value) -> Vec<Cause> {
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let given = |pointer: &str| conversion.pointer(pointer).is_some_and(|value| !value.is_null());
    let client = "spec.conversion.webhookClientConfig";
    match text(conversion, "strategy") {
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" if given("/webhook/clientConfig") => {
            causes.push(Cause::forbidden(client, "should not be set when strategy is not set to Webhook"));
        }
        "None" => {}
        "Webhook" => {
            if given("/webhook/clientConfig/url") == given("/webhook/clientConfig/service") {
                causes.push(Cause::required(client, "exactly one of url or service is required"));
            }
            let reviews = conversion.get("webhook").map_or(&[][..], |w| list(w, "conversionReviewVersions"));
            if !reviews.iter().any(|version| *version == "v1" || *version == "v1beta1") {
                let detail = "must include at least one of v1, v1beta1";
                let field = "spec.conversion.conversionReviewVersions";
                causes.push(match reviews {
                    [] => Cause::required(field, ""),
                    _ => Cause::invalid(field, &Value::from(reviews).to_string(), detail),
                });
            }
        }
        other => causes.push(Cause::unsupported("spec.conversion.strategy", other, &["None", "Webhook"])),
    }
    causes
}
