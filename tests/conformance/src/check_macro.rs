//! The macro that declares the checks of one topic.

/// Defines the checks of one topic: sentences, and the functions that check each sentence. A sentence
/// that only some variants of a server satisfy has a method of `Variant` that selects the variants.
macro_rules! checks {
    ($($sentence:literal $(if $on:ident)?: $($check:ident),+;)+) => {
        pub(super) const CHECKS: &[&[$crate::Check]] = &[$({
            // Uses the first predicate.
            const ON: fn($crate::Variant) -> bool =
                [$($crate::Variant::$on as fn(_) -> _,)? $crate::Variant::any][0];
            &[$($crate::Check {
            sentence: $sentence,
            on: ON,
            name: stringify!($check),
            run: |place| Box::pin($check(place)),
        }),+]
        }),+];
    };
}
