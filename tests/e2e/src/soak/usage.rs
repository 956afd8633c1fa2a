//! The memory, tasks and sockets of the process.

use std::fmt;
use std::os::unix::fs::FileTypeExt as _;

use tokio::runtime::Handle;

/// The permitted growth of the live bytes. Writes create and delete objects, so the number of cached
/// objects varies.
const GROWTH_PERCENT: usize = 5;
/// The permitted number of further tasks and sockets. A client keeps idle connections until the server closes
/// them, so the number varies.
const IDLE_CONNECTIONS: usize = 5;

/// Contains the resources that a process uses at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The allocated bytes that are not freed.
    pub bytes: usize,
    /// The tasks of the runtime.
    pub tasks: usize,
    /// The open sockets.
    pub sockets: usize,
}

impl Usage {
    /// Returns the usage of this process.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn now(bytes: usize) -> Self {
        Self { bytes, tasks: Handle::current().metrics().num_alive_tasks(), sockets: sockets() }
    }

    /// Returns whether this usage is not higher than a baseline.
    #[must_use]
    pub fn is_within(&self, baseline: &Self) -> bool {
        self.bytes <= baseline.bytes / 100 * (100 + GROWTH_PERCENT)
            && self.tasks <= baseline.tasks + IDLE_CONNECTIONS
            && self.sockets <= baseline.sockets + IDLE_CONNECTIONS
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes as f64 / f64::from(1 << 20);
        write!(f, "{mebibytes:.1} MiB, {} tasks, {} sockets", self.tasks, self.sockets)
    }
}

/// Returns the number of open sockets of this process.
fn sockets() -> usize {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let is_socket = |path: &std::path::Path| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
    };
    open.flatten().filter(|file| is_socket(&file.path())).count()
}
