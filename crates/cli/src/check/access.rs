//! The permissions of an account, by access reviews.

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube_client::{Api, Client, Error, api::PostParams};
use kube_operator::RbacRoles;

use super::{
    account::Account,
    report::{Finding, Verdict},
    target::Target,
};
use crate::{error::with_sources, output::counted};

/// The number of reviews at the same time.
const CONCURRENT_REVIEWS: usize = 8;
/// The maximum number of resources in one finding.
const MAX_NAMES: usize = 5;

/// The answer to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    Denied,
    /// The review failed.
    Unknown(String),
}

/// The permissions for a target.
#[derive(Debug)]
pub(super) struct Access<'a> {
    target: &'a Target<'a>,
    list: Answer,
    watch: Answer,
}

impl Access<'_> {
    fn denied_verbs(&self) -> Vec<&'static str> {
        let verbs = [("list", &self.list), ("watch", &self.watch)];
        verbs.into_iter().filter(|(_, answer)| **answer == Answer::Denied).map(|(verb, _)| verb).collect()
    }

    fn problem(&self) -> Option<&String> {
        [&self.list, &self.watch].into_iter().find_map(|answer| match answer {
            Answer::Unknown(problem) => Some(problem),
            _ => None,
        })
    }

    fn is_allowed(&self) -> bool {
        self.list == Answer::Allowed && self.watch == Answer::Allowed
    }
}

/// Reviews whether the account may list and watch the targets.
pub(super) async fn review<'a>(
    client: &Client,
    account: &Account,
    targets: &'a [Target<'a>],
) -> Vec<Access<'a>> {
    let reviews = stream::iter(targets).map(|target| async move {
        let (list, watch) = tokio::join!(
            review_verb(client, account, target, "list"),
            review_verb(client, account, target, "watch")
        );
        Access { target, list, watch }
    });
    reviews.buffered(CONCURRENT_REVIEWS).collect().await
}

async fn review_verb(client: &Client, account: &Account, target: &Target<'_>, verb: &str) -> Answer {
    let resource = &target.resource.resource;
    let attributes = Some(ResourceAttributes {
        group: Some(resource.group.clone()),
        resource: Some(resource.plural.clone()),
        version: Some(resource.version.clone()),
        namespace: target.namespace.clone(),
        name: target.selected_name().map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    });
    let params = PostParams::default();
    let status = match account {
        Account::Own { .. } => {
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: attributes, ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
            reviews.create(&params, &review).await.map(|review| review.status)
        }
        Account::Other(account) => {
            let spec = SubjectAccessReviewSpec {
                resource_attributes: attributes,
                user: Some(account.user()),
                groups: Some(account.groups()),
                ..Default::default()
            };
            let review = SubjectAccessReview { spec, ..Default::default() };
            let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
            reviews.create(&params, &review).await.map(|review| review.status)
        }
    };
    match status {
        Ok(Some(status)) if status.allowed => Answer::Allowed,
        Ok(Some(_)) => Answer::Denied,
        Ok(None) => Answer::Unknown("the server returned no result".to_owned()),
        Err(Error::Api(status)) => Answer::Unknown(status.message),
        Err(error) => Answer::Unknown(with_sources(&error)),
    }
}

/// The way in which the user chose the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The informers need each resource.
    Named,
    /// The command line contains no resource, so the program may need only some resources.
    Everything,
}

/// Returns the results of the reviews.
pub(super) fn findings(account: &Account, all: &[Access<'_>], choice: Choice) -> Vec<Finding> {
    let mut findings = Vec::new();
    let allowed: Vec<_> =
        all.iter().filter(|access| access.is_allowed()).map(|access| access.target.name()).collect();
    if !allowed.is_empty() {
        let detail = format!("{} may list and watch {}", account.name(), summary(&allowed));
        findings.push(Finding::green("permissions", detail));
    }
    findings.extend(unknown(account, all));
    let denied = all.iter().filter(|access| !access.denied_verbs().is_empty());
    match choice {
        Choice::Named => findings.extend(denied.map(|access| denied_finding(account, access))),
        Choice::Everything => {
            let names: Vec<_> = denied.map(|access| access.target.name()).collect();
            if !names.is_empty() {
                findings.push(Finding::new(
                    "permissions",
                    Verdict::Amber,
                    format!("{} may not list and watch {}", account.name(), summary(&names)),
                    "add the resources of your informers to the command line, so that the report contains the missing rules",
                ));
            }
        }
    }
    findings
}

fn denied_finding(account: &Account, access: &Access<'_>) -> Finding {
    let (verbs, target) = (access.denied_verbs(), access.target);
    let detail =
        format!("{} may not {} {}{}", account.name(), verbs.join(" and "), target.name(), target.place());
    if access.watch == Answer::Allowed {
        let remedy = "an informer works only while the server streams lists; apply the role at the end";
        return Finding::new("permissions", Verdict::Amber, detail, remedy);
    }
    Finding::new("permissions", Verdict::Red, detail, "apply the role at the end of this report")
}

fn unknown(account: &Account, all: &[Access<'_>]) -> Option<Finding> {
    let problem = all.iter().find_map(Access::problem)?;
    let count = all.iter().filter(|access| access.problem().is_some()).count();
    let detail = format!(
        "the permissions of {} for {} are unknown: {problem}",
        account.name(),
        counted(count, "resource")
    );
    Some(match account {
        // The lists show whether the current user has the permissions.
        Account::Own { .. } => Finding::new(
            "permissions",
            Verdict::Amber,
            detail,
            "grant the verb create for selfsubjectaccessreviews.authorization.k8s.io, as in the ClusterRole system:basic-user",
        ),
        Account::Other(account) => Finding::new(
            "permissions",
            Verdict::Red,
            detail,
            format!(
                "use an account that may create subjectaccessreviews.authorization.k8s.io, for example with the ClusterRole system:auth-delegator, or use --as {}",
                account.user()
            ),
        ),
    })
}

/// Returns the first names, and the number of further names.
fn summary(names: &[String]) -> String {
    let first = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() - names.len().min(MAX_NAMES) {
        0 => first,
        others => format!("{first} and {others} others"),
    }
}

/// Returns the roles that grant the missing permissions, with bindings if the account is known. Returns
/// `None` if no permission is missing.
pub(super) fn missing_roles(account: &Account, all: &[Access<'_>]) -> Option<RbacRoles> {
    let denied: Vec<_> = all.iter().filter(|access| !access.denied_verbs().is_empty()).collect();
    if denied.is_empty() {
        return None;
    }
    let roles = denied.into_iter().fold(RbacRoles::named(&account.role_name()), |roles, access| {
        let resource = &access.target.resource.resource;
        let namespace = access.target.namespace.as_deref();
        roles.with_permissions(&access.denied_verbs(), &resource.group, &resource.plural, namespace)
    });
    Some(account.bind(roles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{flags::SelectionFlags, resources::ServerResource};

    fn verdicts(list: Answer, watch: Answer, choice: Choice) -> Vec<Verdict> {
        let resource = ServerResource::assumed("pods");
        let target = Target::new(&resource, &SelectionFlags::default(), "shop");
        let account = Account::Own { user: None };
        let findings = findings(&account, &[Access { target: &target, list, watch }], choice);
        findings.iter().map(Finding::verdict).collect()
    }

    #[test]
    fn denied_watch_is_red_and_denied_list_is_amber() {
        use Answer::{Allowed, Denied};
        assert_eq!(verdicts(Allowed, Allowed, Choice::Named), [Verdict::Green]);
        assert_eq!(verdicts(Denied, Allowed, Choice::Named), [Verdict::Amber]);
        assert_eq!(verdicts(Allowed, Denied, Choice::Named), [Verdict::Red]);
        assert_eq!(verdicts(Denied, Denied, Choice::Everything), [Verdict::Amber]);
        let unknown = Answer::Unknown("no".to_owned());
        assert_eq!(verdicts(unknown.clone(), unknown, Choice::Named), [Verdict::Amber]);
    }

    #[test]
    fn long_lists_are_summarised() {
        let names: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).into();
        assert_eq!(summary(&names), "a, b, c, d, e and 2 others");
        assert_eq!(summary(&names[..2]), "a, b");
    }
}
