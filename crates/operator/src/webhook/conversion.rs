//! `Conversion`: converts custom resources between the versions of a CRD.

use std::{any::Any, collections::BTreeMap, fmt::Display, panic::AssertUnwindSafe};

use kube_client::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::review::{WebhookError, request_of};

const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// Converts the objects of a CRD between its versions, through the type `Hub`. This is the hub-and-spoke
/// model of controller-runtime: each version needs a conversion from and to the hub only.
///
/// ```
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
/// # struct WebsiteSpec { hosts: Vec<String> }
/// # mod v1beta1 {
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1beta1", kind = "Website", namespaced)]
/// # pub struct WebsiteSpec { pub host: String }
/// # }
/// use kube_operator::webhook::{Conversion, Webhooks};
///
/// impl From<v1beta1::Website> for Website {
///     fn from(old: v1beta1::Website) -> Self {
///         Self { metadata: old.metadata, spec: WebsiteSpec { hosts: vec![old.spec.host] } }
///     }
/// }
///
/// impl TryFrom<Website> for v1beta1::Website {
///     type Error = &'static str;
///
///     fn try_from(new: Website) -> Result<Self, Self::Error> {
///         let host = new.spec.hosts.into_iter().next().ok_or("spec.hosts is empty")?;
///         Ok(Self { metadata: new.metadata, spec: v1beta1::WebsiteSpec { host } })
///     }
/// }
///
/// let conversion = Conversion::<Website>::new().version::<v1beta1::Website>();
/// let webhooks = Webhooks::new().convert("/convert", conversion);
/// ```
pub struct Conversion<Hub> {
    /// The conversions of each version, by its `apiVersion`, including the version of the hub.
    versions: BTreeMap<String, Version<Hub>>,
}

/// The conversions of a version.
struct Version<Hub> {
    to_hub: ConvertFn<Value, Hub>,
    from_hub: ConvertFn<Hub, Value>,
}

type ConvertFn<From, To> = Box<dyn Fn(From) -> Result<To, String> + Send + Sync>;

/// Reports an object that cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("cannot convert {kind} {name} from {from} to {to}: {reason}")]
pub struct ConversionError {
    kind: String,
    name: String,
    from: String,
    to: String,
    reason: String,
}

impl<Hub> Default for Conversion<Hub>
where
    Hub: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<Hub> Conversion<Hub>
where
    Hub: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
{
    /// Creates a conversion that contains only the version of the hub.
    pub fn new() -> Self {
        let hub = Version { to_hub: Box::new(decode), from_hub: Box::new(|hub: Hub| encode(&hub)) };
        Self { versions: BTreeMap::from([(Hub::api_version(&()).into_owned(), hub)]) }
    }

    /// Adds a version of the CRD.
    ///
    /// A conversion cannot change `metadata`, except for labels and annotations. If another version cannot
    /// represent a field, store the field in an annotation. A round trip then loses no data.
    ///
    /// # Panics
    /// Panics if the version exists already.
    #[must_use]
    pub fn version<V>(mut self) -> Self
    where
        V: Resource<DynamicType = ()> + Serialize + DeserializeOwned + TryInto<Hub> + TryFrom<Hub> + 'static,
        <V as TryInto<Hub>>::Error: Display,
        <V as TryFrom<Hub>>::Error: Display,
    {
        let version = Version {
            to_hub: Box::new(|object| decode::<V>(object)?.try_into().map_err(|error| error.to_string())),
            from_hub: Box::new(|hub| {
                encode(&V::try_from(hub).map_err(|error: <V as TryFrom<Hub>>::Error| error.to_string())?)
            }),
        };
        let name = V::api_version(&()).into_owned();
        let replaced = self.versions.insert(name.clone(), version);
        assert!(replaced.is_none(), "the conversion has the version {name} already");
        self
    }
}

fn decode<K: DeserializeOwned>(object: Value) -> Result<K, String> {
    serde_json::from_value(object).map_err(|error| error.to_string())
}

fn encode<K: Serialize>(object: &K) -> Result<Value, String> {
    serde_json::to_value(object).map_err(|error| error.to_string())
}

impl<Hub> Conversion<Hub> {
    /// Converts an object to a version such as `example.com/v1`.
    ///
    /// # Errors
    /// Returns a [`ConversionError`] if a version is unknown, if the object does not match the type of its
    /// version, or if the conversion fails or panics.
    pub fn convert(&self, object: Value, version: &str) -> Result<Value, ConversionError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (from, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        if from == version {
            return Ok(object);
        }
        let metadata = object["metadata"].clone();
        self.through_hub(object, &from, version)
            .map(|converted| complete(converted, version, &kind, &metadata))
            .map_err(|reason| {
                let name = [&metadata["namespace"], &metadata["name"]].map(text);
                let name = name.join("/").trim_start_matches('/').to_owned();
                ConversionError { kind, name, from, to: version.to_owned(), reason }
            })
    }

    fn through_hub(&self, object: Value, from: &str, to: &str) -> Result<Value, String> {
        let find = |version: &str| {
            self.versions.get(version).ok_or_else(|| {
                let known = self.versions.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("the webhook does not support the version {version}, only {known}")
            })
        };
        let (from, to) = (find(from)?, find(to)?);
        let convert = || (to.from_hub)((from.to_hub)(object)?);
        std::panic::catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|panic| Err(panic_text(&*panic)))
    }

    /// Answers a ConversionReview. If one object cannot be converted, the result is a failure. If the token
    /// is cancelled, the result is incomplete, and no client receives it.
    pub(super) fn review(&self, mut review: Value, stop: &CancellationToken) -> Result<Value, WebhookError> {
        let expected = "apiextensions.k8s.io/v1/ConversionReview";
        let mut request = request_of(&mut review, API_VERSION, "ConversionReview", expected)?;
        let invalid =
            |field: &str| WebhookError::InvalidReview(format!("the field `request.{field}` is missing"));
        let Value::Array(objects) = request["objects"].take() else { return Err(invalid("objects")) };
        let version = request["desiredAPIVersion"].as_str().ok_or_else(|| invalid("desiredAPIVersion"))?;
        let wanted = objects.into_iter().take_while(|_| !stop.is_cancelled());
        let converted: Result<Vec<_>, _> = wanted.map(|object| self.convert(object, version)).collect();
        let mut response = json!({"uid": request["uid"]});
        match converted {
            Ok(objects) => {
                response["convertedObjects"] = objects.into();
                response["result"] = json!({"status": "Success"});
            }
            Err(error) => response["result"] = json!({"status": "Failure", "message": error.to_string()}),
        }
        Ok(json!({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response}))
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("the conversion panicked: {}", text.unwrap_or("(no text)"))
}

/// Sets the parts of a converted object that a conversion cannot change.
fn complete(mut converted: Value, version: &str, kind: &str, metadata: &Value) -> Value {
    let mut kept = metadata.clone();
    for key in ["labels", "annotations"] {
        match converted["metadata"][key].take() {
            Value::Null => {
                kept.as_object_mut().map(|kept| kept.remove(key));
            }
            changed => kept[key] = changed,
        }
    }
    converted["metadata"] = kept;
    converted["apiVersion"] = version.into();
    converted["kind"] = kind.into();
    converted
}
