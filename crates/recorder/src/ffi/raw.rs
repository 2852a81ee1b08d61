//! QEMU's plugin interface, version 4 (QEMU 9.2 and later), and the two glib arrays that it
//! returns.
//!
//! Only what the recorder uses. The symbols are defined by the QEMU executable that loads the
//! plugin. Source: `include/qemu/qemu-plugin.h` of QEMU 9.2, described in QEMU's documentation
//! under "TCG Plugins".

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The interface version that QEMU must provide.
pub(super) const VERSION: c_int = 4;

/// Identifies the plugin to QEMU.
pub(super) type PluginId = u64;
/// Describes a memory callback; opaque.
pub(super) type MemInfo = u32;

pub(super) type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub(super) type TranslateCallback = extern "C" fn(PluginId, *mut Tb);
pub(super) type ExecCallback = extern "C" fn(c_uint, *mut c_void);
pub(super) type MemCallback = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub(super) type ExitCallback = extern "C" fn(PluginId, *mut c_void);

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback does not look at registers.
pub(super) const NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_CB_R_REGS`: the callback reads registers.
pub(super) const R_REGS: c_int = 1;
/// `QEMU_PLUGIN_MEM_R`: a callback for loads.
pub(super) const MEM_R: c_int = 1;
/// `QEMU_PLUGIN_MEM_W`: a callback for stores.
pub(super) const MEM_W: c_int = 2;

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub(super) struct $name { _opaque: [u8; 0] }
    )*};
}
opaque!(Tb, Insn, HwAddr, RegisterHandle);

#[repr(C)]
pub(super) struct Info {
    pub(super) target_name: *const c_char,
    pub(super) version_min: c_int,
    pub(super) version_cur: c_int,
    pub(super) system_emulation: bool,
    pub(super) smp_vcpus: c_int,
    pub(super) max_vcpus: c_int,
}

/// The value of a memory callback: a type number and a union, of which the two 64-bit words of its
/// largest member are declared.
#[repr(C)]
pub(super) struct MemValue {
    pub(super) kind: c_int,
    pub(super) low: u64,
    pub(super) high: u64,
}

#[repr(C)]
pub(super) struct GArray {
    pub(super) data: *mut c_char,
    pub(super) len: c_uint,
}

#[repr(C)]
pub(super) struct GByteArray {
    pub(super) data: *mut u8,
    pub(super) len: c_uint,
}

#[repr(C)]
pub(super) struct RegisterDescriptor {
    pub(super) handle: *mut RegisterHandle,
    pub(super) name: *const c_char,
    pub(super) feature: *const c_char,
}

// SAFETY: declared as in QEMU's and glib's headers; QEMU refuses to load the plugin if its
// interface is older.
unsafe extern "C" {
    pub(super) fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuCallback);
    pub(super) fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TranslateCallback);
    pub(super) fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        cb: ExitCallback,
        userdata: *mut c_void,
    );
    pub(super) fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub(super) fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub(super) fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: ExecCallback,
        flags: c_int,
        userdata: *mut c_void,
    );
    pub(super) fn qemu_plugin_insn_data(
        insn: *const Insn,
        destination: *mut c_void,
        len: usize,
    ) -> usize;
    pub(super) fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub(super) fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const c_void;
    pub(super) fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: ExecCallback,
        flags: c_int,
        userdata: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCallback,
        flags: c_int,
        rw: c_int,
        userdata: *mut c_void,
    );
    pub(super) fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub(super) fn qemu_plugin_mem_get_value(info: MemInfo) -> MemValue;
    pub(super) fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut HwAddr;
    pub(super) fn qemu_plugin_hwaddr_is_io(hwaddr: *const HwAddr) -> bool;
    pub(super) fn qemu_plugin_hwaddr_phys_addr(hwaddr: *const HwAddr) -> u64;
    pub(super) fn qemu_plugin_get_registers() -> *mut GArray;
    pub(super) fn qemu_plugin_read_register(
        handle: *mut RegisterHandle,
        buf: *mut GByteArray,
    ) -> c_int;
    pub(super) fn qemu_plugin_read_memory_vaddr(
        addr: u64,
        data: *mut GByteArray,
        len: usize,
    ) -> bool;

    pub(super) fn g_byte_array_new() -> *mut GByteArray;
    pub(super) fn g_byte_array_set_size(array: *mut GByteArray, length: c_uint) -> *mut GByteArray;
    pub(super) fn g_array_free(array: *mut GArray, free_segment: c_int) -> *mut c_char;
}
