//! The purpose of allocation sites: page tables, contents, slabs, or something else.
//!
//! The kernel marks most of that in `struct page` (see [`crate::map::PageUse`]), but a page that
//! came and went between the two memory images has only its site. Function names are stable over
//! many versions; a missing name costs an entry under "unknown" and never gives a wrong type.

/// The purpose of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteUse {
    PageTable,
    /// Contents of a process, file, pipe or socket.
    Contents,
    Slab,
    Other,
}

/// Functions whose name contains one of these allocate page tables (arch/x86/mm/pgtable.c,
/// mm/memory.c).
const PAGE_TABLE: [&str; 8] = [
    "pte_alloc",
    "pmd_alloc",
    "pud_alloc",
    "p4d_alloc",
    "pgd_alloc",
    "pgtable",
    "_pgd_",
    "preallocate_pmds",
];

/// Functions whose name contains one of these allocate memory for data of processes and files
/// (mm/memory.c, mm/filemap.c, mm/shmem.c, fs/pipe.c, net/core/skbuff.c, fs/exec.c).
const CONTENTS: [&str; 18] = [
    "vma_alloc_folio",
    "folio_prealloc",
    "filemap",
    "page_cache",
    "readahead",
    "shmem",
    "anonymous",
    "wp_page",
    "do_cow",
    "pipe_write",
    "anon_pipe",
    "skb_page_frag",
    "page_frag",
    "kmalloc_reserve",
    "__alloc_skb",
    "alloc_skb_with_frags",
    "get_arg_page",
    "getname",
];

/// Functions that get pages for slabs (mm/slub.c).
const SLAB: [&str; 4] = [
    "allocate_slab",
    "alloc_slab_page",
    "new_slab",
    "___slab_alloc",
];

/// Functions that only fill whole pages with zeros before they are used
/// (arch/x86/lib/clear_page_64.S; from Linux 6.19 on inlined into the others, mm/page_alloc.c and
/// include/linux/highmem.h).
const CLEARS_PAGES: [&str; 6] = [
    "clear_page_erms",
    "clear_page_rep",
    "clear_page_orig",
    "__clear_pages_unrolled",
    "clear_highpages_kasan_tagged",
    "kernel_init_pages",
];

/// Functions that take an object of a cache out of a stock filled in bulk before (mm/slub.c, from
/// Linux 6.18 on).
const TAKES_FROM_STOCK: &str = "kmem_cache_alloc_from_sheaf";

/// Whether a function only fills whole pages with zeros.
#[must_use]
pub fn clears_pages(name: &str) -> bool {
    CLEARS_PAGES.contains(&linemate_types::function_of(name))
}

/// Whether a function hands out an object of the cache passed to it, without being watched for its
/// result.
#[must_use]
pub fn takes_from_stock(name: &str) -> bool {
    name.strip_suffix("_noprof").unwrap_or(name) == TAKES_FROM_STOCK
}

/// What a function's name says about the memory that it allocates.
#[must_use]
pub fn by_name(name: &str) -> SiteUse {
    let has = |list: &[&str]| list.iter().any(|part| name.contains(part));
    if has(&SLAB) {
        SiteUse::Slab
    } else if has(&PAGE_TABLE) {
        SiteUse::PageTable
    } else if has(&CONTENTS) {
        SiteUse::Contents
    } else {
        SiteUse::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_uses() {
        assert_eq!(by_name("pte_alloc_one"), SiteUse::PageTable);
        assert_eq!(by_name("vma_alloc_folio_noprof"), SiteUse::Contents);
        assert_eq!(by_name("allocate_slab"), SiteUse::Slab);
        assert_eq!(by_name("alloc_fair_sched_group"), SiteUse::Other);
    }
}
