//! What a failed command requested from the guest without success: missing files, peers that do not
//! answer.

use std::path::Path;

use linemate_guest::RefusedCall;
use linemate_text::shown;

const LINES: usize = 5;

/// Files that every program start probes for: the loader's lists, the C library's translations
/// (ld.so(8), locale(7)).
const DISPENSABLE: [&str; 4] = [
    "/etc/ld.so.",
    "/usr/lib/locale/",
    "/usr/share/locale",
    "/usr/lib/x86_64-linux-gnu/gconv/",
];

/// Subfolders that the loader probes in library folders, for libraries of newer processors
/// (ld.so(8), "Hardware capabilities").
const LOADER_FOLDERS: [&str; 5] = ["glibc-hwcaps", "tls", "haswell", "avx512_1", "x86_64"];

fn is_dispensable(what: &str) -> bool {
    let in_libraries = what.starts_with("/lib") || what.starts_with("/usr/lib");
    let of_loader = |part: &str| LOADER_FOLDERS.contains(&part);
    DISPENSABLE.iter().any(|d| what.starts_with(d))
        || (in_libraries && what.split('/').any(of_loader))
}

/// The notes, the latest first.
pub(super) fn lines(refusals: &[RefusedCall]) -> Vec<String> {
    let told = |refusal: &&RefusedCall| !is_dispensable(&refusal.what);
    refusals.iter().filter(told).take(LINES).map(line).collect()
}

fn line(refusal: &RefusedCall) -> String {
    let (call, what) = (&refusal.call, shown(&refusal.what));
    match &**call {
        "connect" | "sendto" | "socket" => format!(
            "no answer in the guest: {what} ({call}: {}); the guest's network reaches only the guest itself",
            error_name(refusal.error)
        ),
        _ => {
            // On both sides relative names start where the command starts.
            let remedy = match Path::new(&refusal.what).exists() {
                true => format!("copy it with --file {what}"),
                false => "copy it with --file HOST:GUEST".to_owned(),
            };
            format!("not found in the guest: {what} ({call}); {remedy}")
        }
    }
}

/// The name of a network error (include/uapi/asm-generic/errno.h).
fn error_name(error: i32) -> String {
    let name = match error {
        2 => "ENOENT",
        93 => "EPROTONOSUPPORT",
        97 => "EAFNOSUPPORT",
        99 => "EADDRNOTAVAIL",
        101 => "ENETUNREACH",
        111 => "ECONNREFUSED",
        112 => "EHOSTDOWN",
        113 => "EHOSTUNREACH",
        other => return format!("error {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(call: &str, error: i32, what: &str) -> RefusedCall {
        RefusedCall {
            call: call.to_owned(),
            error,
            what: what.to_owned(),
        }
    }

    #[test]
    fn files_and_peers_are_reported_and_what_every_start_misses_is_not() {
        let all = [
            refusal("connect", 111, "127.0.0.1:80"),
            refusal("open", 2, "/no/such\n.conf"),
            refusal("open", 2, "/etc/ld.so.cache"),
            refusal("open", 2, "/usr/lib/locale/locale-archive"),
            refusal("stat", 2, "/lib/x86_64-linux-gnu/x86_64"),
            refusal("access", 2, "/"),
        ];
        assert_eq!(
            lines(&all),
            [
                "no answer in the guest: 127.0.0.1:80 (connect: ECONNREFUSED); the guest's network reaches only the guest itself",
                "not found in the guest: /no/such\\n.conf (open); copy it with --file HOST:GUEST",
                "not found in the guest: / (access); copy it with --file /",
            ]
        );
    }

    #[test]
    fn no_more_than_five_are_reported() {
        let many: Vec<RefusedCall> = (0..16)
            .map(|i| refusal("open", 2, &format!("/no/{i}")))
            .collect();
        let lines = lines(&many);
        assert_eq!(lines.len(), LINES);
        assert!(lines[0].contains("/no/0 "), "{lines:?}");
    }
}
