//! `Priority`: which keys go first, and for how long.

/// How many seconds of waiting a key is given for free: it stands in the line as if it had come so much earlier.
///
/// So keys of a higher priority go first, and none of a lower one starves: after so many seconds it goes before whatever
/// comes later. The numbers are those of controller-runtime, where the initial list has -100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(
    /// Seconds; negative for what may wait.
    pub i32,
);

impl Priority {
    /// That of [`WorkQueue::add`](crate::WorkQueue::add).
    pub const NORMAL: Self = Self(0);
    /// For what may wait a minute or two, such as the objects that were there before the program.
    pub const LOW: Self = Self(-100);
}
