//! Users, their permissions and their groups.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{Api, JSON, starts_with};

checks! {
    "A forbidden response contains the object, the subresource, the namespace or the path of the request.":
        field_selector_with_name_sets_requested_name, subresource_requires_separate_permission,
        namespace_request_has_its_own_namespace, path_is_named_with_its_verb;
    "A SelfSubjectAccessReview returns the decision of the server and is not stored.":
        administrator_may_do_everything, user_without_permissions_cannot_list, discovery_is_permitted_with_reason;
    "A SubjectAccessReview requires a separate permission.":
        subject_is_reviewed_by_its_name_and_groups, user_without_permissions_cannot_review_other_users,
        local_review_stays_in_its_namespace;
    "A review without attributes, or with both kinds of attributes, is rejected with 422.":
        review_has_one_kind_of_attributes, review_of_a_subject_needs_one;
    "Reviews support only create.":
        review_is_only_created;
    "A user can request its name, its groups and its rules.":
        self_review_contains_user_name, rules_review_contains_rules;
}

const GROUP: &str = "/apis/authorization.k8s.io/v1";

async fn told(reply: &super::raw::Reply, message: &str) -> Result<()> {
    let status = reply.refused(403, "Forbidden")?;
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn field_selector_with_name_sets_requested_name(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    for (query, verb) in [("", "list"), ("&watch=true", "watch")] {
        let path = format!("{}?fieldSelector=metadata.name%3Dx{query}", place.all());
        let message = format!(
            "configmaps \"x\" is forbidden: User \"nobody\" cannot {verb} resource \"configmaps\" in API group \"\" in \
             the namespace \"{namespace}\""
        );
        told(&place.nobody().get(&path).await?, &message).await?;
    }
    Ok(())
}

async fn subresource_requires_separate_permission(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/x/scale");
    let message = format!(
        "deployments.apps \"x\" is forbidden: User \"nobody\" cannot get resource \"deployments/scale\" in API group \
         \"apps\" in the namespace \"{namespace}\""
    );
    told(&place.nobody().get(&path).await?, &message).await
}

async fn namespace_request_has_its_own_namespace(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    let message = format!(
        "namespaces \"{namespace}\" is forbidden: User \"nobody\" cannot get resource \"namespaces\" in API group \"\" \
         in the namespace \"{namespace}\""
    );
    told(&place.nobody().get(&format!("/api/v1/namespaces/{namespace}")).await?, &message).await
}

async fn path_is_named_with_its_verb(place: Place) -> Result<()> {
    for (method, verb, path) in [
        (Method::GET, "get", "/healthz/ping"),
        (Method::POST, "post", "/nothing"),
        (Method::DELETE, "delete", "/apis"),
    ] {
        let reply = place.nobody().send(method, path, JSON, &json!({})).await?;
        told(&reply, &format!("forbidden: User \"nobody\" cannot {verb} path \"{path}\"")).await?;
    }
    Ok(())
}

/// The status of a review with this spec.
async fn reviewed(api: &Api, path: &str, spec: &Value) -> Result<Value> {
    let review = api.post(path, &json!({"spec": spec})).await?.expect(201)?;
    ensure!(review["spec"] == *spec, "{review}");
    Ok(review["status"].clone())
}

async fn own(api: &Api, spec: Value) -> Result<Value> {
    reviewed(api, &format!("{GROUP}/selfsubjectaccessreviews"), &spec).await
}

async fn administrator_may_do_everything(place: Place) -> Result<()> {
    for asked in [
        json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": place.namespace}}),
        json!({"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}),
        json!({"nonResourceAttributes": {"verb": "get", "path": "/nothing"}}),
    ] {
        let status = own(place.admin(), asked).await?;
        ensure!(status == json!({"allowed": true}), "{status}");
    }
    Ok(())
}

async fn user_without_permissions_cannot_list(place: Place) -> Result<()> {
    let pods = json!({"verb": "list", "resource": "pods", "namespace": place.namespace});
    let status = own(place.nobody(), json!({"resourceAttributes": pods})).await?;
    ensure!(status == json!({"allowed": false}), "{status}");
    Ok(())
}

async fn discovery_is_permitted_with_reason(place: Place) -> Result<()> {
    let status =
        own(place.nobody(), json!({"nonResourceAttributes": {"verb": "get", "path": "/apis/apps"}})).await?;
    let reason = "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \
                  \"system:authenticated\"";
    ensure!(status == json!({"allowed": true, "reason": reason}), "{status}");
    Ok(())
}

fn subject(user: &str, groups: &[&str], namespace: &str) -> Value {
    let pods = json!({"verb": "get", "resource": "pods", "namespace": namespace});
    json!({"user": user, "groups": groups, "resourceAttributes": pods})
}

async fn subject_is_reviewed_by_its_name_and_groups(place: Place) -> Result<()> {
    let path = format!("{GROUP}/subjectaccessreviews");
    for (group, allowed) in [("system:authenticated", false), ("system:masters", true)] {
        let spec = subject("somebody", &[group], &place.namespace);
        let status = reviewed(place.admin(), &path, &spec).await?;
        ensure!(status == json!({"allowed": allowed}), "{group}: {status}");
    }
    Ok(())
}

async fn user_without_permissions_cannot_review_other_users(place: Place) -> Result<()> {
    let spec = json!({"spec": subject("admin", &[], &place.namespace)});
    let reply = place.nobody().post(&format!("{GROUP}/subjectaccessreviews"), &spec).await?;
    let status = reply.refused(403, "Forbidden")?;
    let details = json!({"group": "authorization.k8s.io", "kind": "subjectaccessreviews"});
    ensure!(status["details"] == details, "{status}");
    Ok(())
}

async fn local_review_stays_in_its_namespace(place: Place) -> Result<()> {
    let path = format!("{GROUP}/namespaces/{}/localsubjectaccessreviews", place.namespace);
    let status = reviewed(place.admin(), &path, &subject("a", &["system:masters"], &place.namespace)).await?;
    ensure!(status == json!({"allowed": true}), "{status}");
    let elsewhere = json!({"spec": subject("a", &[], "other")});
    let status = place.admin().post(&path, &elsewhere).await?.refused(422, "Invalid")?;
    let message = ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": \
                   must match metadata.namespace";
    ensure!(status["message"] == message, "{status}");
    let other = json!({"metadata": {"namespace": "other"}, "spec": subject("a", &[], &place.namespace)});
    place.admin().post(&path, &other).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn review_has_one_kind_of_attributes(place: Place) -> Result<()> {
    let path = format!("{GROUP}/selfsubjectaccessreviews");
    let both = json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x", "verb": "get"}});
    for (spec, field) in [(json!({}), "spec.resourceAttributes"), (both, "spec.nonResourceAttributes")] {
        let status = place.admin().post(&path, &json!({"spec": spec})).await?.refused(422, "Invalid")?;
        let start = format!(".authorization.k8s.io \"\" is invalid: {field}: Invalid value: ");
        ensure!(
            starts_with(&status, &start) && status["details"]["group"] == "authorization.k8s.io",
            "{status}"
        );
    }
    Ok(())
}

async fn review_of_a_subject_needs_one(place: Place) -> Result<()> {
    let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let reply = place.admin().post(&format!("{GROUP}/subjectaccessreviews"), &json!({"spec": spec})).await?;
    let status = reply.refused(422, "Invalid")?;
    ensure!(status["details"]["causes"][0]["field"] == "spec.user", "{status}");
    Ok(())
}

async fn review_is_only_created(place: Place) -> Result<()> {
    let path = format!("{GROUP}/selfsubjectaccessreviews");
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let reply = place.admin().send(method.clone(), &path, JSON, &json!({})).await?;
        reply.refused(405, "MethodNotAllowed")?;
        place.admin().send(method, &format!("{path}/x"), JSON, &json!({})).await?.refused(404, "NotFound")?;
    }
    let elsewhere = format!("{GROUP}/namespaces/{}/selfsubjectaccessreviews", place.namespace);
    place.admin().post(&elsewhere, &json!({"spec": {}})).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn self_review_contains_user_name(place: Place) -> Result<()> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = place.nobody().post(path, &json!({})).await?.expect(201)?;
    let info = &review["status"]["userInfo"];
    ensure!(info["username"] == "nobody" && info["groups"] == json!(["system:authenticated"]), "{review}");
    ensure!(review["metadata"]["creationTimestamp"].is_string(), "{review}");
    Ok(())
}

async fn rules_review_contains_rules(place: Place) -> Result<()> {
    let path = format!("{GROUP}/selfsubjectrulesreviews");
    let asked = json!({"spec": {"namespace": place.namespace}});
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    for (api, all) in [(place.nobody(), false), (place.admin(), true)] {
        let status = api.post(&path, &asked).await?.expect(201)?["status"].clone();
        let rules = status["resourceRules"].as_array().context("no rules")?;
        let own = json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]});
        ensure!(rules.contains(&own) && rules.contains(&everything) == all, "{status}");
        ensure!(status["incomplete"] == false && status["nonResourceRules"].is_array(), "{status}");
    }
    let status = place.nobody().post(&path, &json!({"spec": {}})).await?.refused(400, "BadRequest")?;
    ensure!(status["message"] == "no namespace on request", "{status}");
    Ok(())
}
