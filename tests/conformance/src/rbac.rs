//! Rights from Roles, ClusterRoles and their bindings.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::{Method, Request};
use serde_json::{Value, json};

use super::impersonation::send;
use super::place::Place;
use super::raw::{JSON, MERGE_PATCH, Reply};

checks! {
    "A role allows the requests that one of its rules matches.":
        rules_match_requests, role_applies_to_its_namespace, path_rules_need_cluster_role_binding,
        deleted_binding_grants_nothing;
    "An apply that creates an object also needs permission to create it, which a rule can limit by name.":
        apply_needs_permission_to_create;
    "A binding names users, groups and service accounts.":
        subjects_are_matched, review_contains_binding_as_reason, rules_review_contains_roles;
    "A user can grant only its own rights.":
        role_with_more_rights_is_rejected, binding_with_more_rights_is_rejected, aggregation_requires_all_rights;
    "A role can allow impersonation of some users.":
        impersonation_is_limited_to_names;
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

impl Place {
    /// The name of the user of this check.
    fn user(&self) -> String {
        format!("{}-user", self.namespace)
    }

    /// The name of the ClusterRole of this user, and of its binding.
    fn role(&self) -> String {
        format!("{}-{}", self.namespace, self.user())
    }

    fn rbac(&self, plural: &str) -> String {
        format!("{RBAC}/namespaces/{}/{plural}", self.namespace)
    }

    /// Creates a ClusterRole with these rules and binds it to the user in all namespaces. Waits until the
    /// server applies it.
    async fn grant(&self, rules: Value) -> Result<()> {
        self.grant_to(&self.user(), rules).await
    }

    async fn grant_to(&self, user: &str, rules: Value) -> Result<()> {
        let name = format!("{}-{user}", self.namespace);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.admin().post(&format!("{RBAC}/clusterroles"), &role).await?.expect(201)?;
        let mut binding = self.binding("ClusterRole", &name, &json!({"kind": "User", "name": user}));
        binding["metadata"]["name"] = name.into();
        let path = format!("{RBAC}/clusterrolebindings");
        self.admin().post(&path, &binding).await?.expect(201)?;
        let right = &rules[0];
        let (group, resource) = (right["apiGroups"][0].clone(), right["resources"][0].as_str().unwrap_or(""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let name = right["resourceNames"][0].clone();
        let spec = json!({"user": user, "resourceAttributes": {"verb": right["verbs"][0], "group": group,
            "resource": resource, "subresource": subresource, "name": name}});
        self.reviewed(&spec, true).await
    }

    fn binding(&self, kind: &str, role: &str, subject: &Value) -> Value {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
        json!({"metadata": {"name": self.user()}, "roleRef": reference, "subjects": [subject]})
    }

    async fn may(&self, spec: &Value) -> Result<Value> {
        let review = self.admin().post(REVIEWS, &json!({"spec": spec})).await?.expect(201)?;
        Ok(review["status"].clone())
    }

    /// Waits until a review has this result, because the server reads roles from a cache.
    async fn reviewed(&self, spec: &Value, allowed: bool) -> Result<()> {
        for _ in 0..100 {
            if self.may(spec).await?["allowed"] == allowed {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("the review never returned {allowed}: {spec}")
    }

    async fn as_user(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Reply> {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        self.admin().request(request.header("Impersonate-User", self.user()), Some(body)).await
    }
}

fn pods(verbs: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]})
}

async fn apply_needs_permission_to_create(place: Place) -> Result<()> {
    let rule = |verb: &str, names: &[&str]| json!({"verbs": [verb], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": names});
    place.grant(json!([rule("create", &["a"]), rule("patch", &["a", "b"])])).await?;
    for (name, code) in [("a", 201), ("a", 200), ("b", 403)] {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}?fieldManager=me", place.namespace);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let reply =
            place.as_user(Method::PATCH, &path, "application/apply-patch+yaml", &body).await?.expect(code)?;
        let cause = "cannot create resource \"configmaps\" in API group \"\"";
        ensure!(code != 403 || reply["message"].as_str().is_some_and(|text| text.contains(cause)), "{reply}");
    }
    Ok(())
}

async fn rules_match_requests(place: Place) -> Result<()> {
    place
        .grant(json!([
            pods(&["get"]),
            {"verbs": ["list"], "apiGroups": ["*"], "resources": ["deployments"]},
            {"verbs": ["*"], "apiGroups": ["batch"], "resources": ["jobs", "jobs/status"]},
            {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["*/scale"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]},
            {"verbs": ["get"], "apiGroups": ["all"], "resources": ["*"]},
        ]))
        .await?;
    for (verb, group, resource, subresource, name, allowed) in [
        ("get", "", "pods", "", "x", true),
        ("get", "", "pods", "status", "x", false),
        ("list", "", "pods", "", "", false),
        ("get", "apps", "pods", "", "", false),
        ("list", "any", "deployments", "", "", true),
        ("deletecollection", "batch", "jobs", "", "", true),
        ("x", "batch", "jobs", "status", "", true),
        ("x", "batch", "jobs", "other", "", false),
        ("update", "apps", "statefulsets", "scale", "", true),
        ("update", "apps", "scale", "", "", false),
        ("get", "", "secrets", "", "b", true),
        ("get", "", "secrets", "", "c", false),
        ("get", "", "secrets", "", "", false),
        ("get", "all", "things", "status", "", true),
        ("*", "", "pods", "", "", false),
    ] {
        let asked = json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name});
        let status = place.may(&json!({"user": place.user(), "resourceAttributes": asked})).await?;
        ensure!(status["allowed"] == allowed, "{asked}: {status}");
    }
    Ok(())
}

async fn role_applies_to_its_namespace(place: Place) -> Result<()> {
    let maps = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": maps});
    place.admin().post(&place.rbac("roles"), &role).await?.expect(201)?;
    let binding = place.binding("Role", "r", &json!({"kind": "User", "name": place.user()}));
    place.admin().post(&place.rbac("rolebindings"), &binding).await?.expect(201)?;
    let namespace = &place.namespace;
    let asked = json!({"verb": "list", "resource": "configmaps", "namespace": namespace});
    place.reviewed(&json!({"user": place.user(), "resourceAttributes": asked}), true).await?;
    let user = place.user();
    let headers = [("Impersonate-User", &*user)];
    send(place.admin(), &place.all(), &headers, None).await?.ok()?;
    send(place.admin(), &place.one("x"), &headers, None).await?.refused(404, "NotFound")?;
    let other = place.beside().await?;
    for path in
        [other.all(), "/api/v1/configmaps".into(), place.core("secrets"), format!("{}?watch=1", place.all())]
    {
        send(place.admin(), &path, &headers, None).await?.refused(403, "Forbidden")?;
    }
    let body = json!({"metadata": {"name": "x"}});
    send(place.admin(), &place.all(), &headers, Some(&body)).await?.refused(403, "Forbidden")?;
    Ok(())
}

async fn path_rules_need_cluster_role_binding(place: Place) -> Result<()> {
    place
        .grant(json!([pods(&["get"]), {"verbs": ["get"], "nonResourceURLs": ["/logs", "/metrics/*"]}]))
        .await?;
    for (verb, path, allowed) in [
        ("get", "/logs", true),
        ("get", "/logs/x", false),
        ("post", "/logs", false),
        ("get", "/metrics/slis", true),
        ("get", "/metrics", false),
    ] {
        let asked = json!({"user": place.user(), "nonResourceAttributes": {"verb": verb, "path": path}});
        ensure!(place.may(&asked).await?["allowed"] == allowed, "{asked}");
    }
    let other = json!({"user": "other", "nonResourceAttributes": {"verb": "get", "path": "/logs"}});
    let binding = place.binding("ClusterRole", &place.role(), &json!({"kind": "User", "name": "other"}));
    place.admin().post(&place.rbac("rolebindings"), &binding).await?.expect(201)?;
    let asked = json!({"verb": "get", "resource": "pods", "namespace": place.namespace});
    place.reviewed(&json!({"user": "other", "resourceAttributes": asked}), true).await?;
    ensure!(place.may(&other).await?["allowed"] == false, "{other}");
    Ok(())
}

async fn deleted_binding_grants_nothing(place: Place) -> Result<()> {
    place.grant(json!([pods(&["get"])])).await?;
    let asked = json!({"user": place.user(), "resourceAttributes": {"verb": "get", "resource": "pods"}});
    place.admin().delete(&format!("{RBAC}/clusterrolebindings/{}", place.role())).await?.ok()?;
    place.reviewed(&asked, false).await
}

async fn subjects_are_matched(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    let role = json!({"metadata": {"name": "r"}, "rules": [pods(&["get"])]});
    place.admin().post(&place.rbac("roles"), &role).await?.expect(201)?;
    let mut binding = place.binding("Role", "r", &json!({"kind": "Group", "name": "devs"}));
    binding["subjects"] = json!([
        {"kind": "Group", "name": "devs"}, {"kind": "User", "name": "ann"},
        {"kind": "ServiceAccount", "name": "own"}, {"kind": "ServiceAccount", "name": "far", "namespace": "b"}
    ]);
    place.admin().post(&place.rbac("rolebindings"), &binding).await?.expect(201)?;
    let asked = json!({"verb": "get", "resource": "pods", "namespace": namespace});
    place.reviewed(&json!({"user": "ann", "resourceAttributes": asked}), true).await?;
    for (user, groups, allowed) in [
        ("bob", &["devs"][..], true),
        ("devs", &[], false),
        ("bob", &["ann"], false),
        (&format!("system:serviceaccount:{namespace}:own"), &[], true),
        ("system:serviceaccount:b:own", &[], false),
        ("system:serviceaccount:b:far", &[], true),
        ("own", &[], false),
    ] {
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": asked});
        ensure!(place.may(&spec).await?["allowed"] == allowed, "{spec}");
    }
    Ok(())
}

async fn review_contains_binding_as_reason(place: Place) -> Result<()> {
    let (namespace, user, role) = (&place.namespace, place.user(), place.role());
    place.grant(json!([pods(&["get"])])).await?;
    let get = json!({"verb": "get", "resource": "pods", "namespace": namespace});
    let status = place.may(&json!({"user": user, "resourceAttributes": get})).await?;
    let reason = format!(
        "RBAC: allowed by ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" to User \"{user}\""
    );
    ensure!(status["reason"] == reason, "{status}");
    let account = format!("system:serviceaccount:{namespace}:a");
    let binding = place.binding("ClusterRole", &role, &json!({"kind": "ServiceAccount", "name": "a"}));
    place.admin().post(&place.rbac("rolebindings"), &binding).await?.expect(201)?;
    let spec = json!({"user": account, "resourceAttributes": get});
    place.reviewed(&spec, true).await?;
    let status = place.may(&spec).await?;
    let reason = format!(
        "RBAC: allowed by RoleBinding \"{user}/{namespace}\" of ClusterRole \"{role}\" to ServiceAccount \
         \"a/{namespace}\""
    );
    ensure!(status["reason"] == reason, "{status}");
    Ok(())
}

async fn rules_review_contains_roles(place: Place) -> Result<()> {
    let secrets =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]});
    let logs = json!({"verbs": ["get"], "nonResourceURLs": ["/logs"]});
    place.grant(json!([secrets, logs])).await?;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = json!({"spec": {"namespace": place.namespace}});
    let review = place.as_user(Method::POST, path, JSON, &body).await?.expect(201)?;
    for (list, rule) in [("resourceRules", &secrets), ("nonResourceRules", &logs)] {
        let rules = review["status"][list].as_array();
        ensure!(rules.is_some_and(|rules| rules.contains(rule)), "{review}");
    }
    Ok(())
}

/// The rules of a user that may write roles and bindings, and read pods.
fn author(more: &Value) -> Value {
    let resources = json!(["roles", "rolebindings", "clusterroles", "clusterrolebindings"]);
    let write = json!({"verbs": ["create", "update", "patch", "get"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources});
    json!([pods(&["get", "list"]), write, more])
}

async fn role_with_more_rights_is_rejected(place: Place) -> Result<()> {
    let escalate = json!({"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
        "resourceNames": ["free"]});
    place.grant(author(&escalate)).await?;
    let roles = place.rbac("roles");
    let role = |name: &str, verbs: &[&str]| json!({"metadata": {"name": name}, "rules": [pods(verbs)]});
    let create = async |body: Value| place.as_user(Method::POST, &roles, JSON, &body).await;
    create(role("held", &["get"])).await?.expect(201)?;
    let status = create(role("more", &["get", "delete"])).await?.refused(403, "Forbidden")?;
    ensure!(status["details"]["name"] == "more" && status["details"]["kind"] == "roles", "{status}");
    create(role("all", &["*"])).await?.refused(403, "Forbidden")?;
    create(role("held", &["delete"])).await?.refused(403, "Forbidden")?;
    let held = format!("{roles}/held");
    let more = json!({"rules": [pods(&["delete"])]});
    place.as_user(Method::PATCH, &held, MERGE_PATCH, &more).await?.refused(403, "Forbidden")?;
    place.as_user(Method::PUT, &held, JSON, &role("held", &["delete"])).await?.refused(403, "Forbidden")?;
    place
        .as_user(Method::PATCH, &held, MERGE_PATCH, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?
        .ok()?;
    // The right to escalate is a right to a name.
    place.admin().post(&roles, &role("free", &["delete"])).await?.expect(201)?;
    let free = format!("{roles}/free");
    place.as_user(Method::PATCH, &free, MERGE_PATCH, &json!({"rules": [pods(&["*"])]})).await?.ok()?;
    // A user with more rights wrote the role, but only its finalizers change.
    place.admin().patch(&held, &more).await?.ok()?;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}});
    place.as_user(Method::PATCH, &held, MERGE_PATCH, &finalizers).await?.ok()?;
    place.admin().patch(&held, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    Ok(())
}

async fn binding_with_more_rights_is_rejected(place: Place) -> Result<()> {
    let bind = json!({"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "resourceNames": ["cluster-admin"]});
    place.grant(author(&bind)).await?;
    let role = json!({"metadata": {"name": "more"}, "rules": [pods(&["delete"])]});
    place.admin().post(&place.rbac("roles"), &role).await?.expect(201)?;
    let role = json!({"metadata": {"name": "held"}, "rules": [pods(&["list"])]});
    place.admin().post(&place.rbac("roles"), &role).await?.expect(201)?;
    // The server reads roles from a cache.
    place
        .admin()
        .post(
            &place.rbac("rolebindings"),
            &place.binding("Role", "held", &json!({"kind": "User", "name": "z"})),
        )
        .await?
        .expect(201)?;
    let list = json!({"verb": "list", "resource": "pods", "namespace": place.namespace});
    place.reviewed(&json!({"user": "z", "resourceAttributes": list}), true).await?;
    let path = place.rbac("rolebindings");
    let create = async |name: &str, kind: &str, role: &str| {
        let mut binding = place.binding(kind, role, &json!({"kind": "User", "name": "x"}));
        binding["metadata"]["name"] = name.into();
        place.as_user(Method::POST, &path, JSON, &binding).await
    };
    create("a", "Role", "held").await?.expect(201)?;
    let status = create("b", "Role", "more").await?.refused(403, "Forbidden")?;
    ensure!(status["details"]["kind"] == "rolebindings", "{status}");
    create("c", "ClusterRole", "system:aggregate-to-view").await?.refused(403, "Forbidden")?;
    create("d", "ClusterRole", "cluster-admin").await?.expect(201)?;
    create("e", "Role", "absent").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn aggregation_requires_all_rights(place: Place) -> Result<()> {
    place.grant(author(&pods(&["watch"]))).await?;
    let path = format!("{RBAC}/clusterroles");
    let rule = json!({"clusterRoleSelectors": [{"matchLabels": {"never": "matches"}}]});
    let name = format!("{}-aggregated", place.user());
    let role = json!({"metadata": {"name": name}, "aggregationRule": rule, "rules": []});
    place.as_user(Method::POST, &path, JSON, &role).await?.refused(403, "Forbidden")?;
    place.admin().post(&path, &role).await?.expect(201)?;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let one = format!("{path}/{name}");
    place.as_user(Method::PATCH, &one, MERGE_PATCH, &label).await?.refused(403, "Forbidden")?;
    Ok(())
}

async fn impersonation_is_limited_to_names(place: Place) -> Result<()> {
    let user = place.user();
    let impersonate = |group: &str, resource: &str| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": [user]});
    let extra = impersonate("authentication.k8s.io", "userextras/team");
    let rules = json!([
        impersonate("", "users"),
        impersonate("", "groups"),
        impersonate("", "serviceaccounts"),
        extra,
        impersonate("authentication.k8s.io", "uids")
    ]);
    place.grant_to("nobody", rules).await?;
    let account = format!("system:serviceaccount:x:{user}");
    let act_as = ("Impersonate-User", &*user);
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (headers, allowed) in [
        (&[act_as][..], true),
        (&[act_as, ("Impersonate-Group", &*user)], true),
        (&[act_as, ("Impersonate-Uid", &*user)], true),
        (&[act_as, ("Impersonate-Extra-Team", &*user)], true),
        (&[("Impersonate-User", &*account)], true),
        (&[("Impersonate-User", "ann")], false),
        (&[act_as, ("Impersonate-Group", "system:masters")], false),
        (&[act_as, ("Impersonate-Uid", "other")], false),
        (&[act_as, ("Impersonate-Extra-Team", "other")], false),
        (&[act_as, ("Impersonate-Extra-Other", &*user)], false),
        (&[("Impersonate-User", "system:serviceaccount:x:b")], false),
    ] {
        let reply = send(place.nobody(), reviews, headers, Some(&json!({}))).await?;
        ensure!(reply.status == if allowed { 201 } else { 403 }, "{headers:?}: {reply}");
    }
    // The request needs a right of the impersonated user.
    send(place.nobody(), &place.all(), &[act_as], None).await?.refused(403, "Forbidden")?;
    Ok(())
}
