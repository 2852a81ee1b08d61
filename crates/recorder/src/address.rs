//! Which half of the address space a value points to, and which address space that is.

/// Whether an address belongs to the kernel.
#[inline]
pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 != 0
}

/// Whether a value can be a pointer to a kernel object: the upper half, and not an error code.
pub(crate) fn is_kernel_pointer(value: u64) -> bool {
    // `ERR_PTR` has the last 4095 values (MAX_ERRNO). Canonical with four levels of page tables, as
    // guests have them.
    value >> 47 == 0x1_ffff && value < u64::MAX - 4095
}

/// Whether a value can be a pointer to an object of a program: the lower half, and not in the pages
/// that are never mapped.
pub(crate) fn is_user_pointer(value: u64) -> bool {
    // `mmap_min_addr` is 64 KiB by default: smaller values are numbers.
    value >> 47 == 0 && value >= 0x10_000
}

/// Where the page tables are according to `cr3`, which has flags and the address space's number,
/// too.
pub(crate) fn page_tables_in(cr3: u64) -> u64 {
    cr3 & 0x000f_ffff_ffff_f000
}
