//! The roles of a program, as JSON.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The ClusterRole and the Roles of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Roles(pub Vec<Value>);

/// Roles that lack one verb of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced {
    /// The removed verb.
    pub verb: String,
    /// The resource, for example `pods/status`.
    pub resource: String,
    /// The other permissions.
    pub roles: Roles,
}

impl Roles {
    /// Reads the YAML documents that a program prints, without bindings.
    ///
    /// # Errors
    ///
    /// Fails if a document is not a role with rules.
    pub fn parse(text: &str) -> Result<Self> {
        let documents = text.split("---\n").map(serde_saphyr::from_str);
        let mut roles: Vec<Value> = documents.collect::<Result<_, _>>()?;
        roles.retain(|role| role["kind"] != "RoleBinding" && role["kind"] != "ClusterRoleBinding");
        for role in &roles {
            let is_role = role["kind"] == "Role" || role["kind"] == "ClusterRole";
            ensure!(is_role && role["rules"][0]["verbs"][0].is_string(), "{role} is not a role with rules");
        }
        Ok(Self(roles))
    }

    /// Returns these roles without one verb of one resource, for each verb and resource.
    #[must_use]
    pub fn without_each_verb(&self) -> Vec<Reduced> {
        let split: Vec<Value> = self.0.iter().map(split).collect();
        let rules = |role: &Value| role["rules"].as_array().cloned().unwrap_or_default();
        let mut all = Vec::new();
        for (at, role) in split.iter().enumerate() {
            for (number, rule) in rules(role).into_iter().enumerate() {
                let mut roles = Self(split.clone());
                roles.0[at]["rules"].as_array_mut().map(|rules| rules.remove(number));
                let text = |field: &str| rule[field][0].as_str().unwrap_or_default().to_owned();
                all.push(Reduced { verb: text("verbs"), resource: text("resources"), roles });
            }
        }
        all
    }

    /// Returns the roles with this name, and bindings to a service account in the namespace `default` with
    /// the same name.
    #[must_use]
    pub fn bind_to_service_account(&self, account: &str) -> Vec<Value> {
        let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": account});
        let bind = |role: &Value| {
            let mut role = role.clone();
            role["metadata"]["name"] = account.into();
            let (kind, group) = (role["kind"].as_str().unwrap_or_default(), "rbac.authorization.k8s.io");
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"),
                "metadata": role["metadata"], "subjects": [subject],
                "roleRef": {"apiGroup": group, "kind": kind, "name": account},
            });
            [role, binding]
        };
        self.0.iter().flat_map(bind).collect()
    }
}

/// Splits the rules of a role into rules with one resource and one verb.
fn split(role: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut rules = Vec::new();
    for rule in list(&role["rules"]) {
        for (resource, verb) in list(&rule["resources"])
            .iter()
            .flat_map(|resource| list(&rule["verbs"]).into_iter().map(move |verb| (resource, verb)))
        {
            let mut single = rule.clone();
            (single["resources"], single["verbs"]) = (json!([resource]), json!([verb]));
            rules.push(single);
        }
    }
    let mut role = role.clone();
    role["rules"] = json!(rules);
    role
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_of_each_resource_is_removed_once() -> Result<()> {
        let rule = |resources: &str, verbs: &str| json!({"resources": resources.split(' ').collect::<Vec<_>>(), "verbs": verbs.split(' ').collect::<Vec<_>>()});
        let roles = Roles::parse(
            &json!({"kind": "Role", "rules": [rule("a b", "get"), rule("c", "list watch")]}).to_string(),
        )?;
        let split = [("a", "get"), ("b", "get"), ("c", "list"), ("c", "watch")];
        let reduced = roles.without_each_verb();
        assert_eq!(
            reduced.iter().map(|reduced| (&*reduced.resource, &*reduced.verb)).collect::<Vec<_>>(),
            split
        );
        for (number, reduced) in reduced.iter().enumerate() {
            let mut rules: Vec<_> = split.map(|(resource, verb)| rule(resource, verb)).into();
            rules.remove(number);
            assert_eq!(reduced.roles.0[0]["rules"], json!(rules));
        }
        assert_eq!(roles.bind_to_service_account("a")[1]["kind"], "RoleBinding");
        assert!(Roles::parse("kind: Role\n").is_err());
        Ok(())
    }
}
