//! What the code of the pages for those who come from elsewhere runs on; the pages themselves are compiled and run as tests of
//! this module.

pub use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
pub use kube_operator::{
    Action, Applier, Controller, ElectionOptions, EventType, Failure, LeaseTimes, Manager, ManagerOptions,
    OperationResult, Predicate, Reconciler, Request, RunsOn, WriteError, create_or_update, new_condition,
    set_condition, set_controller_reference,
};
pub use kube_workqueue::ItemExponentialFailureRateLimiter;

pub use crate::pages::guide::{
    Api, CachedApi, Client, Duration, Event, InformerFactory, ObjectKey, Patch, PatchParams, Pod, StreamExt,
    json, run,
};

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/from-controller-runtime.md")]
pub struct FromControllerRuntime;

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/from-kube-runtime.md")]
pub struct FromKubeRuntime;

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/from-client-go.md")]
pub struct FromClientGo;

/// In place of that of kube-operator: comes at once.
///
/// # Cancel safety
/// There is nothing to lose.
pub async fn shutdown_signal() {}
