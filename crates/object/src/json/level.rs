//! The set of vector instructions of this processor. It is detected once.

use std::sync::LazyLock;

use fearless_simd::Level;

pub(super) static LEVEL: LazyLock<Level> = LazyLock::new(Level::new);

/// Returns the sets of instructions that this processor supports.
#[cfg(test)]
pub(super) fn all_levels() -> Vec<Level> {
    #[cfg(target_arch = "x86_64")]
    {
        use fearless_simd::Simd as _;
        let optional = [LEVEL.as_sse4_2().map(|simd| simd.level()), LEVEL.as_avx2().map(|simd| simd.level())];
        [Level::baseline(), *LEVEL].into_iter().chain(optional.into_iter().flatten()).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![Level::baseline(), *LEVEL]
}
