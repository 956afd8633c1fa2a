//! `LeaseClient`: the requests for the Leases of a group. Each request is sent at most once, and has a time
//! limit.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use kube_client::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use kube_informer::{Informer, ListWatch, ObjectKey, ResourceVersion};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{
    lease_objects::{
        GROUP_LABEL, is_member_name, kill_patch, member_patch, parse_member, parse_table, table_patch,
    },
    member::StoredTable,
    own_lease::{MemberInfo, MemberLease},
    peers::Kill,
    sharding::{Group, ShardOptions},
    table::Table,
};
use crate::{
    election::{
        lease_error,
        lease_object::{lease_resource, next_renew_time},
        no_retry::NoRetry,
    },
    log_throttle::LogThrottle,
};

/// Sends the requests of one member.
pub(super) struct LeaseClient {
    api: Api<DynamicObject>,
    key: ObjectKey,
    /// The name of this member.
    name: String,
    lease_duration: Duration,
    request_timeout: Duration,
    /// The renew time of the last write.
    renewed: Mutex<Option<Timestamp>>,
    failure_log: Mutex<LogThrottle>,
}

/// A failed request.
#[derive(Debug)]
pub(super) struct RequestFailure {
    verb: &'static str,
    lease: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// The Lease was changed or deleted by another process.
    Conflict,
    Timeout(Duration),
    Other(String),
}

impl RequestFailure {
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.cause, Cause::Conflict)
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} the Lease {}: ", self.verb, self.lease)?;
        match &self.cause {
            Cause::Conflict => f.write_str("the Lease was changed by another process"),
            Cause::Timeout(limit) => write!(f, "no response within {limit:?}"),
            Cause::Other(text) => f.write_str(text),
        }
    }
}

impl LeaseClient {
    pub(super) fn new(client: Client, options: &ShardOptions, name: &str) -> Self {
        let client = NoRetry::new().client(client);
        Self {
            api: Api::namespaced_with(client, &options.namespace, &lease_resource()),
            key: options.key(),
            name: name.to_owned(),
            lease_duration: options.times.lease_duration,
            request_timeout: options.times.renew_deadline / 2,
            renewed: Mutex::default(),
            failure_log: Mutex::default(),
        }
    }

    /// Starts an informer of the Leases of the group.
    pub(super) fn informer(&self) -> Informer<DynamicObject> {
        let source = ListWatch::dynamic(self.api.clone(), &lease_resource()).labels(&self.selector());
        let informer = Informer::from_source(source).name(format!("Leases of {}", self.key)).build();
        informer.start();
        informer
    }

    /// Reads the table, and the version of the server's history. Returns no table if it does not exist.
    pub(super) async fn read_table(&self) -> Result<(ResourceVersion, Option<StoredTable>), RequestFailure> {
        let params = ListParams::default().fields(&format!("metadata.name={}", self.key.name()));
        let leases = self.send("read", self.key.name(), self.api.list(&params)).await?;
        let history = ResourceVersion::new(leases.metadata.resource_version.as_deref().unwrap_or_default());
        Ok((history, leases.items.first().map(parse_table)))
    }

    /// Reads the Leases of all other members.
    pub(super) async fn list_members(&self) -> Result<BTreeMap<String, MemberLease>, RequestFailure> {
        let params = ListParams::default().labels(&self.selector());
        let leases = self.send("list", self.key.name(), self.api.list(&params)).await?;
        let named = leases.items.iter().filter_map(|lease| Some((lease.metadata.name.clone()?, lease)));
        let others = named.filter(|(name, _)| *name != self.name && is_member_name(self.key.name(), name));
        Ok(others.map(|(name, lease)| (name, parse_member(lease))).collect())
    }

    /// Creates the table, or changes the table if it still has this version.
    pub(super) async fn write_table(
        &self,
        over: Option<&StoredTable>,
        table: &Table,
    ) -> Result<StoredTable, RequestFailure> {
        let patch = table_patch((self.key.name(), self.key.name()), over, table);
        Ok(parse_table(&self.write(self.key.name(), over.is_none(), patch).await?))
    }

    /// Reads a Lease. Returns `None` if it does not exist.
    pub(super) async fn read_member(&self, name: &str) -> Result<Option<MemberLease>, RequestFailure> {
        let lease = self.send("read", name, self.api.get_opt(name)).await?;
        Ok(lease.as_ref().map(parse_member))
    }

    /// Creates the own Lease, or renews the Lease if it still has this version.
    pub(super) async fn write_member(
        &self,
        over: Option<&MemberLease>,
        info: MemberInfo,
    ) -> Result<MemberLease, RequestFailure> {
        let now = {
            let mut renewed = self.renewed.lock();
            let now = next_renew_time(*renewed, Timestamp::now());
            *renewed.insert(now)
        };
        let patch = member_patch((self.key.name(), &self.name), over, info, self.lease_duration, now);
        Ok(parse_member(&self.write(&self.name, over.is_none(), patch).await?))
    }

    /// Marks the Lease of another member as killed.
    pub(super) async fn kill(&self, kill: &Kill) -> Result<MemberLease, RequestFailure> {
        let patch = kill_patch(self.key.name(), kill, &self.name);
        Ok(parse_member(&self.write(&kill.member, false, patch).await?))
    }

    /// Deletes a killed Lease.
    pub(super) async fn remove(&self, kill: &Kill) -> Result<(), RequestFailure> {
        let preconditions = Preconditions {
            uid: Some(kill.uid.clone()),
            resource_version: Some(kill.version.as_str().into_owned()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.send("delete", &kill.member, self.api.delete(&kill.member, &params)).await.map(|_| ())
    }

    /// Deletes the own Lease.
    pub(super) async fn leave(&self, group: &Group) {
        let stored = group.member.lock().own.stored().cloned();
        let Some(lease) = stored else { return };
        // Without the version, because a write may be in flight.
        let preconditions = Preconditions { uid: Some(lease.uid), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        if let Err(failure) = self.send("delete", &self.name, self.api.delete(&self.name, &params)).await {
            tracing::warn!(group = %self.key, %failure, "cannot delete the Lease of this process; another process deletes it later");
        }
    }

    /// Logs a failure. Conflicts are usual, and have the level debug.
    pub(super) fn log(&self, failure: &RequestFailure) {
        if failure.is_conflict() {
            tracing::debug!(group = %self.key, %failure, "request of the shard group failed; reading the Lease again");
        } else if let Some(suppressed) = self.failure_log.lock().allow(Instant::now()) {
            tracing::warn!(group = %self.key, %failure, suppressed, "request of the shard group failed");
        }
    }

    fn selector(&self) -> String {
        format!("{GROUP_LABEL}={}", self.key.name())
    }

    async fn write(&self, name: &str, is_new: bool, patch: Value) -> Result<DynamicObject, RequestFailure> {
        if is_new {
            let invalid =
                |error: serde_json::Error| self.failure("create", name, Cause::Other(error.to_string()));
            let lease = serde_json::from_value(patch).map_err(invalid)?;
            return self.send("create", name, self.api.create(&PostParams::default(), &lease)).await;
        }
        let params = PatchParams::default();
        self.send("patch", name, self.api.patch(name, &params, &Patch::Merge(patch))).await
    }

    async fn send<T>(
        &self,
        verb: &'static str,
        name: &str,
        request: impl Future<Output = kube_client::Result<T>>,
    ) -> Result<T, RequestFailure> {
        match timeout(self.request_timeout, request).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(kube_client::Error::Api(status)))
                if status.is_conflict()
                    || status.is_already_exists()
                    || (status.is_not_found() && verb != "create") =>
            {
                Err(self.failure(verb, name, Cause::Conflict))
            }
            Ok(Err(error)) => Err(self.failure(verb, name, Cause::Other(lease_error(error)))),
            Err(_) => Err(self.failure(verb, name, Cause::Timeout(self.request_timeout))),
        }
    }

    fn failure(&self, verb: &'static str, name: &str, cause: Cause) -> RequestFailure {
        let lease = ObjectKey::new(self.key.namespace(), name).to_string();
        RequestFailure { verb, lease, cause }
    }
}
