//! `Account`: the account whose permissions are reviewed.

use std::str::FromStr;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube_client::{Api, Client, api::PostParams};
use kube_operator::RbacRoles;

/// The value of `--service-account`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl FromStr for ServiceAccount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("use NAMESPACE/NAME, for example shop/operator".to_owned()),
        }
    }
}

impl ServiceAccount {
    /// Returns the name that the server gives the user.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the groups that the server gives the user.
    pub(super) fn groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }

    fn from_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// The account whose permissions are reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// The user of the client. `None` if the server did not return the name.
    Own { user: Option<String> },
    /// Another account.
    Other(ServiceAccount),
}

impl Account {
    /// Returns the account of the flags. Reads the name of the user of the client.
    pub(super) async fn read(client: &Client, service_account: Option<&ServiceAccount>) -> Self {
        if let Some(account) = service_account {
            return Self::Other(account.clone());
        }
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        // Without the name, the roles have no bindings.
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok();
        Self::Own { user: review.and_then(|review| review.status?.user_info?.username) }
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Own { user: None } => "the current user".to_owned(),
            Self::Own { user: Some(user) } => user.clone(),
            Self::Other(account) => account.user(),
        }
    }

    /// Returns the name of the missing roles.
    pub(super) fn role_name(&self) -> String {
        match self.service_account() {
            Some(account) => format!("{}-informers", account.name),
            None => "informers".to_owned(),
        }
    }

    /// Adds bindings to roles, if the account is known.
    pub(super) fn bind(&self, roles: RbacRoles) -> RbacRoles {
        match (self.service_account(), self) {
            (Some(account), _) => roles.bind_to_service_account(&account.namespace, &account.name),
            (None, Self::Own { user: Some(user) }) => roles.bind_to_user(user),
            _ => roles,
        }
    }

    fn service_account(&self) -> Option<ServiceAccount> {
        match self {
            Self::Own { user } => user.as_deref().and_then(ServiceAccount::from_user),
            Self::Other(account) => Some(account.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_needs_namespace_and_name() {
        let account: ServiceAccount = "shop/operator".parse().unwrap();
        assert_eq!(account.user(), "system:serviceaccount:shop:operator");
        assert_eq!(ServiceAccount::from_user(&account.user()), Some(account));
        for invalid in ["", "operator", "/operator", "shop/", "a/b/c"] {
            assert!(invalid.parse::<ServiceAccount>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn roles_are_bound_to_known_account() {
        let kinds = |user: Option<&str>| {
            let account = Account::Own { user: user.map(str::to_owned) };
            let roles = RbacRoles::named(&account.role_name()).with_permissions(&["list"], "", "pods", None);
            let objects = account.bind(roles).objects();
            objects.iter().map(|object| object["subjects"][0]["kind"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(None), ["null"]);
        assert_eq!(kinds(Some("ann")), ["null", "\"User\""]);
        assert_eq!(kinds(Some("system:serviceaccount:a:b")), ["null", "\"ServiceAccount\""]);
    }
}
