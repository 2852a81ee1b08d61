# shellcheck shell=bash
# Kernels by name for scripts/kernel-image.sh: `6.12`, `7.0`, a version such as `6.12.117+deb12`, each with `-arm64` or `-ppc64el` after it for reading. What is
# not in the cache is looked for in all suites of the machine's Debian archive, by the apt of foreign.sh. Needs `die`, `say`,
# apt.sh, kernel.sh and foreign.sh.

# The suites to search for kernels. A suite that the archive lacks is left out.
readonly NAMED_SUITES="bookworm bookworm-security bookworm-backports trixie trixie-security trixie-backports forky sid experimental"

# named_kernel NAME: prints the image's path; ends the (sub)shell where there is none.
named_kernel() {
	local name=$1 arch series
	arch=$(named_arch "$name")
	series=${name%-"$arch"}
	[[ $series =~ ^[0-9]+\.[0-9]+([.+~][0-9A-Za-z.+~-]*)?$ ]] ||
		die "debian:$name: name a series or a version, such as debian:6.12, debian:6.12.117+deb12 or debian:6.12-arm64"
	named_found "$series" "$arch" && return
	named_fetch "$name" "$series" "$arch" >&2 || exit 2
	named_found "$series" "$arch"
}

# Set-up's own first: kernels fetched by name are apart, so that none becomes the default kernel.
named_found() (
	if [ "$2" != amd64 ]; then
		kernel_folder=foreign-kernels
		named_in_cache "$@"
		return
	fi
	named_in_cache "$@" && return
	# shellcheck disable=SC2034 # kernel.sh reads it
	kernel_folder=named-kernels
	named_in_cache "$@"
)

named_arch() {
	case $1 in
	*-arm64) echo arm64 ;;
	*-ppc64el) echo ppc64el ;;
	*) echo amd64 ;;
	esac
}

# The names in kernels.list and kernel_flavour.
named_key() {
	case $2 in
	amd64) echo "$1" ;;
	*) echo "$1-$2" ;;
	esac
}

# A series is its pinned version, else the newest in the cache: a kernel fetched once stays the
# answer.
named_in_cache() {
	local key exact
	key=$(named_key "$1" "$2")
	exact=$1-$(kernel_flavour "$key")
	if [ -s "$(kernel_cache)/$exact/boot/vmlinuz-$exact" ]; then
		echo "$(kernel_cache)/$exact/boot/vmlinuz-$exact"
	else
		kernel_in_cache "$key" "$(named_pin "$key")"
	fi
}

# The pinned version of a series that is pinned; else one that no archive has.
named_pin() {
	local pin
	pin=$(kernel_pin "$1")
	echo "${pin:-none}"
}

# In a subshell: what it sets and traps is its own.
named_fetch() (
	name=$1 series=$2 arch=$3
	# shellcheck disable=SC2034 # kernel.sh reads it
	case $arch in
	amd64) kernel_folder=named-kernels ;;
	*) kernel_folder=foreign-kernels ;;
	esac
	key=$(named_key "$series" "$arch")
	command -v apt-get >/dev/null || die "debian:$name is not in $(kernel_cache), and there is no apt-get to fetch it"
	tampered=$(kernel_cache_tampered)
	[ -z "$tampered" ] || die "$tampered can be written by others, and kernels from there are booted: remove it, or set LINEMATE_CACHE"
	named_lists "$arch"
	# The previous holder of the lock may have fetched it.
	! named_found "$series" "$arch" >/dev/null || exit 0
	named_read "$arch"
	version=$series-$(kernel_flavour "$key")
	# A package with a series' name is empty and depends on its newest version.
	[[ $series =~ ^[0-9]+\.[0-9]+[.+~] ]] && [ -n "$(apt_versions "linux-image-$version")" ] || version=$(kernel_on_offer "$key" "$(named_pin "$key")")
	[ -n "$version" ] || die "no suite of this computer's Debian archive has a kernel debian:$name$(named_nearest "$series" "$arch")"
	(kernel_fetch "$version") || exit 2
)

# The folder with the lists of an architecture, locked for the (sub)shell.
named_lists() {
	folder=$(dirname "$(kernel_cache)")/apt-lists/$1
	(umask 077 && mkdir -p "$folder") 2>/dev/null || die "cannot create $folder: set LINEMATE_CACHE to a folder that can be written"
	exec 9>"$folder/.lock"
	flock 9
}

# After named_lists: the (sub)shell's apt knows all suites from now on.
named_read() {
	named_apt "$1" "$folder"
	[ -z "$(find "$folder/log" -mmin -60 2>/dev/null)" ] || return 0
	say "reading the package lists of $1 (all suites; they count for an hour)"
	# An archive may lack a suite: the result shows what is missing.
	apt-get update -q </dev/null >"$folder/log.new" 2>&1 || true
	mv "$folder/log.new" "$folder/log"
}

# ensure_named_source SERIES: the sources of a series that any suite has are in the cache afterwards. Needs source.sh.
ensure_named_source() (
	source_in_cache "$1" >/dev/null && return
	command -v apt-get >/dev/null || die "the sources of $1 are not in the cache, and there is no apt-get to fetch them"
	named_lists amd64
	named_read amd64
	ensure_source "$1"
)

# named_apt ARCHITECTURE FOLDER: an apt that knows all suites; its lists stay, so that the next one is quick.
named_apt() {
	local arch=$1 folder=$2 codename suite source
	codename=$(os_release VERSION_CODENAME)
	[ -n "$codename" ] || die "this is not Debian: name a kernel image instead"
	for suite in $NAMED_SUITES; do
		case $suite in
		*-security) source=$(apt_archive_like "$suite" "$codename-security") ;;
		*) source=$(apt_archive_like "$suite" "$codename") ;;
		esac
		[ -z "$source" ] || apt_line "$suite" "$source"
	done >"$folder/sources.new"
	# One that is newer than apt's index makes it read all lists again.
	cmp -s "$folder/sources.new" "$folder/sources.list" || mv "$folder/sources.new" "$folder/sources.list"
	[ -s "$folder/sources.list" ] || die "no apt source of this machine leads to Debian's archive: add it, or name a kernel image"
	own_apt_conf "$arch" "$folder"
	export APT_CONFIG=$folder/apt.conf
}

# named_nearest SERIES ARCHITECTURE: the available series just before and after it, as the end of a
# sentence.
named_nearest() {
	local flavour series nearest
	flavour=$(kernel_flavour "$(named_key 0 "$2")")
	series=$(grep -oE '^[0-9]+\.[0-9]+' <<<"$1")
	nearest=$({ apt-cache search --names-only "^linux-image-[0-9].*-$flavour\$" 2>/dev/null || true; } |
		sed -nE 's/^linux-image-([0-9]+\.[0-9]+)[.~+-].*/\1/p' | sort -Vu |
		awk -v asked="$series" -v suffix="$([ "$2" = amd64 ] || echo "-$2")" '
			function before(a, b, x, y) { split(a, x, "."); split(b, y, "."); return x[1] < y[1] || x[1] == y[1] && x[2] + 0 < y[2] + 0 }
			$1 == asked { next }
			{ name[++n] = $1; if (before($1, asked)) at = n }
			END {
				for (i = at - 1; i <= at + 2; i++) if (i in name) text = text (text == "" ? "" : ", ") "debian:" name[i] suffix
				print text
			}')
	[ -z "$nearest" ] || echo "; the nearest: $nearest"
}
