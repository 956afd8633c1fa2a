//! `SecretCertificate`: the options of the certificate of the webhooks, and their validation.

use std::{path::PathBuf, time::Duration};

use tokio_rustls::rustls::pki_types::ServerName;

use super::{inject::CaBundleTarget, rotation::Schedule};
use crate::RbacPermission;

/// A limit for dates that certificates cannot contain.
const MAX_VALIDITY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Selects the TLS certificate of the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCertificate {
    /// The certificate is in files, for example from cert-manager, which also writes the CA bundle. The
    /// manager reloads the files like the files of
    /// [`CertificateSource::Files`](crate::CertificateSource::Files).
    Files {
        /// The PEM file with the certificate chain.
        certificate: PathBuf,
        /// The PEM file with the private key.
        key: PathBuf,
    },
    /// The manager creates the certificate, and stores it in a Secret that all replicas share.
    Secret(SecretCertificate),
}

/// Configures a certificate that the manager creates, renews, and publishes.
///
/// The first replica that starts creates the Secret. At its start, each replica writes the CA bundle into the
/// [targets](Self::targets), because its caches may need a conversion webhook before a leader exists. Each
/// replica creates a missing Secret again, and replaces an expired certificate. Only the leader renews the
/// certificate, after two thirds of its validity. It publishes the new certificate in the targets, and waits
/// for [`publish_delay`](Self::publish_delay) before a replica serves it, so no request fails.
///
/// This process needs permission to `get`, `create` and `update` the Secret, and to `get` and `patch` the
/// targets. The manager checks these permissions at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretCertificate {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// The DNS names or IP addresses in the certificate. kube-apiserver uses `SERVICE.NAMESPACE.svc`. If the
    /// stored certificate lacks a name, a replica replaces it immediately.
    pub names: Vec<String>,
    /// The objects that contain the CA bundle.
    pub targets: Vec<CaBundleTarget>,
    /// The validity of a certificate. The default is one year.
    pub validity: Duration,
    /// The time between the publication of a new certificate and its use. Afterwards, the CA bundle contains
    /// the old certificate for the same time. The default is 10 minutes. The time must be shorter than a
    /// third of the validity. It should be longer than the delay of the caches of kube-apiserver.
    pub publish_delay: Duration,
}

impl SecretCertificate {
    /// Creates a configuration for webhooks behind a Service. `namespace` is the namespace of the Secret and
    /// of the Service.
    pub fn new(
        namespace: &str,
        secret: &str,
        service: &str,
        targets: impl IntoIterator<Item = CaBundleTarget>,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: secret.to_owned(),
            names: vec![format!("{service}.{namespace}.svc")],
            targets: targets.into_iter().collect(),
            validity: Duration::from_secs(365 * 24 * 3600),
            publish_delay: Duration::from_secs(600),
        }
    }

    /// Returns the first invalid option, with the reason.
    pub(crate) fn invalid(&self) -> Option<(&'static str, String)> {
        let Self { namespace, name, names, targets, validity, publish_delay } = self;
        let is_invalid = |name: &str| !is_object_name(name);
        let no_object =
            |value: &str| format!("{value:?} is not the name of an object; use a name such as `web`");
        if is_invalid(namespace) {
            return Some(("SecretCertificate::namespace", no_object(namespace)));
        }
        if is_invalid(name) {
            return Some(("SecretCertificate::name", no_object(name)));
        }
        if names.is_empty() {
            let reason = "no name is given; add the name `SERVICE.NAMESPACE.svc` of the Service";
            return Some(("SecretCertificate::names", reason.to_owned()));
        }
        let is_host = |name: &str| ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok();
        if let Some(name) = names.iter().find(|name| !is_host(name)) {
            let reason = format!("{name:?} is not a DNS name or IP address; use `SERVICE.NAMESPACE.svc`");
            return Some(("SecretCertificate::names", reason));
        }
        if let Some(target) = targets.iter().find(|target| is_invalid(target.name())) {
            return Some(("SecretCertificate::targets", no_object(target.name())));
        }
        if validity.is_zero() {
            let reason = "the certificate would never be valid; use for example 365 days".to_owned();
            return Some(("SecretCertificate::validity", reason));
        }
        if *validity > MAX_VALIDITY {
            let reason = format!("{validity:?} is longer than 100 years; use for example 365 days");
            return Some(("SecretCertificate::validity", reason));
        }
        if publish_delay.is_zero() || *publish_delay >= *validity / 3 {
            let reason = format!(
                "{publish_delay:?} is zero, or not shorter than a third of the validity {validity:?}, and the \
                 certificate is renewed in its last third; use for example 10 minutes"
            );
            return Some(("SecretCertificate::publish_delay", reason));
        }
        None
    }

    pub(super) fn schedule(&self) -> Schedule {
        Schedule { validity: self.validity, publish_delay: self.publish_delay }
    }

    /// Returns the permissions that this configuration needs.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RbacPermission> {
        let rule = |group: &str, resource: &str, verb: &str, namespace: Option<&str>, name: Option<&str>| {
            RbacPermission {
                group: group.to_owned(),
                resource: resource.to_owned(),
                verb: verb.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
            }
        };
        let namespace = Some(self.namespace.as_str());
        // RBAC does not know the name of a new object.
        let mut rules = vec![rule("", "secrets", "create", namespace, None)];
        for verb in ["get", "update"] {
            rules.push(rule("", "secrets", verb, namespace, Some(&self.name)));
        }
        for target in &self.targets {
            let (group, plural, name) = target.parts();
            rules.extend(["get", "patch"].map(|verb| rule(&group, &plural, verb, None, Some(&name))));
        }
        rules.into_iter()
    }
}

/// Returns whether a text can be the name of an object or namespace: a DNS subdomain of RFC 1123.
fn is_object_name(name: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().last()];
        let is_inner = |byte| is_alphanumeric(byte) || byte == b'-';
        ends.into_iter().all(|end| end.is_some_and(is_alphanumeric)) && label.bytes().all(is_inner)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_reported_with_reason_and_remedy() {
        let valid =
            || SecretCertificate::new("shop", "tls", "web", [CaBundleTarget::Crd("webs.example.com".into())]);
        assert_eq!(valid().invalid(), None);
        let hosts =
            ["127.0.0.1", "::1", "*.shop.svc", "web.shop.svc.cluster.local"].map(str::to_owned).to_vec();
        assert_eq!(SecretCertificate { names: hosts, ..valid() }.invalid(), None);
        let named = |name: &str| SecretCertificate { names: vec![name.to_owned()], ..valid() };
        let (hour, names) = (Duration::from_secs(3600), Vec::new());
        for (option, invalid, reason) in [
            ("namespace", SecretCertificate { namespace: String::new(), ..valid() }, "\"\" is not the name"),
            (
                "name",
                SecretCertificate { name: "a/b".into(), ..valid() },
                "\"a/b\" is not the name of an object",
            ),
            ("name", SecretCertificate { name: "-a".into(), ..valid() }, "use a name such as"),
            ("names", SecretCertificate { names, ..valid() }, "no name is given; add the name"),
            ("names", named(""), "\"\" is not a DNS name"),
            ("names", named("a,b"), "\"a,b\" is not a DNS name or IP address; use `SERVICE.NAMESPACE.svc`"),
            ("names", named("https://web"), "is not a DNS name"),
            (
                "targets",
                SecretCertificate { targets: vec![CaBundleTarget::Validating("A".into())], ..valid() },
                "\"A\" is not the name of an object",
            ),
            (
                "validity",
                SecretCertificate { validity: Duration::MAX, ..valid() },
                "longer than 100 years; use",
            ),
            (
                "validity",
                SecretCertificate { validity: Duration::ZERO, ..valid() },
                "would never be valid; use",
            ),
            ("publish_delay", SecretCertificate { publish_delay: Duration::ZERO, ..valid() }, "0ns is zero"),
            (
                "publish_delay",
                SecretCertificate { validity: hour, publish_delay: hour / 3, ..valid() },
                "1200s is zero, or not",
            ),
            (
                "publish_delay",
                SecretCertificate { publish_delay: Duration::MAX, ..valid() },
                "use for example 10 minutes",
            ),
        ] {
            let (found, text) = invalid.invalid().expect(reason);
            assert_eq!(found, format!("SecretCertificate::{option}"));
            assert!(text.contains(reason), "{text}");
        }
    }
}
