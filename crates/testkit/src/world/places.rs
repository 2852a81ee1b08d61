//! Where the small kernel's memory has what.

use linemate_recording::PAGE;

pub const DIRECT: u64 = 0xffff_8880_0000_0000;
/// The area of `vmalloc`.
pub const VMALLOC: u64 = 0xffff_c900_0000_0000;
/// The array of `struct page`.
pub const PAGES: u64 = 0xffff_ea00_0000_0000;
pub const IMAGE: u64 = 0xffff_ffff_8100_0000;
/// Pages of memory.
pub const FRAMES: u64 = 64;
/// Per-CPU units: frames 32 and 40.
pub const UNITS: [u64; 2] = [DIRECT + 32 * PAGE, DIRECT + 40 * PAGE];
/// `rq` is at this offset of the per-CPU section.
pub const RQ: u64 = 0x100;
/// After the per-CPU section: a `vector` of each CPU from before the recording.
pub const STATS: u64 = 0x500;
/// An `entity` of that age, in the slab of `kmalloc-64`.
pub const POINTED: u64 = KMALLOC_SLAB + 128;
/// Slab of the cache `task`: frame 8, from before the recording.
pub const TASK_SLAB: u64 = DIRECT + 8 * PAGE;
/// Slab of the cache `kmalloc-64`: frame 9.
pub const KMALLOC_SLAB: u64 = DIRECT + 9 * PAGE;
/// The variable `nohz`, of an anonymous struct.
pub const NOHZ: u64 = IMAGE + 0x2000;
/// The variable `counter`.
pub const COUNTER: u64 = IMAGE + 0x3000;
/// Device registers: one page that the kernel mapped with `ioremap`.
pub const DEVICE: u64 = VMALLOC + 0x20_0000 + 5 * PAGE;
/// The local APIC's registers.
pub const APIC: u64 = 0xffff_ffff_ff5f_d000;
/// `init_top_pgt`.
pub(super) const TOP_TABLE: u64 = IMAGE + 0x9000;
/// The first idle stack.
pub const INIT_STACK: u64 = IMAGE + 0x4000;
/// The second page of another slab of the cache `task`, which starts in frame 16: objects of 256
/// bytes.
pub const TAIL_PAGE: u64 = DIRECT + 17 * PAGE;
/// The cache `task`: a `struct kmem_cache` in frame 1.
pub const CACHE_TASK: u64 = DIRECT + PAGE;
/// The cache `kmalloc-64`, likewise.
pub const CACHE_KMALLOC: u64 = DIRECT + PAGE + 64;
