//! Writes a small recording: two CPUs that share lines of an `rq`. With `hostile`, names in it hold
//! markup and terminal escapes.
//!
//! ```text
//! cargo run -p linemate-testkit --example recording -- FILE [hostile]
//! ```

use std::env;
use std::error::Error;
use std::fs;

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, NOHZ, RQ, UNITS, Variant, World};

/// Names of the kernel that become hostile ones: as long, because they are replaced in its tables.
/// Control characters are refused there.
const HOSTILE: [(&str, &str); 2] = [("nr_running", "<b>&lt;</b"), ("clock\0", "<img>\0")];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let file = arguments.first().ok_or("the file to write is missing")?;
    let mut contents = Contents::of(Variant::default());
    if arguments.get(1).is_some_and(|word| word == "hostile") {
        make_hostile(&mut contents);
    }
    let mut world = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..100 {
        for field in [0, 0, 8, 8] {
            world.access(0, AccessKind::Store, rq + field, 4, F::WakeTask, false);
        }
        world.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        world.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
        world.access(1, AccessKind::Store, rq + 64, 8, F::UpdateRq, false);
        world.access(0, AccessKind::Load, rq + 72, 4, F::WakeTask, false);
        world.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    }
    fs::write(file, world.bytes(true, contents))?;
    Ok(())
}

fn make_hostile(contents: &mut Contents) {
    let markup = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">\u{202e}\u{1b}]0;x\u{7}";
    contents
        .metadata
        .insert("command".to_owned(), markup.to_owned());
    if let Some(btf) = &mut contents.btf {
        for (name, hostile) in HOSTILE {
            replace(btf, name.as_bytes(), hostile.as_bytes());
        }
    }
    if let Some(symbols) = &mut contents.symbols {
        *symbols = symbols.replace("update_rq", "<svg/onload=alert(1)>");
    }
}

fn replace(bytes: &mut [u8], name: &[u8], other: &[u8]) {
    let found = bytes.windows(name.len()).position(|window| window == name);
    let at = found.expect("the kernel has the name");
    bytes[at..at + name.len()].copy_from_slice(other);
}
