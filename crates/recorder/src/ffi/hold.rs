//! Holds a guest at its hold mark until the host releases it.
//!
//! QEMU can only be asked to stop, and does so some instructions later; or, if the guest itself
//! asks, with its clock moved on to the next timer or not, depending on which thread is quicker. A
//! held guest executes nothing, and QEMU does not consider its processors idle; once QEMU has been
//! asked to stop and the guest is released, it leaves at the end of the mark's block.
//!
//! Nothing is recorded, and only the mark is instrumented.

use std::ffi::{c_uint, c_void};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use linemate_insn::x86_64::MAX_BYTES;

use super::guest::TranslatedBlock;
use super::raw;
use crate::address::is_kernel;
use crate::decode::{HOLD, mark_number};
use crate::recorder::SetUpError;
use crate::view::{CodeBlock as _, Instrument as _};

/// The pipe on which the host releases the guest.
static PIPE: OnceLock<PathBuf> = OnceLock::new();

/// Asks QEMU for the callbacks that find the mark.
pub(super) fn install(id: raw::PluginId, pipe: PathBuf) -> Result<(), SetUpError> {
    PIPE.set(pipe).map_err(|_| SetUpError::Twice)?;
    // SAFETY: `id` is ours, the callback has the declared type and lives as long as the process.
    unsafe { raw::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate) };
    Ok(())
}

extern "C" fn on_translate(_id: raw::PluginId, tb: *mut raw::Tb) {
    // SAFETY: `tb` is valid during this callback.
    let block = unsafe { TranslatedBlock::new(tb) };
    let mut buffer = [0; MAX_BYTES];
    for instruction in block.instructions() {
        let held = !is_kernel(instruction.address())
            && mark_number(instruction.bytes(&mut buffer)) == Some(HOLD);
        if held {
            instruction.call(on_hold);
        }
    }
}

/// QEMU's lock is not held here: its other threads continue.
extern "C" fn on_hold(_cpu: c_uint, _data: *mut c_void) {
    let Some(pipe) = PIPE.get() else { return };
    let said = File::open(pipe).and_then(|mut pipe| pipe.read_exact(&mut [0]));
    if let Err(error) = said {
        let _ = writeln!(
            io::stderr(),
            "linemate-recorder: error: {}: {error}",
            pipe.display()
        );
    }
}
