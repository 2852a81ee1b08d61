//! Ending the running CPU's turn.
//!
//! The plugin interface has no call for that. `cpu_exit`, which QEMU itself ends turns with, can be
//! found where QEMU exports its symbols to its own modules, as distributions build it. It wakes no
//! other thread, so nothing depends on the host's time.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::recorder::SetUpError;

type CpuExit = unsafe extern "C" fn(*mut c_void);

/// `void cpu_exit(CPUState *)` of QEMU's `include/hw/core/cpu.h`.
pub(super) struct TurnEnd {
    cpu_exit: CpuExit,
    /// The thread's own `current_cpu`, for the one thread that runs the CPUs.
    current: OnceLock<Current>,
}

struct Current(*const *mut c_void);

// SAFETY: set and used on the thread that runs the CPUs alone (see `TurnEnd::end`).
unsafe impl Send for Current {}
// SAFETY: as for Send.
unsafe impl Sync for Current {}

impl TurnEnd {
    /// Looks the functions up.
    ///
    /// # Errors
    /// [`SetUpError::Turns`]: QEMU does not export them.
    pub(super) fn find() -> Result<Self, SetUpError> {
        let found = (symbol(c"cpu_exit"), symbol(c"current_cpu"));
        let (Some(cpu_exit), Some(_)) = found else {
            return Err(SetUpError::Turns);
        };
        // SAFETY: a function of that name has this type in every version whose plugin interface the
        // recorder accepts.
        let cpu_exit = unsafe { std::mem::transmute::<*mut c_void, CpuExit>(cpu_exit) };
        Ok(Self {
            cpu_exit,
            current: OnceLock::new(),
        })
    }

    /// The running CPU's turn ends with the block that it runs. Only on the thread that runs the
    /// CPUs, in a callback of one.
    pub(super) fn end(&self) {
        let current = self.current.get_or_init(|| {
            let address = symbol(c"current_cpu").unwrap_or(ptr::null_mut());
            Current(address.cast())
        });
        // SAFETY: `current_cpu` is a variable of this thread, set during callbacks; `cpu_exit` sets
        // two flags of that CPU.
        unsafe {
            if let Some(cpu) = current.0.as_ref().filter(|cpu| !cpu.is_null()) {
                (self.cpu_exit)(*cpu);
            }
        }
    }
}

/// The address of one of QEMU's symbols; for a variable of a thread, of this thread's.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a name up in what is loaded, of which QEMU is the first.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
