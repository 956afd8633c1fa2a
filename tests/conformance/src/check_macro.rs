//! The macro that declares the checks of one topic.

/// The checks of one topic: sentences, and below each the functions that check it. A sentence that not every variant of
/// a server keeps names the method of `Variant` that says which do.
macro_rules! checks {
    ($($sentence:literal $(if $on:ident)?: $($check:ident),+;)+) => {
        pub(super) const CHECKS: &[&[$crate::Check]] = &[$({
            // Of one or two predicates the first counts.
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
