//! Counts the steps of a comparison. Tests compare the steps for small and for large objects.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Adds steps: visited fields, list items and entries of managedFields.
#[cfg(test)]
pub(super) fn add(steps: usize) {
    STEPS.with(|all| all.set(all.get() + steps));
}

#[cfg(not(test))]
pub(super) fn add(_: usize) {}

/// Returns the number of steps of a function.
#[cfg(test)]
pub(super) fn steps_of<T>(run: impl FnOnce() -> T) -> usize {
    STEPS.with(|all| all.set(0));
    run();
    STEPS.with(std::cell::Cell::get)
}
