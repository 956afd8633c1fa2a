//! `Stored`: the certificates of webhooks in a Secret.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

use super::rotation::{Rotation, Schedule, Stage, Step};

/// The annotation that contains the [`Rotation`].
const ROTATION: &str = "kube-informer.dev/certificate-rotation";

/// The annotation that contains the names in the certificates, separated by commas.
const NAMES: &str = "kube-informer.dev/certificate-names";

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    key: Key,
}

/// A private key. The debug text does not contain the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(pub(super) String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The contents of the Secret. The certificates are self-signed, so each one is also the CA that verifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The certificate that is served: `tls.crt` and `tls.key`.
    pub(super) current: Pair,
    /// The certificate that is served after `Promote`: `next.crt` and `next.key`.
    next: Option<Pair>,
    /// The certificates with which clients verify the webhooks: `ca.crt`.
    pub(super) bundle: String,
    /// The DNS names and IP addresses for which the certificates are valid.
    pub(super) names: BTreeSet<String>,
    pub(super) rotation: Rotation,
}

/// The contents of a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Stored(Stored),
    /// The Secret has no data yet, or only empty values.
    Empty,
    /// The Secret contains other data. The text is the reason.
    Unusable(String),
}

impl Pair {
    /// Creates a certificate that is valid for these names, from yesterday, because clocks differ.
    pub(super) fn create(
        names: &BTreeSet<String>,
        now: Timestamp,
        schedule: Schedule,
    ) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
        if let Some(name) = names.first() {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        let today = now.to_zoned(TimeZone::UTC).date();
        let days = i64::try_from(schedule.validity.as_secs().div_ceil(24 * 3600)).unwrap_or(i64::MAX);
        let end = today.checked_add((days.saturating_add(1)).days()).unwrap_or(jiff::civil::Date::MAX);
        let start = today.yesterday().unwrap_or(today);
        let date = |date: jiff::civil::Date| {
            date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
        };
        (params.not_before, params.not_after) = (date(start), date(end));
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, key: Key(key.serialize_pem()) })
    }

    pub(super) fn key(&self) -> &str {
        &self.key.0
    }
}

impl Stored {
    pub(super) fn new(current: Pair, names: BTreeSet<String>, now: Timestamp) -> Self {
        let bundle = current.certificate.clone();
        Self { current, next: None, bundle, names, rotation: Rotation::new(now) }
    }

    /// Reads a Secret.
    pub(super) fn read(secret: &Secret) -> Content {
        let data = secret.data.iter().flatten();
        // A chart can create the Secret. `kubernetes.io/tls` then requires the keys, which can be empty.
        if data.into_iter().all(|(_, value)| value.0.is_empty()) {
            return Content::Empty;
        }
        Self::parse(secret).map_or_else(Content::Unusable, Content::Stored)
    }

    /// Returns the contents, or the part that is missing or invalid.
    fn parse(secret: &Secret) -> Result<Self, String> {
        let text = |key: &str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            let text = value.and_then(|value| String::from_utf8(value.0.clone()).ok());
            text.ok_or_else(|| format!("the field `{key}` is missing or invalid"))
        };
        let annotation = |key: &str| {
            let value = secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
            let missing = || format!("the annotation {key} is missing, so another program wrote the Secret");
            value.cloned().ok_or_else(missing)
        };
        let pair = |name: &str| {
            let (certificate, key) = (text(&format!("{name}.crt"))?, text(&format!("{name}.key"))?);
            Ok::<_, String>(Pair { certificate, key: Key(key) })
        };
        let rotation = serde_json::from_str(&annotation(ROTATION)?)
            .map_err(|error| format!("the annotation {ROTATION} is invalid: {error}"))?;
        let names = annotation(NAMES)?.split(',').map(str::to_owned).collect();
        Ok(Self { current: pair("tls")?, next: pair("next").ok(), bundle: text("ca.crt")?, names, rotation })
    }

    /// Writes the contents into a Secret. Keeps its metadata, and its type, which cannot change.
    pub(super) fn write(&self, secret: &mut Secret) {
        let mut data = vec![
            ("tls.crt", self.current.certificate.as_str()),
            ("tls.key", self.current.key()),
            ("ca.crt", self.bundle.as_str()),
        ];
        if let Some(next) = &self.next {
            data.extend([("next.crt", next.certificate.as_str()), ("next.key", next.key())]);
        }
        let bytes = |(key, text): (&str, &str)| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
        secret.data = Some(data.into_iter().map(bytes).collect());
        secret.type_.get_or_insert_with(|| "kubernetes.io/tls".to_owned());
        let rotation = serde_json::json!(self.rotation).to_string();
        let names = self.names.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.extend([(ROTATION.to_owned(), rotation), (NAMES.to_owned(), names)]);
    }

    /// Returns the contents after a step. `create` creates a certificate.
    ///
    /// # Errors
    /// Returns the error of `create`.
    pub(super) fn after(
        &self,
        step: Step,
        now: Timestamp,
        create: impl FnOnce() -> Result<Pair, rcgen::Error>,
    ) -> Result<Self, rcgen::Error> {
        let (current, created, names) = (self.current.clone(), self.rotation.created, self.names.clone());
        let bundle = |pairs: [&Pair; 2]| pairs.map(|pair| pair.certificate.as_str()).concat();
        Ok(match (step, &self.next) {
            (Step::Publish, _) => {
                let next = create()?;
                let bundle = bundle([&current, &next]);
                let rotation = Rotation { created, stage: Stage::Published, since: now };
                Self { current, next: Some(next), bundle, names, rotation }
            }
            (Step::Promote, Some(next)) => {
                let rotation = Rotation { created: self.rotation.since, stage: Stage::Promoted, since: now };
                Self { current: next.clone(), next: None, bundle: bundle([next, &current]), names, rotation }
            }
            (Step::Retire, _) => Self {
                bundle: current.certificate.clone(),
                current,
                next: None,
                names,
                rotation: Rotation { created, stage: Stage::Stable, since: now },
            },
            // Without the next certificate, another client has changed the Secret.
            (Step::Replace | Step::Promote, _) => Self::new(create()?, names, now),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bundle_always_contains_the_served_certificates() {
        let schedule =
            Schedule { validity: Duration::from_secs(3600), publish_delay: Duration::from_secs(60) };
        let now = Timestamp::UNIX_EPOCH;
        let names = BTreeSet::from(["web.shop.svc".to_owned()]);
        let create = || Pair::create(&names, now, schedule);
        let first = Stored::new(create().unwrap(), names.clone(), now);
        let published = first.after(Step::Publish, now, create).unwrap();
        assert_eq!(published.current, first.current);
        let promoted = published.after(Step::Promote, now, create).unwrap();
        assert_ne!(promoted.current, first.current);
        let retired = promoted.after(Step::Retire, now, create).unwrap();
        for (stored, served) in [
            (&first, vec![&first.current]),
            (&published, vec![&first.current]),
            (&promoted, vec![&first.current, &promoted.current]),
            (&retired, vec![&promoted.current]),
        ] {
            assert!(served.iter().all(|pair| stored.bundle.contains(&pair.certificate)));
            let mut secret = Secret::default();
            stored.write(&mut secret);
            assert_eq!(Stored::read(&secret), Content::Stored(stored.clone()));
            assert!(!format!("{stored:?}").contains("PRIVATE KEY"));
        }
        assert_eq!(retired.bundle, promoted.current.certificate);
        // The bundle contains the next certificate before a replica serves it.
        assert!(published.bundle.contains(&promoted.current.certificate));
    }

    #[test]
    fn secret_with_empty_values_is_empty_and_other_data_is_unusable() {
        let secret = |value: &str| {
            let value = ByteString(value.as_bytes().to_vec());
            let data = ["tls.crt", "tls.key"].map(|key| (key.to_owned(), value.clone()));
            Secret { data: Some(data.into()), ..Secret::default() }
        };
        assert_eq!(Stored::read(&Secret::default()), Content::Empty);
        assert_eq!(Stored::read(&secret("")), Content::Empty);
        let reason = format!("the annotation {ROTATION} is missing, so another program wrote the Secret");
        assert_eq!(Stored::read(&secret("x")), Content::Unusable(reason));
    }
}
