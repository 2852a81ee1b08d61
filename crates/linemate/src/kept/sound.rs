//! Which recordings were read completely and found sound.
//!
//! Checking a recording means reading all of it, while a question answered from the cache reads
//! next to nothing. So the identity and state of the file that passed the check are noted. A file
//! that was written to since, copied or replaced is in another state and is checked again.

use std::time::SystemTime;

use linemate_files::FileState;
use linemate_recording::{Error, Recording};

use super::folder::Folder;

fn key(state: &FileState) -> String {
    format!("sound-{}", state.file())
}

/// Whether this recording's file has passed the check in its current state.
///
/// # Errors
/// The system does not report which file it is.
pub(super) fn is_known(folder: &Folder, recording: &Recording) -> Result<bool, Error> {
    let Some(state) = recording.file_state()? else {
        return Ok(false);
    };
    let noted = folder.load(&key(&state));
    Ok(noted.is_some_and(|noted| noted == state.to_string().as_bytes()))
}

/// Notes that it has passed, if it is as it was `before` the check, and if a change after `now`
/// cannot look the same.
///
/// # Errors
/// As [`is_known`].
pub(super) fn remember(
    folder: &Folder,
    recording: &Recording,
    before: FileState,
    now: SystemTime,
) -> Result<(), Error> {
    let unchanged = recording.file_state()? == Some(before);
    if unchanged && before.is_settled(now) {
        folder.store(&key(&before), before.to_string().as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use linemate_testkit::world::{Contents, Variant, World};

    use super::*;

    #[test]
    fn a_file_is_known_until_it_changes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("r.data");
        let bytes = World::with_chunks_of(64).bytes(true, Contents::of(Variant::default()));
        fs::write(&path, &bytes).unwrap();
        let recording = Recording::open(&path).unwrap();
        let checksum = recording.checksum().unwrap();
        let folder = Folder::new(place.path().join("kept"), checksum, false).unwrap();
        let state = recording.file_state().unwrap().unwrap();
        assert!(!is_known(&folder, &recording).unwrap());
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        // Another write could have the same time.
        remember(&folder, &recording, state, written).unwrap();
        assert!(!is_known(&folder, &recording).unwrap());
        let later = written + Duration::from_secs(3600);
        remember(&folder, &recording, state, later).unwrap();
        assert!(is_known(&folder, &recording).unwrap());
        // The same bytes rewritten, with the old modification time.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, &bytes).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(written).unwrap();
        let again = Recording::open(&path).unwrap();
        assert!(!is_known(&folder, &again).unwrap());
        // A copy is another file.
        let copy = place.path().join("copy.data");
        fs::copy(&path, &copy).unwrap();
        assert!(!is_known(&folder, &Recording::open(&copy).unwrap()).unwrap());
    }
}
