# shellcheck shell=bash
# apt for scripts/setup.sh: what the machine's own sources offer, and how to get it. Needs `die` and `say`.

apt_log=
apt_refreshed=

# os_release KEY: a value of /etc/os-release, empty where there is none.
os_release() {
	# shellcheck disable=SC1090,SC1091 # the machine's own file
	(. "${LINEMATE_OS_RELEASE:-/etc/os-release}" 2>/dev/null && eval "echo \${$1:-}")
}

owned_by_dpkg() {
	# Merged /usr: dpkg may know the file by either path.
	dpkg-query -S "$1" >/dev/null 2>&1 || dpkg-query -S "${1#/usr}" >/dev/null 2>&1
}

# apt_needed WHAT: stops with one line where packages cannot be installed.
apt_needed() {
	command -v apt-get >/dev/null ||
		die "$1; there is no apt-get here, so install it with this system's package manager"
	[ "$(id -u)" = 0 ] || die "$1; installing needs root: run \`sudo $0 $(apt_root_goal)\`, then repeat as yourself"
}

# The goal of scripts/setup.sh that installs, as root, what the requested one lacks: those of `demo`
# come with the default.
apt_root_goal() {
	case ${packages_of-} in
	"" | demo | test) echo packages ;;
	*) echo "packages $packages_of" ;;
	esac
}

# apt_run WHAT COMMAND…: runs it quietly; prints the end of its output if it fails.
apt_run() {
	local what=$1
	shift
	[ -n "$apt_log" ] || apt_log=$(mktemp "${TMPDIR:-/tmp}/linemate-setup.XXXXXX")
	if ! DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$apt_log" 2>&1; then
		local why
		why=$(grep -E '^(E|W|Err)' "$apt_log" | grep -v 'ignored, or old ones used' | tail -n 1 || true)
		die "$what failed (${why:-no reason given}): check the network and the apt sources; whole output in $apt_log"
	fi
	rm -f "$apt_log"
	apt_log=
}

# Reads the package lists again, once per run.
apt_refresh() {
	[ -z "$apt_refreshed" ] || return 0
	apt_needed "the package lists have to be read anew"
	say "reading the package lists"
	apt_run "apt-get update" apt-get update -q -o APT::Update::Error-Mode=any
	apt_refreshed=1
}

# apt_versions PACKAGE: every version on offer, one a line, newest first.
apt_versions() {
	{ apt-cache madison "$1" 2>/dev/null || true; } | awk -F'|' '{ gsub(/ /, "", $2); print $2 }'
}

# apt_has_version PACKAGE MINIMUM
apt_has_version() {
	local version
	for version in $(apt_versions "$1"); do
		# Without its epoch: 1:7.2 is not newer than 9.2.
		dpkg --compare-versions "${version#*:}" ge "$2" && return 0
	done
	return 1
}

# apt_suite_has SUITE PACKAGE
apt_suite_has() {
	{ apt-cache madison "$2" 2>/dev/null || true; } | grep " $1/" >/dev/null
}

# apt_install SUITE PACKAGE…: SUITE may be empty.
apt_install() {
	local suite=$1
	shift
	local package
	for package in "$@"; do
		if [ -z "$(apt_versions "$package")" ]; then
			apt_refresh
			[ -n "$(apt_versions "$package")" ] ||
				die "no apt source of this machine has the package $package: add Debian's main archive to them"
		fi
	done
	apt_get_install ${suite:+-t "$suite"} "$@" && return
	# QEMU from the backports brings libraries from there; packages of the same version are there as
	# well.
	[ -n "$suite" ] || ! apt_get_install -t "$(os_release VERSION_CODENAME)-backports" "$@" || return 0
	# The lists may be older than the archive: versions they name are gone from it.
	apt_refresh
	apt_run "apt-get install $*" apt-get install -y -q --no-install-recommends ${suite:+-t "$suite"} "$@"
}

apt_get_install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" </dev/null >/dev/null 2>&1
}

# apt_archive SUITE: "URI<tab>KEYRING" of the first source with this suite and component main, from deb822 `.sources` and
# one-line `.list` files; KEYRING may be empty. What is switched off (`Enabled: no`, comments) does not count.
apt_archive() {
	local etc=${LINEMATE_APT_ETC:-/etc/apt} file
	for file in "$etc"/sources.list.d/*.sources; do
		[ ! -e "$file" ] || awk -v suite="$1" '
			function flush() {
				if (types ~ /(^| )deb( |$)/ && enabled !~ /^(no|false|0|off)$/ && uri != "" &&
				    (" " suites " ") ~ (" " suite " ") && (" " components " ") ~ / main /) {
					split(uri, first, " ")
					print first[1] "\t" (signed ~ /^\/[^ ]+$/ ? signed : "")
					found = 1
					exit
				}
				types = uri = suites = components = signed = field = ""; enabled = "yes"
			}
			BEGIN { enabled = "yes" }
			/^#/ { next }
			/^[ \t]*$/ { flush(); next }
			{
				if ($0 ~ /^[ \t]/) {
					value = $0
				} else {
					field = tolower($0); sub(/:.*/, "", field)
					value = $0; sub(/^[^:]*:/, "", value)
				}
				gsub(/[ \t]+/, " ", value); gsub(/^ | $/, "", value)
				if (field == "types") types = types " " value
				else if (field == "uris") uri = uri (uri == "" ? "" : " ") value
				else if (field == "suites") suites = suites " " value
				else if (field == "components") components = components " " value
				else if (field == "signed-by") signed = signed value
				else if (field == "enabled") enabled = tolower(value)
			}
			END { if (!found) flush() }' "$file"
	done
	for file in "$etc"/sources.list "$etc"/sources.list.d/*.list; do
		[ ! -e "$file" ] || awk -v suite="$1" '
			/^deb[ \t]/ {
				line = $0; sub(/#.*/, "", line); signed = ""
				if (match(line, /\[[^]]*\]/)) {
					options = substr(line, RSTART + 1, RLENGTH - 2)
					line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
					if (match(options, /signed-by=[^ ]+/)) signed = substr(options, RSTART + 10, RLENGTH - 10)
				}
				n = split(line, word, " ")
				if (word[3] != suite) next
				for (i = 4; i <= n; i++) if (word[i] == "main") { print word[2] "\t" signed; exit }
			}' "$file"
	done
}

# apt_archive_like SUITE OTHER: the same, one line; if no source has SUITE, that of OTHER, whose
# archive also has it.
apt_archive_like() {
	local archive
	archive=$(apt_archive "$1" | sed -n 1p)
	[ -n "$archive" ] || archive=$(apt_archive "$2" | sed -n 1p)
	[ -z "$archive" ] || echo "$archive"
}

# apt_line SUITE "URI<tab>KEYRING": a line of sources.list.
apt_line() {
	local keyring=${2#*$'\t'}
	printf 'deb [signed-by=%s] %s %s main\n' "${keyring:-/usr/share/keyrings/debian-archive-keyring.gpg}" "${2%%$'\t'*}" "$1"
}

# Adds this release's backports suite at the machine's own Debian address.
apt_add_backports() {
	local codename archive uri keyring etc=${LINEMATE_APT_ETC:-/etc/apt}
	codename=$(os_release VERSION_CODENAME)
	if [ "$(os_release ID)" != debian ] || [ -z "$codename" ]; then
		die "no apt source of this machine has what is needed, and this is not Debian: install QEMU $QEMU_MIN or newer by hand"
	fi
	archive=$(apt_archive "$codename" | sed -n 1p)
	[ -n "$archive" ] ||
		die "no apt source of this machine has the suite $codename (main): add Debian's archive, then repeat"
	uri=${archive%%$'\t'*}
	keyring=${archive#*$'\t'}
	[ -n "$keyring" ] || keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	local file=$etc/sources.list.d/linemate-backports.sources
	say "adding $codename-backports to the apt sources ($file)"
	printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\nSigned-By: %s\n' "$uri" "$codename" "$keyring" >"$file"
	apt_refreshed=
	apt_refresh
}
