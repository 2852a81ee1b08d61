//! Accesses as in a recording, without a recording.

use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, VirtualTime};

/// An access at an instruction of its CPU's own.
pub fn access(time: u64, cpu: u16, kind: AccessKind, addr: u64, size: u8) -> Access {
    Access {
        time: VirtualTime(time),
        cpu: CpuId(cpu),
        pc: GuestAddr(0x100 + u64::from(cpu)),
        addr: GuestAddr(addr),
        size,
        kind,
        silent: false,
        user_mapping: false,
    }
}
