//! Requests that run as another user.

use anyhow::{Result, ensure};
use http::Request;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{Api, JSON, Reply};

checks! {
    "An impersonated user has the groups of the headers and the default groups.":
        user_gets_default_groups, service_account_gets_its_groups, uid_and_extra_values_are_kept;
    "A request runs with the permissions of the impersonated user.":
        impersonated_user_has_its_own_permissions, impersonated_group_grants_permissions;
    "Headers without a user are rejected with 400.":
        parts_without_user_are_rejected;
    "Impersonation requires a permission for each part of the user.":
        user_without_permissions_cannot_impersonate, unknown_token_cannot_impersonate;
}

const MASTERS: &str = "system:masters";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Sends a GET, or a POST of the body, with these headers.
pub(super) async fn send(
    api: &Api,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Reply> {
    let method = if body.is_some() { http::Method::POST } else { http::Method::GET };
    let mut request = Request::builder().method(method).uri(path).header("content-type", JSON);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    api.request(request, body).await
}

async fn user_info(api: &Api, headers: &[(&str, &str)]) -> Result<Value> {
    let review = send(api, REVIEWS, headers, Some(&json!({}))).await?.expect(201)?;
    Ok(review["status"]["userInfo"].clone())
}

async fn user_gets_default_groups(place: Place) -> Result<()> {
    for (user, groups, expected) in [
        ("ann", &[][..], json!(["system:authenticated"])),
        ("ann", &["devs", "ops"], json!(["devs", "ops", "system:authenticated"])),
        ("ann", &["system:authenticated", "devs"], json!(["system:authenticated", "devs"])),
        ("ann", &["system:unauthenticated", MASTERS], json!(["system:unauthenticated", MASTERS])),
        ("system:anonymous", &[MASTERS], json!([MASTERS, "system:unauthenticated"])),
    ] {
        let mut headers = vec![("Impersonate-User", user)];
        headers.extend(groups.iter().map(|group| ("Impersonate-Group", *group)));
        let info = user_info(place.admin(), &headers).await?;
        ensure!(info == json!({"username": user, "groups": expected}), "{info}");
    }
    Ok(())
}

async fn service_account_gets_its_groups(place: Place) -> Result<()> {
    let account = ("Impersonate-User", "system:serviceaccount:shop:operator");
    let info = user_info(place.admin(), &[account]).await?;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]);
    ensure!(info["groups"] == groups, "{info}");
    let info = user_info(place.admin(), &[account, ("Impersonate-Group", "devs")]).await?;
    ensure!(info["groups"] == json!(["devs", "system:authenticated"]), "{info}");
    Ok(())
}

async fn uid_and_extra_values_are_kept(place: Place) -> Result<()> {
    let info = user_info(
        place.admin(),
        &[
            ("Impersonate-User", "ann"),
            ("Impersonate-Uid", "u1"),
            ("Impersonate-Extra-Example.com%2Fteam", "a"),
            ("Impersonate-Extra-Example.com%2Fteam", "b"),
        ],
    )
    .await?;
    ensure!(info["uid"] == "u1" && info["extra"] == json!({"example.com/team": ["a", "b"]}), "{info}");
    Ok(())
}

async fn impersonated_user_has_its_own_permissions(place: Place) -> Result<()> {
    let reply = send(place.admin(), &place.all(), &[("Impersonate-User", "ann")], None).await?;
    let status = reply.refused(403, "Forbidden")?;
    let namespace = &place.namespace;
    let message = format!(
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"{namespace}\""
    );
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn impersonated_group_grants_permissions(place: Place) -> Result<()> {
    let headers = [("Impersonate-User", "ann"), ("Impersonate-Group", MASTERS)];
    send(place.admin(), &place.all(), &headers, None).await?.ok()?;
    let empty = [("Impersonate-User", "")];
    send(place.admin(), &place.all(), &empty, None).await?.ok()?;
    Ok(())
}

async fn parts_without_user_are_rejected(place: Place) -> Result<()> {
    for header in [("Impersonate-Group", "devs"), ("Impersonate-Uid", "u1"), ("Impersonate-Extra-a", "b")] {
        for api in [place.admin(), place.nobody()] {
            send(api, &place.all(), &[header], None).await?.refused(400, "BadRequest")?;
        }
    }
    Ok(())
}

async fn user_without_permissions_cannot_impersonate(place: Place) -> Result<()> {
    for headers in [
        &[("Impersonate-User", "ann")][..],
        &[("Impersonate-User", "nobody")],
        &[("Impersonate-User", "ann"), ("Impersonate-Group", MASTERS)],
        &[("Impersonate-User", "system:serviceaccount:shop:operator")],
        &[("Impersonate-User", "system:node:n1")],
    ] {
        send(place.nobody(), &place.all(), headers, None).await?.refused(403, "Forbidden")?;
        send(place.nobody(), "/version", headers, None).await?.refused(403, "Forbidden")?;
    }
    // A uid excludes the constrained modes of kube-apiserver.
    let account = ("Impersonate-User", "system:serviceaccount:shop:operator");
    let reply = send(place.nobody(), &place.all(), &[account, ("Impersonate-Uid", "u1")], None).await?;
    let status = reply.refused(403, "Forbidden")?;
    let message = "serviceaccounts \"operator\" is forbidden: User \"nobody\" cannot impersonate resource \
                   \"serviceaccounts\" in API group \"\" in the namespace \"shop\"";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn unknown_token_cannot_impersonate(place: Place) -> Result<()> {
    let headers = [("Impersonate-User", "admin")];
    send(place.stranger(), &place.all(), &headers, None).await?.refused(401, "Unauthorized")?;
    Ok(())
}
