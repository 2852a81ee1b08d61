//! How the small kernels differ.

/// How a kernel can differ from that of most tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variant {
    /// `struct page` has `compound_info`, and a tail page's is a mask (from Linux 7.0 on).
    pub compound_masks: bool,
    /// Both slab caches serve other users of that size, too (`refcount` 2).
    pub merged_caches: bool,
    /// There is an image of CPU 0's `rq`, whose pointers lead to [`STATS`](super::STATS) and
    /// [`POINTED`](super::POINTED).
    pub pointers: bool,
    /// The `rq` of [`RQ`](super::RQ) is `rq@server`, and there is another `rq`, which nothing is
    /// of; `entity_t` is an `entity`.
    pub namesakes: bool,
}
