//! The ledger: every access in exactly one bucket.

/// Where an access is booked. Fine-grained: each bucket belongs to one [`Group`], and the groups
/// are the ledger's lines.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Bucket {
    /// A field of a typed object: heap, per-CPU allocation, pages or vmalloc area.
    Field,
    /// A heap object of a program that is an array of numbers or pointers, of a known type.
    HeapScalar,
    /// A per-CPU variable whose type is in BTF.
    PercpuTyped,
    /// A per-CPU variable with only a known name.
    PercpuNamed,
    /// A global variable whose type is known.
    GlobalTyped,
    /// A global variable that is a number or pointer, or an array of such, of a known type.
    GlobalScalar,
    /// A global variable with only a known name.
    GlobalNamed,
    /// A live heap object of a known cache and allocation site, type unknown.
    HeapSite,
    /// A live heap object from before the recording: its cache is known, its site and type are not.
    HeapCache,
    /// Bytes of a heap object beyond its type: what was allocated after a struct.
    HeapTail,
    /// A free slot: the allocator's own lists, and what the allocator does before it hands out an
    /// object.
    HeapVacant,
    /// A task's or interrupt's kernel stack.
    Stack,
    /// A struct on a program's stack: a variable of a function, or the target of a pointer to a
    /// struct.
    StackTyped,
    /// A variable on a program's stack that is a number or pointer, or an array of such.
    StackNamed,
    /// A variable on one thread's stack while others use it.
    StackShared,
    /// The rest of a program's stacks: return addresses, saved registers, what only code without
    /// debug information reaches.
    ProgramStack,
    /// A CPU's entry area: entry and exception stacks, descriptor tables, task state segment.
    EntryArea,
    /// Registers of a device, which no cache holds: the local APIC's, a timer's.
    Device,
    PageTable,
    StructPage,
    /// Through a mapping of user space: the kernel copying from or to a process, or user code.
    UserMapping,
    /// A page with a process's or file's data, or the contents of a pipe or socket.
    PageContents,
    /// A page that the page allocator clears before handing it out.
    PageCleared,
    /// A heap object that holds bytes copied from or to user space (packet data), not a struct.
    HeapContents,
    /// A mapped file of a program, without a variable there: constants, symbols, what the loader
    /// fills in.
    ProgramFile,
    /// Memory of a program that did not come from a watched allocator, copied or cleared by the
    /// kernel or the C library: a buffer that `read` fills, a page of a buffer pool.
    ProgramCopied,
    /// What an allocator of a program accesses by its own code, in memory that no call returned or
    /// in blocks without a type: its arenas, bins and lists, its threads' caches.
    Allocator,
    /// Unknown: a page that the kernel took before or during the recording for an unknown purpose.
    UnknownKernelPage,
    /// Unknown: a page that is free as far as known.
    UnknownFreePage,
    /// Unknown: the direct map, nothing known about the page.
    UnknownPage,
    /// Unknown: a per-CPU area, no variable or allocation there.
    UnknownPercpu,
    /// Unknown: the vmalloc area, no allocation there.
    UnknownVmalloc,
    /// Unknown: the kernel image, no symbol there.
    UnknownImage,
    /// Unknown: an address outside of every area (fixed mappings).
    UnknownArea,
    /// Unknown: a program's memory that did not come from a watched allocator.
    UnknownUser,
    /// The kernel's memory in a recording without the names for it.
    KernelUnnamed,
}

/// A line of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Fields of typed objects.
    Field,
    Percpu,
    Global,
    /// Heap blocks whose type is not known.
    Heap,
    Stack,
    Device,
    /// Page tables and `struct page`.
    Paging,
    Contents,
    /// What programs' allocators use themselves.
    Allocator,
    Unknown,
    /// The kernel's memory if it was not to be named. A line of its own: nobody looked at what is
    /// there, so it is neither unknown, which would hide what is unknown about programs, nor could
    /// it have a type, which would hide how much of programs has one.
    Unnamed,
}

impl Bucket {
    /// All, in the order of the ledger.
    // The counts are indexed by `as usize`: the order is the declaration's.
    pub const ALL: [Bucket; 36] = [
        Bucket::Field,
        Bucket::HeapScalar,
        Bucket::PercpuTyped,
        Bucket::PercpuNamed,
        Bucket::GlobalTyped,
        Bucket::GlobalScalar,
        Bucket::GlobalNamed,
        Bucket::HeapSite,
        Bucket::HeapCache,
        Bucket::HeapTail,
        Bucket::HeapVacant,
        Bucket::Stack,
        Bucket::StackTyped,
        Bucket::StackNamed,
        Bucket::StackShared,
        Bucket::ProgramStack,
        Bucket::EntryArea,
        Bucket::Device,
        Bucket::PageTable,
        Bucket::StructPage,
        Bucket::UserMapping,
        Bucket::PageContents,
        Bucket::PageCleared,
        Bucket::HeapContents,
        Bucket::ProgramFile,
        Bucket::ProgramCopied,
        Bucket::Allocator,
        Bucket::UnknownKernelPage,
        Bucket::UnknownFreePage,
        Bucket::UnknownPage,
        Bucket::UnknownPercpu,
        Bucket::UnknownVmalloc,
        Bucket::UnknownImage,
        Bucket::UnknownArea,
        Bucket::UnknownUser,
        Bucket::KernelUnnamed,
    ];

    /// Its line of the ledger.
    #[must_use]
    pub fn group(self) -> Group {
        match self {
            Bucket::Field | Bucket::HeapScalar => Group::Field,
            Bucket::PercpuTyped | Bucket::PercpuNamed => Group::Percpu,
            Bucket::GlobalTyped | Bucket::GlobalScalar | Bucket::GlobalNamed => Group::Global,
            Bucket::HeapSite | Bucket::HeapCache | Bucket::HeapTail | Bucket::HeapVacant => {
                Group::Heap
            }
            Bucket::Stack
            | Bucket::StackTyped
            | Bucket::StackNamed
            | Bucket::StackShared
            | Bucket::ProgramStack
            | Bucket::EntryArea => Group::Stack,
            Bucket::Device => Group::Device,
            Bucket::PageTable | Bucket::StructPage => Group::Paging,
            Bucket::UserMapping
            | Bucket::PageContents
            | Bucket::PageCleared
            | Bucket::HeapContents
            | Bucket::ProgramFile
            | Bucket::ProgramCopied => Group::Contents,
            Bucket::Allocator => Group::Allocator,
            Bucket::UnknownKernelPage
            | Bucket::UnknownFreePage
            | Bucket::UnknownPage
            | Bucket::UnknownPercpu
            | Bucket::UnknownVmalloc
            | Bucket::UnknownImage
            | Bucket::UnknownArea
            | Bucket::UnknownUser => Group::Unknown,
            Bucket::KernelUnnamed => Group::Unnamed,
        }
    }

    /// Whether the type there is known, and counts as such: stacks' does not, because nearly all of
    /// it is found by its function alone and would flatter the share of everything else.
    #[must_use]
    pub fn is_typed(self) -> bool {
        matches!(
            self,
            Bucket::Field
                | Bucket::HeapScalar
                | Bucket::PercpuTyped
                | Bucket::GlobalTyped
                | Bucket::GlobalScalar
        )
    }

    /// A few words for a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bucket::Field => "typed object",
            Bucket::HeapScalar => "array of numbers or pointers",
            Bucket::PercpuTyped => "typed",
            Bucket::PercpuNamed => "name only",
            Bucket::GlobalTyped => "typed",
            Bucket::GlobalScalar => "number or pointer",
            Bucket::GlobalNamed => "name only",
            Bucket::HeapSite => "cache and site known",
            Bucket::HeapCache => "cache known, from before the recording",
            Bucket::HeapTail => "after a typed object's end",
            Bucket::HeapVacant => "free slot",
            Bucket::Stack => "task or interrupt stack",
            Bucket::StackTyped => "struct on a stack of a program",
            Bucket::StackNamed => "number or pointer on a stack of a program",
            Bucket::StackShared => "variable on a stack of a program that other threads use",
            Bucket::ProgramStack => "stack of a program",
            Bucket::EntryArea => "CPU entry area",
            Bucket::Device => "device registers",
            Bucket::PageTable => "page table",
            Bucket::StructPage => "struct page",
            Bucket::UserMapping => "through a user mapping",
            Bucket::PageContents => "page of a process, file, pipe or socket",
            Bucket::PageCleared => "page, cleared for its next use",
            Bucket::HeapContents => "heap block of copied bytes",
            Bucket::UnknownKernelPage => "page of the kernel, unnamed",
            Bucket::UnknownFreePage => "free page",
            Bucket::UnknownPage => "page, nothing known",
            Bucket::UnknownPercpu => "per-CPU area, no variable",
            Bucket::UnknownVmalloc => "vmalloc area, no allocation",
            Bucket::UnknownImage => "kernel image, no symbol",
            Bucket::UnknownArea => "outside of every known area",
            Bucket::ProgramFile => "file of a program, no variable",
            Bucket::ProgramCopied => "copied or cleared bytes of a program, no allocation",
            Bucket::Allocator => Group::Allocator.name(),
            Bucket::UnknownUser => "program's memory, no allocation",
            Bucket::KernelUnnamed => Group::Unnamed.name(),
        }
    }
}

impl Group {
    /// All, in the order of the ledger.
    pub const ALL: [Group; 11] = [
        Group::Field,
        Group::Percpu,
        Group::Global,
        Group::Heap,
        Group::Stack,
        Group::Device,
        Group::Paging,
        Group::Contents,
        Group::Allocator,
        Group::Unknown,
        Group::Unnamed,
    ];

    /// A few words for a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Field => "field of a typed object",
            Group::Percpu => "per-CPU variable",
            Group::Global => "global variable",
            Group::Heap => "heap block, type unknown",
            Group::Stack => "stack",
            Group::Device => "device registers",
            Group::Paging => "page table or struct page",
            Group::Contents => "page contents",
            Group::Allocator => "bookkeeping of an allocator",
            Group::Unknown => "unknown",
            Group::Unnamed => "kernel memory, not named",
        }
    }
}

/// How many accesses each bucket has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    counts: [u64; Bucket::ALL.len()],
    /// Of those: to programs' own memory.
    programs: [u64; Bucket::ALL.len()],
}

impl Default for Ledger {
    fn default() -> Self {
        let none = [0; Bucket::ALL.len()];
        Ledger {
            counts: none,
            programs: none,
        }
    }
}

impl Ledger {
    /// Books `count` accesses; `program`: to programs' own memory.
    #[inline]
    pub fn book(&mut self, bucket: Bucket, program: bool, count: u64) {
        self.counts[bucket as usize] += count;
        if program {
            self.programs[bucket as usize] += count;
        }
    }

    pub fn merge(&mut self, other: &Ledger) {
        let sums = self.counts.iter_mut().chain(&mut self.programs);
        for (sum, part) in sums.zip(other.counts.into_iter().chain(other.programs)) {
            *sum += part;
        }
    }

    /// The accesses of a bucket.
    #[must_use]
    pub fn of(&self, bucket: Bucket) -> u64 {
        self.counts[bucket as usize]
    }

    /// The same for programs' own memory: their heap objects and variables, not the kernel's.
    #[must_use]
    pub fn of_programs(&self) -> Ledger {
        Ledger {
            counts: self.programs,
            programs: self.programs,
        }
    }

    /// The accesses of a group.
    #[must_use]
    pub fn of_group(&self, group: Group) -> u64 {
        Bucket::ALL
            .iter()
            .filter(|b| b.group() == group)
            .map(|b| self.of(*b))
            .sum()
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Accesses whose type is known.
    #[must_use]
    pub fn typed(&self) -> u64 {
        Bucket::ALL
            .iter()
            .filter(|b| b.is_typed())
            .map(|b| self.of(*b))
            .sum()
    }

    /// Accesses that could have a type: all except stacks, device registers, page tables,
    /// `struct page`, page contents, allocators' bookkeeping and what was not to be named.
    #[must_use]
    pub fn typable(&self) -> u64 {
        self.total()
            - self.of_group(Group::Stack)
            - self.of_group(Group::Device)
            - self.of_group(Group::Paging)
            - self.of_group(Group::Contents)
            - self.of_group(Group::Allocator)
            - self.of_group(Group::Unnamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_listed_once_at_its_own_place() {
        for (i, bucket) in Bucket::ALL.iter().enumerate() {
            assert_eq!(*bucket as usize, i);
        }
    }

    #[test]
    fn groups_add_up_to_the_total() {
        let mut ledger = Ledger::default();
        for (i, bucket) in Bucket::ALL.iter().enumerate() {
            ledger.book(*bucket, i % 2 == 0, 1 << i);
        }
        assert_eq!(ledger.total(), (1 << Bucket::ALL.len()) - 1);
        assert_eq!(
            Group::ALL.iter().map(|g| ledger.of_group(*g)).sum::<u64>(),
            ledger.total()
        );
        assert_eq!(ledger.typed(), 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5);
        let others = [
            Bucket::Stack,
            Bucket::StackTyped,
            Bucket::StackNamed,
            Bucket::StackShared,
            Bucket::ProgramStack,
            Bucket::EntryArea,
            Bucket::Device,
            Bucket::PageTable,
            Bucket::StructPage,
        ];
        let contents = [
            Bucket::UserMapping,
            Bucket::PageContents,
            Bucket::PageCleared,
            Bucket::HeapContents,
            Bucket::ProgramFile,
            Bucket::ProgramCopied,
            Bucket::Allocator,
            Bucket::KernelUnnamed,
        ];
        let programs = ledger.of_programs();
        let even = (0..Bucket::ALL.len()).step_by(2).map(|i| 1u64 << i);
        assert_eq!(programs.total(), even.sum::<u64>());
        let mut twice = ledger.clone();
        twice.merge(&ledger);
        assert_eq!(twice.of_programs().total(), 2 * programs.total());
        let excluded: u64 = others.iter().chain(&contents).map(|b| ledger.of(*b)).sum();
        assert_eq!(ledger.typable(), ledger.total() - excluded);
    }
}
