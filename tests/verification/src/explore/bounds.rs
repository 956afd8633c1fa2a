//! How far the explorer goes.

/// What a server makes of a streaming list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Streams {
    /// It sends one.
    Sent,
    /// It refuses the parameters.
    Refused,
    /// It takes them for those of a watch, and never tells the end of the list.
    Ignored,
    /// The reflector does not ask for one.
    Unasked,
}

/// What there is at most of everything that does not come to an end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Objects, by name.
    pub objects: u32,
    /// Writes of the server.
    pub changes: u8,
    /// Faults.
    pub faults: u8,
    /// Watches that end or deadlines that fire without need, and relists that are asked for.
    pub times: u8,
    /// Handlers that are there from the beginning.
    pub handlers: u32,
    /// Handlers that join late, are removed, or are shown everything again.
    pub moves: u8,
    /// Streaming lists.
    pub streams: Streams,
    /// The first list may show an old state.
    pub stale_start: bool,
    /// Objects in the queue in front of the store.
    pub queue: usize,
    /// The mark of the backlogs.
    pub mark: usize,
    /// Items of a page.
    pub page: u32,
    /// An index is asked after each write of the store, not only by handlers.
    pub queries: bool,
    /// Other things happen between a handler's call and its return.
    pub slow_calls: bool,
    /// Handlers take what waits for them before anything else happens.
    pub prompt_handlers: bool,
    /// What is queued is applied before anything else happens.
    pub prompt_store: bool,
}
