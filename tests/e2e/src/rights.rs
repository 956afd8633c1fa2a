//! Checks that the roles of a program are sufficient and minimal.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_operator::RbacRoles;

/// Returns these roles without one verb of one rule, for each verb. The text describes the verb and its rule.
#[must_use]
pub fn without_each_verb(roles: &RbacRoles) -> Vec<(String, RbacRoles)> {
    let mut all = roles.clone();
    let removals = rules(&mut all).into_iter().flat_map(|rules| rules.iter()).enumerate();
    let verbs = removals.flat_map(|(at, rule)| rule.verbs.iter().map(move |verb| (at, verb, rule)));
    verbs.map(|(at, verb, rule)| (describe(verb, rule), without(roles, at, verb))).collect()
}

/// Returns the rules of each role.
fn rules(roles: &mut RbacRoles) -> Vec<&mut Vec<PolicyRule>> {
    let cluster = roles.cluster_role.iter_mut().flat_map(|role| &mut role.rules);
    cluster.chain(roles.roles.iter_mut().flat_map(|role| &mut role.rules)).collect()
}

fn describe(verb: &str, rule: &PolicyRule) -> String {
    let resources = rule.resources.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
    let names = rule.resource_names.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.is_empty() { format!("{verb} {resources}") } else { format!("{verb} {resources} named {names}") }
}

/// Removes a verb of the rule with this number. A rule without verbs is invalid.
fn without(roles: &RbacRoles, number: usize, verb: &str) -> RbacRoles {
    let mut fewer = roles.clone();
    let all_rules = rules(&mut fewer);
    if let Some(rule) = all_rules.into_iter().flatten().nth(number) {
        rule.verbs.retain(|other| other != verb);
    }
    for rules in rules(&mut fewer) {
        rules.retain(|rule| !rule.verbs.is_empty());
    }
    fewer
}
