//! Tests of the texts and classes of errors.

use super::*;
use kube_client::core::response::{StatusCause, StatusDetails};

fn class(code: u16, reason: &str) -> ErrorClass {
    let status = Status { code, reason: reason.into(), ..Status::default() };
    class_of(&status, false)
}

fn timeout(message: &str, cause: Option<(&str, &str)>) -> ErrorClass {
    let causes = cause
        .map(|(reason, message)| StatusCause {
            reason: reason.into(),
            message: message.into(),
            field: String::new(),
        })
        .into_iter()
        .collect();
    let details = StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes,
        retry_after_seconds: 1,
    };
    let status = Status {
        code: 504,
        reason: "Timeout".into(),
        message: message.into(),
        details: Some(details),
        ..Status::default()
    };
    class_of(&status, true)
}

#[test]
fn status_message_is_shown_except_for_secrets() {
    let shown = |url: &str, code, reason: &str, message: &str| {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        let target = Target { verb: Verb::List, url: url.to_owned() };
        ListWatchError::status(target, Box::new(status), None).to_string()
    };
    let pods = "/api/v1/namespaces/shop/pods?limit=500";
    assert_eq!(
        shown(pods, 403, "Forbidden", "pods is forbidden\n[+] all is well\x1b[2J"),
        r"LIST /api/v1/namespaces/shop/pods?limit=500: server responded with 403 Forbidden: pods is forbidden\n[+] all is well\u{1b}[2J"
    );
    let webhook = shown("/api/v1/secrets", 500, "InternalError", "conversion webhook failed: hunter2");
    assert_eq!(webhook, "LIST /api/v1/secrets: server responded with 500 InternalError: secrets");
    assert_eq!(
        shown("/apis/example.com/v1/sites", 404, "", "Not Found"),
        "LIST /apis/example.com/v1/sites: server responded with 404 Not Found; the server does not have this resource; install its CRD with this version, or check the group and version"
    );
    assert_eq!(
        shown("/api/v1/pods", 401, "Unauthorized", "Unauthorized"),
        "LIST /api/v1/pods: server responded with 401 Unauthorized; check the credentials of this program"
    );
}

#[test]
fn statuses_are_classified_by_code_and_reason() {
    assert_eq!(class(410, "Expired"), ErrorClass::Expired);
    assert_eq!(class(410, "Gone"), ErrorClass::Expired);
    assert_eq!(class(0, "Gone"), ErrorClass::Expired);
    assert_eq!(class(429, "TooManyRequests"), ErrorClass::Overloaded);
    assert_eq!(class(401, ""), ErrorClass::Unauthorized);
    assert_eq!(class(403, ""), ErrorClass::Forbidden);
    assert_eq!(class(404, ""), ErrorClass::NotFound);
    assert_eq!(class(422, "Invalid"), ErrorClass::Unsupported);
    assert_eq!(class(400, "BadRequest"), ErrorClass::Unsupported);
    assert_eq!(class(414, ""), ErrorClass::Unsupported);
    assert_eq!(class(431, ""), ErrorClass::Unsupported);
    assert_eq!(class(500, ""), ErrorClass::Broken);
}

#[test]
fn too_large_version_is_detected_by_cause_or_text() {
    let text = "Too large resource version: 9, current: 5";
    assert_eq!(timeout("", Some(("ResourceVersionTooLarge", ""))), ErrorClass::TooLarge);
    assert_eq!(timeout("", Some(("", text))), ErrorClass::TooLarge);
    assert_eq!(timeout(text, None), ErrorClass::TooLarge);
    assert_eq!(timeout("the request timed out", None), ErrorClass::Broken);
    let status = Status { code: 504, reason: "Timeout".into(), message: text.into(), ..Status::default() };
    let error = ListWatchError::list_function(kube_client::Error::Api(Box::new(status)));
    assert_eq!(error.class(), ErrorClass::TooLarge, "the error of a list function is redacted");
}

#[test]
fn retry_after_means_overloaded_only_for_429_and_503() {
    let with_retry_after =
        |code| class_of(&Status { code, reason: String::new(), ..Status::default() }, true);
    assert_eq!([429, 503].map(with_retry_after), [ErrorClass::Overloaded; 2]);
    assert_eq!([500, 502, 504].map(with_retry_after), [ErrorClass::Broken; 3]);
    assert_eq!(class(503, ""), ErrorClass::Broken);
}
