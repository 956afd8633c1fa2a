//! Decodes a `Status`, also from servers other than kube-apiserver.

use kube_client::core::{
    Status,
    response::{StatusCause, StatusDetails},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The maximum size of a `Status`, which usually has a few hundred bytes. The values of decoded JSON can
/// need twenty times the memory of the JSON.
pub(crate) const MAX_STATUS_BYTES: usize = 64 << 10;

/// Decodes each field separately. A field that is null or has another type counts as missing, because it
/// must not hide the code and the reason. Returns `None` if the bytes are not a JSON object, or are more
/// than [`MAX_STATUS_BYTES`].
pub(crate) fn read(bytes: &[u8]) -> Option<Status> {
    if bytes.len() > MAX_STATUS_BYTES {
        return None;
    }
    let mut fields: Fields = serde_json::from_slice(bytes).ok()?;
    Some(Status {
        status: take(&mut fields, "status"),
        code: take(&mut fields, "code"),
        message: take(&mut fields, "message"),
        metadata: take(&mut fields, "metadata"),
        reason: take(&mut fields, "reason"),
        details: take::<Option<Fields>>(&mut fields, "details").map(details),
    })
}

fn details(mut fields: Fields) -> StatusDetails {
    let causes: Vec<Fields> = take(&mut fields, "causes");
    StatusDetails {
        name: take(&mut fields, "name"),
        group: take(&mut fields, "group"),
        kind: take(&mut fields, "kind"),
        uid: take(&mut fields, "uid"),
        causes: causes.into_iter().map(cause).collect(),
        retry_after_seconds: take(&mut fields, "retryAfterSeconds"),
    }
}

fn cause(mut fields: Fields) -> StatusCause {
    StatusCause {
        reason: take(&mut fields, "reason"),
        message: take(&mut fields, "message"),
        field: take(&mut fields, "field"),
    }
}

fn take<T: DeserializeOwned + Default>(fields: &mut Fields, name: &str) -> T {
    fields.remove(name).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_status_is_decoded_like_kube() {
        let text = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":504,"reason":"Timeout","message":"m",
            "metadata":{"continue":"t"},"details":{"name":"n","group":"g","kind":"k","uid":"u","retryAfterSeconds":3,
            "causes":[{"reason":"ResourceVersionTooLarge","message":"Too large","field":"f"}]}}"#;
        assert_eq!(read(text), Some(serde_json::from_slice(text).unwrap()));
    }

    #[test]
    fn field_of_another_type_counts_as_missing() {
        let text = br#"{"status":"failed","code":410,"reason":"Expired","message":null,"metadata":[],
            "details":{"name":7,"retryAfterSeconds":-1,"causes":[{"reason":null,"message":"m"}]}}"#;
        let status = read(text).unwrap();
        assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (410, "Expired", ""));
        let details = status.details.unwrap();
        assert_eq!((details.retry_after_seconds, details.causes[0].message.as_str()), (0, "m"));
    }

    #[test]
    fn non_object_is_not_status() {
        for text in ["", "7", "null", "[]", "<html>", "{"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn status_above_limit_is_not_decoded() {
        let json = r#"{"code":500,"reason":"InternalError"}"#;
        let status = |bytes: usize| json.to_owned() + &" ".repeat(bytes - json.len());
        assert_eq!(read(status(MAX_STATUS_BYTES).as_bytes()).map(|status| status.code), Some(500));
        assert_eq!(read(status(MAX_STATUS_BYTES + 1).as_bytes()), None);
    }
}
