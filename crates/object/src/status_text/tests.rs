//! Tests of `StatusText` with messages of kube-apiserver.

use kube_core::{
    Status,
    response::{StatusCause, StatusDetails},
};

use super::*;

/// Must not appear for sensitive and unknown kinds.
const CONTENTS: &str = "hunter2";

fn status(code: u16, reason: &str, kind: &str, message: &str, fields: &[&str]) -> Status {
    let cause = |field: &&str| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: \"{CONTENTS}\""),
        field: (*field).to_owned(),
    };
    let details = StatusDetails {
        name: "a".to_owned(),
        group: String::new(),
        kind: kind.to_owned(),
        uid: String::new(),
        causes: fields.iter().map(cause).collect(),
        retry_after_seconds: 0,
    };
    Status::failure(message, reason).with_code(code).with_details(details)
}

fn text(status: &Status) -> String {
    StatusText(status).to_string()
}

/// Returns the text of a status without details, as in webhook failures and decode errors.
fn text_without_details(code: u16, reason: &str, message: &str) -> String {
    text(&Status { details: None, ..status(code, reason, "", message, &[]) })
}

#[test]
fn message_is_included_for_ordinary_kinds() {
    let message =
        "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"-x\": must start with a letter";
    assert_eq!(
        text(&status(422, "Invalid", "ConfigMap", message, &["metadata.labels"])),
        format!("422 Invalid: {message}")
    );
    let message = "configmaps \"a\" is forbidden: User \"operator\" cannot patch resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    assert_eq!(
        text(&status(403, "Forbidden", "configmaps", message, &[])),
        format!("403 Forbidden: {message}")
    );
    assert_eq!(text(&status(404, "NotFound", "sites", "", &[])), "404 NotFound");
}

#[test]
fn message_is_replaced_for_sensitive_and_unknown_kinds() {
    mark_sensitive(["Password", "passwords"]);
    let message = format!("Invalid value: \"{CONTENTS}\"");
    for kind in ["Secret", "secrets", "Password", "passwords"] {
        assert_eq!(
            text(&status(422, "Invalid", kind, &message, &["data.password", "", "metadata.name"])),
            format!("422 Invalid: {kind} a (data.password, metadata.name)")
        );
    }
    assert_eq!(text_without_details(400, "BadRequest", &message), "400 BadRequest");
    assert_eq!(text(&status(422, "Invalid", "", &message, &["spec.x"])), "422 Invalid (spec.x)");
}

#[test]
fn text_of_secret_contains_permission_quota_and_terminating_namespace() {
    for reason in [
        "User \"system:serviceaccount:shop:operator\" cannot create resource \"secrets\" in API group \"\" in the namespace \"shop\"",
        "exceeded quota: objects, requested: secrets=1, used: secrets=10, limited: secrets=10",
        "unable to create new content in namespace shop because it is being terminated",
    ] {
        let message = format!("secrets \"a\" is forbidden: {reason}");
        assert_eq!(
            text(&status(403, "Forbidden", "secrets", &message, &[])),
            format!("403 Forbidden: secrets a: {reason}")
        );
    }
    let policy =
        format!("secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: {CONTENTS}");
    assert_eq!(text(&status(422, "Invalid", "secrets", &policy, &[])), "422 Invalid: secrets a");
}

#[test]
fn webhook_is_named_without_its_message() {
    let denied = format!("admission webhook \"deny.example.com\" denied the request: {CONTENTS} is short");
    let shown = "admission webhook \"deny.example.com\" denied the request";
    assert_eq!(text_without_details(403, "Forbidden", &denied), format!("403 Forbidden: {shown}"));
    // Old versions of controller-runtime set the reason to the text of the webhook.
    let by_webhook = status(403, CONTENTS, "Secret", &denied, &[CONTENTS]);
    assert_eq!(text(&by_webhook), format!("403 Forbidden: {shown}"));
    let nested = format!("{denied} is forbidden: exceeded quota: {CONTENTS}");
    assert_eq!(text_without_details(403, "Forbidden", &nested), format!("403 Forbidden: {shown}"));
    for cause in [
        "Post \"https://hook.shop.svc:443/?timeout=10s\": dial tcp 10.0.0.9:443: connect: connection refused",
        "Post \"https://hook.shop.svc:443/?timeout=10s\": context deadline exceeded",
        "service \"hook\" not found",
    ] {
        let failed = format!("failed calling webhook \"deny.example.com\": failed to call webhook: {cause}");
        let message = format!("Internal error occurred: {failed}");
        assert_eq!(
            text_without_details(500, "InternalError", &message),
            format!("500 InternalError: {failed}")
        );
    }
    for cause in [
        format!("an error on the server (\"{CONTENTS}\") has prevented the request from succeeding"),
        format!("failed to call webhook: Post \"https://hook\": malformed HTTP response \"{CONTENTS}\""),
    ] {
        let message =
            format!("Internal error occurred: failed calling webhook \"deny.example.com\": {cause}");
        assert_eq!(
            text_without_details(500, "InternalError", &message),
            "500 InternalError: failed calling webhook \"deny.example.com\""
        );
    }
}

#[test]
fn sentences_within_a_value_are_ignored() {
    for inner in [
        "secrets \"a\" is forbidden: exceeded quota: ",
        "failed calling webhook \"w\"",
        "admission webhook \"w\" denied the request",
    ] {
        let message = format!("Secret \"a\" is invalid: Invalid value: {inner}{CONTENTS}");
        assert_eq!(text(&status(422, "Invalid", "Secret", &message, &[])), "422 Invalid: Secret a");
    }
}

#[test]
fn requested_sensitive_kind_replaces_the_kind_of_the_response() {
    let mut response = status(403, "Forbidden", "VaultBinding", CONTENTS, &[]);
    set_requested_kind(&mut response, "secrets");
    assert_eq!(text(&response), "403 Forbidden: secrets a");
    let mut response = status(409, "Conflict", "Site", "another version", &[]);
    set_requested_kind(&mut response, "sites");
    assert_eq!(text(&response), "409 Conflict: another version");
}

#[test]
fn truncated_webhook_message_does_not_panic() {
    for message in [
        "admission webhook \"",
        "failed calling webhook \"",
        "failed calling webhook \"a",
        "\" denied the request",
    ] {
        assert_eq!(text_without_details(500, "InternalError", message), "500 InternalError");
    }
}

#[test]
fn response_that_is_not_a_status_has_the_text_of_its_code() {
    for reason in ["", UNPARSED_REASON] {
        assert_eq!(text_without_details(503, reason, CONTENTS), "503 Service Unavailable");
        assert_eq!(text_without_details(799, reason, CONTENTS), "799 without a reason");
    }
}

#[test]
fn text_is_one_bounded_line() {
    let long = text(&status(422, "Invalid", "Site", &"ä\n".repeat(10_000), &[]));
    assert_eq!(long.matches("\\n").count(), MAX_MESSAGE_CHARS / 2, "{long}");
    let long = text(&status(422, &"r".repeat(999), &"Secret".repeat(1000), "", &["spec"; 1000]));
    assert!(long.len() < 5 * MAX_NAME_CHARS + 100, "{long}");
}

#[test]
fn values_are_masked_except_names() {
    for (message, expected) in [
        ("no quotes", "no quotes"),
        ("Invalid value: \"hunter2\": too short", "Invalid value: \"…\": too short"),
        (r#"a "b \" hunter2" c "d"#, r#"a "…" c "…"#),
        (
            "User \"op\" cannot patch resource \"pods\" in API group \"\" in the namespace \"shop\"",
            "User \"op\" cannot patch resource \"pods\" in API group \"\" in the namespace \"shop\"",
        ),
    ] {
        assert_eq!(masked(message), expected);
    }
}
