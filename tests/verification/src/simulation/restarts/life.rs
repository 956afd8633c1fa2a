//! One life of a process: an informer with its own runtime, until it is stopped or crashes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use kube_client::Client;
use kube_informer::{
    Checkpoint, ClusterId, Informer, ListWatch, Lister, Persist, ReflectorOptions, SnapshotFile,
};
use kube_testserver::{Fault, Request, RequestMatch, Status, Verb};
use parking_lot::Mutex;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

use super::{
    disk::{CacheAtStop, Contents, FolderCopy, Moment, SavedFile},
    handlers::{Keeper, Log, Mirror, Mirrored},
    plan::{LifePlan, Window},
    world::World,
};
use crate::{
    properties::{Key, Object},
    simulation::{object_forms::ObjectForm, workload::PLURAL},
};

/// The annotation that contains the version of the transform.
const TRANSFORM: &str = "transform";
/// The time after the start within which an informer sends its first requests.
const FIRST_REQUESTS: Duration = Duration::from_secs(2);
/// The time within which an informer without faults reaches the state of the server.
const CONVERGENCE: Duration = Duration::from_secs(60);

/// The first requests, by the table in docs/warm-restarts.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstRequests {
    /// A list, without a check of the server's version.
    Cold,
    /// A check, and then a list. The file is removed.
    Discard,
    /// A check, and then a list.
    List,
    /// A check, and then a watch from this version.
    Resume(u64),
    /// A check, and then one of the two.
    Any,
}

/// The contents of a stopped cache, and the files at a crash within a call.
type Lived = (Option<CacheAtStop>, Option<FolderCopy>);

/// A running process.
pub(super) struct Life<'a, T> {
    world: &'a mut World,
    plan: &'a LifePlan,
    informer: Informer<T>,
    cache: Lister<T>,
    mirrored: Arc<Mutex<Mirrored>>,
    is_dead: Arc<AtomicBool>,
    files_at_crash: Arc<Mutex<FolderCopy>>,
    log: Log,
}

/// Runs a process from start to end.
pub(super) fn live<T: ObjectForm + Persist>(world: &mut World, plan: &LifePlan) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O can be built");
    let lived = runtime.block_on(Life::<T>::run(world, plan));
    // After a crash, no task runs again.
    drop(runtime);
    let (lived, files_at_crash) = lived?;
    if let Some(files) = files_at_crash {
        // The process has continued after the crash until the end of its plan.
        files.put_back(world.disk.folder.path());
    }
    let moment = Moment { cache: lived, ..moment(world, plan) };
    world.disk.observe(&moment);
    world.disk.snapshot.block(false).map_err(|error| error.to_string())?;
    world.disk.checkpoint.block(false).map_err(|error| error.to_string())
}

fn moment(world: &World, plan: &LifePlan) -> Moment {
    let restores = plan.is_misled.unwrap_or(world.cluster.restores);
    let calls = world.kept.lock().calls.len();
    let can_write = !plan.is_blocked && plan.max_bytes.is_none();
    Moment { now: world.elapsed, restores, calls, transform: plan.transform, cache: None, can_write }
}

fn transform<T: ObjectForm>(version: u8) -> impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync {
    move |object| {
        if object.is_bad() {
            return Err("the object is marked as bad");
        }
        object.annotate(TRANSFORM, version.to_string());
        Ok(())
    }
}

impl<'a, T: ObjectForm + Persist> Life<'a, T> {
    async fn run(world: &'a mut World, plan: &'a LifePlan) -> Result<Lived, String> {
        let log = Log { lines: Arc::clone(&world.lines), began: Instant::now(), before: world.elapsed };
        let client = Client::new(world.cluster.server.service(), "default");
        let source = ListWatch::<T>::from_client(client, &T::resource(), None, "")
            .transform(transform(plan.transform));
        let options = ReflectorOptions {
            seed: Some(plan.seed),
            page_size: plan.page_size,
            streaming_lists: plan.streams,
            ..ReflectorOptions::default()
        };
        let informer = Informer::from_source(source).reflector_options(options).build();
        let (cache, mirrored, is_dead) = (informer.lister(), Arc::default(), Arc::default());
        let mut life =
            Self { world, plan, informer, cache, mirrored, is_dead, files_at_crash: Arc::default(), log };
        life.log.write(|| format!("{plan:?}"));
        life.register()?;
        let saved = life.restore().await?;
        life.world.disk.snapshot.block(plan.is_blocked).map_err(|error| error.to_string())?;
        life.world.disk.checkpoint.block(plan.is_blocked).map_err(|error| error.to_string())?;
        let stopped = life.act(saved.as_ref()).await;
        life.world.elapsed = life.log.now();
        life.world.journal();
        let files = life.is_dead.load(Relaxed).then(|| std::mem::take(&mut *life.files_at_crash.lock()));
        Ok((stopped?, files))
    }

    fn register(&mut self) -> Result<(), String> {
        let (plan, world) = (self.plan, &*self.world);
        let uids = world.cluster.uids.clone();
        let mirror = Mirror {
            mirrored: Arc::clone(&self.mirrored),
            cache: self.cache.clone(),
            uids: uids.clone(),
            log: self.log.clone(),
        };
        self.informer.add_handler(mirror).detach();
        if !world.files.has_checkpoint() {
            return Ok(());
        }
        let checkpoint = Checkpoint::in_folder(world.disk.folder.path(), ClusterId::from_url("https://sim"))
            .handler_version(plan.handler_version.to_string())
            .interval(plan.interval);
        let checkpoint = plan.max_bytes.map_or(checkpoint.clone(), |max| checkpoint.max_file_bytes(max));
        let keeper = Keeper {
            kept: Arc::clone(&world.kept),
            uids,
            calls_until_crash: plan.calls_until_crash,
            last_call_has_effect: plan.last_call_has_effect,
            is_dead: Arc::clone(&self.is_dead),
            folder: world.disk.folder.path().to_owned(),
            files_at_crash: Arc::clone(&self.files_at_crash),
            log: self.log.clone(),
        };
        let registered = self.informer.add_handler_with_checkpoint("keeper", &checkpoint, keeper);
        registered.map(kube_informer::HandlerRegistration::detach).map_err(|error| error.to_string())
    }

    /// Restores the snapshot. Returns the file if it is used.
    async fn restore(&mut self) -> Result<Option<SavedFile>, String> {
        if !self.world.files.has_snapshot() {
            return Ok(None);
        }
        let plan = self.plan;
        let file = SnapshotFile::in_folder(self.world.disk.folder.path(), ClusterId::from_url("https://sim"))
            .transform_version(plan.transform.to_string())
            .interval(plan.interval);
        let file = plan.max_bytes.map_or(file.clone(), |max| file.max_file_bytes(max));
        let file = match plan.window {
            Window::Closed => file.resume_within(Duration::ZERO),
            Window::Open => file,
        };
        let restored = self.informer.restore_snapshot(&file).await.map_err(|error| error.to_string())?;
        let (usable, why) = match self.world.disk.snapshot.contents() {
            Contents::Intact(file) if file.transform == plan.transform => (Some(file.clone()), "intact"),
            Contents::Intact(_) => (None, "other transform"),
            Contents::Damaged => (None, "damaged"),
            Contents::Missing => (None, "missing"),
        };
        self.world.counts.count(why);
        if restored.is_some() != usable.is_some() {
            return Err(format!("the file is {why}, and the informer restored {restored:?}"));
        }
        let (objects, _) = self.cached();
        let known = usable.as_ref().and_then(|file| file.cache.as_ref());
        if known.is_some_and(|known| known.objects != objects) || usable.is_none() && !objects.is_empty() {
            return Err(format!("the cache contains {objects:?}, and the file {known:?}"));
        }
        if self.informer.has_synced() {
            return Err("the informer is synced before its start".to_owned());
        }
        Ok(usable)
    }

    /// Starts the informer, and runs it with changes and faults until it stops. Returns the contents of a
    /// stopped cache.
    async fn act(&mut self, saved: Option<&SavedFile>) -> Result<Option<CacheAtStop>, String> {
        let plan = self.plan;
        let expected = self.first_requests(saved);
        let is_faultless = !self.world.inject(plan.start_fault);
        self.informer.start();
        if plan.lives_long {
            sleep(FIRST_REQUESTS).await;
            if is_faultless && !self.is_dead.load(Relaxed) {
                self.check_first_requests(expected, saved)?;
            }
            self.look()?;
        }
        for step in &plan.steps {
            self.world.change(&self.log, *step);
            sleep(step.pause).await;
            self.look()?;
        }
        if plan.is_last {
            self.converge().await?;
        }
        if !plan.is_stopped || self.is_dead.load(Relaxed) {
            self.world.counts.count("crash");
            self.log.write(|| "the process crashes".to_owned());
            return Ok(None);
        }
        self.informer.stop().await;
        self.world.counts.count("stop");
        self.log.write(|| "the process has stopped".to_owned());
        let (objects, stale) = self.cached();
        let watermark = self.cache.snapshot().watermark().clone();
        let version = watermark.version.and_then(|version| version.as_str().parse().ok());
        let version = version.filter(|_| watermark.synced);
        // The cache does not contain an object of which no state could be decoded.
        let is_complete = stale.is_empty() && self.informer.status().reflector.undecodable == 0;
        Ok(version.map(|version| CacheAtStop { objects, version, is_complete }))
    }

    /// Returns the decodable cached objects in the order of keys, and the keys of the undecodable objects.
    fn cached(&self) -> (Vec<Object>, Vec<Key>) {
        let (snapshot, uids) = (self.cache.snapshot(), &self.world.cluster.uids);
        let (stale, good): (Vec<_>, Vec<_>) =
            snapshot.iter().partition(|entry| snapshot.is_stale(entry.key()));
        let mut objects: Vec<Object> = good.iter().map(|entry| entry.plain(uids)).collect();
        objects.sort_unstable();
        (objects, stale.iter().map(|entry| entry.plain(uids).key).collect())
    }

    fn first_requests(&self, saved: Option<&SavedFile>) -> FirstRequests {
        let server = self.world.cluster.server.resource_version();
        let Some(saved) = saved else { return FirstRequests::Cold };
        match &saved.cache {
            Some(cache) if server < cache.version => FirstRequests::Discard,
            Some(cache)
                if cache.is_complete
                    && self.plan.window == Window::Open
                    && !self.world.files.has_checkpoint() =>
            {
                FirstRequests::Resume(cache.version)
            }
            Some(_) => FirstRequests::List,
            None => FirstRequests::Any,
        }
    }

    /// Checks the first requests of a process without faults.
    fn check_first_requests(
        &mut self,
        expected: FirstRequests,
        saved: Option<&SavedFile>,
    ) -> Result<(), String> {
        let requests = self.world.cluster.server.journal().requests();
        let mut requests = requests.iter().filter(|request| request.info.resource == PLURAL);
        let is_checked = expected != FirstRequests::Cold;
        let check = if is_checked { requests.next() } else { None };
        let next = requests.next().ok_or("the informer has sent no request")?;
        let parameter = |name| next.parameter(name);
        let right = match expected {
            FirstRequests::Resume(version) => {
                is_watch(next) && parameter("resourceVersion") == Some(version.to_string())
            }
            FirstRequests::Any => true,
            _ => !is_watch(next) && parameter("limit").as_deref() != Some("1"),
        };
        self.world.counts.count(match expected {
            FirstRequests::Cold => "cold start",
            FirstRequests::Discard => "discarded file",
            FirstRequests::List => "list",
            FirstRequests::Resume(_) => "resumed watch",
            FirstRequests::Any => "unknown version",
        });
        let is_check = |check: &Request| check.parameter("limit").as_deref() == Some("1");
        if !right || check.is_some_and(|check| !is_check(check)) {
            return Err(format!("expected {expected:?} and not {:?} {:?}", next.info.verb, next.query));
        }
        let moment = Moment { now: self.log.now(), ..moment(self.world, self.plan) };
        self.world.disk.observe(&moment);
        match self.world.disk.snapshot.contents() {
            Contents::Intact(file)
                if expected == FirstRequests::Discard && saved.is_some_and(|saved| saved.is_same(file)) =>
            {
                Err("the discarded file exists".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks the contents of the cache and of the mirror, if they are verified.
    fn look(&mut self) -> Result<(), String> {
        if self.is_dead.load(Relaxed) {
            return Ok(());
        }
        let moment = Moment { now: self.log.now(), ..moment(self.world, self.plan) };
        self.world.disk.observe(&moment);
        let mirrored = self.mirrored.lock();
        if let Some(violation) = &mirrored.violation {
            return Err(format!("a handler received a wrong call: {violation}"));
        }
        let status = self.informer.status();
        if status.synced && status.restored.is_some() {
            return Err("the informer is synced, and its contents are not verified".to_owned());
        }
        if !status.synced || self.plan.is_misled.is_some() {
            return Ok(());
        }
        let (objects, stale) = self.cached();
        let delivered = mirrored.objects.values().filter(|object| !stale.contains(&object.key));
        for (place, object) in
            objects.iter().map(|object| ("cache", object)).chain(delivered.map(|object| ("handler", object)))
        {
            if !self.world.cluster.has_had(object) {
                return Err(format!("the {place} has an object of another history: {object:?}"));
            }
        }
        let version = self.plan.transform.to_string();
        let snapshot = self.cache.snapshot();
        let mut stamped = snapshot.iter().filter(|entry| entry.is_marked().is_some());
        match stamped.find(|entry| entry.annotation(TRANSFORM).as_ref() != Some(&version)) {
            Some(entry) => Err(format!("{} is of another transform than {version}", entry.id)),
            None => Ok(()),
        }
    }

    /// Waits without faults. The cache and the handlers must then have the state of the server.
    async fn converge(&mut self) -> Result<(), String> {
        sleep(CONVERGENCE).await;
        self.look()?;
        let ((objects, stale), server) = (self.cached(), self.world.cluster.objects());
        if objects != server || !stale.is_empty() {
            return Err(format!("the cache has {objects:?} and {stale:?}, the server has {server:?}"));
        }
        let mirrored: Vec<Object> = self.mirrored.lock().objects.values().copied().collect();
        if mirrored != server {
            return Err(format!("the handler has {mirrored:?}, the server has {server:?}"));
        }
        if !self.world.files.has_checkpoint() {
            return Ok(());
        }
        let kept = self.world.kept.lock();
        let expected = server.iter().map(|object| (object.key, (object.uid, object.value)));
        let expected: Vec<_> = expected.filter(|(key, _)| !kept.excused.contains(key)).collect();
        let found = kept.objects.iter().map(|(key, kept)| (*key, *kept));
        let found: Vec<_> = found.filter(|(key, _)| !kept.excused.contains(key)).collect();
        match found == expected {
            true => Ok(()),
            false => Err(format!("the handler with a checkpoint has kept {found:?}, not {expected:?}")),
        }
    }
}

/// Returns whether the request is a watch without an initial list.
fn is_watch(request: &Request) -> bool {
    request.info.verb == Verb::Watch && !request.query.contains("sendInitialEvents=true")
}

/// A fault of the first requests of a process.
pub(super) fn start_fault(choice: u8) -> Option<(RequestMatch, Fault)> {
    let verb = if choice.is_multiple_of(2) { Verb::List } else { Verb::Watch };
    let fault = match choice / 2 {
        0 => Fault::internal_error("etcdserver: request timed out"),
        1 => Fault::Reset,
        2 => Fault::Hang,
        3 => Fault::gone(),
        4 => Fault::ErrorEvent { after: 0, status: Status::expired() },
        _ => return None,
    };
    Some((RequestMatch::verb(verb), fault))
}
