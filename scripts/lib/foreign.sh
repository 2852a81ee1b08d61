# shellcheck shell=bash
# Kernels of other architectures and of an older release for scripts/setup.sh, by an apt of their own: its lists and settings lie in a folder that
# vanishes, so that this machine's apt does not change and root is not needed. Needs `die`, `say`, apt.sh and kernel.sh.

# ensure_foreign_kernel SERIES: an image of the series is in the cache afterwards.
ensure_foreign_kernel() {
	foreign_in_cache "$1" >/dev/null || (foreign_fetch "$1") || exit 2
}

# foreign_in_cache SERIES: prints the image's path; fails where there is none.
foreign_in_cache() (
	kernel_folder=foreign-kernels
	kernel_in_cache "$1" "$(kernel_pin "$1")"
)

# In a subshell: what it sets and traps is its own.
foreign_fetch() {
	# shellcheck disable=SC2034 # kernel.sh reads it
	kernel_folder=foreign-kernels
	own_apt_fetch "$1" "${1#*-}"
}

# own_apt_fetch SERIES ARCHITECTURE: only in a subshell, which it ends where it fails.
own_apt_fetch() {
	local series=$1 arch=$2 pin version folder
	pin=$(kernel_pin "$series")
	command -v apt-get >/dev/null || die "there is no kernel image of $series in $(kernel_cache) and no apt-get to fetch" \
		"one: put Debian's at $(kernel_cache)/$pin/boot/vmlinuz-$pin"
	folder=$(mktemp -d "${TMPDIR:-/tmp}/linemate-apt.XXXXXX") || die "cannot create a temporary folder"
	# shellcheck disable=SC2064
	trap "rm -rf '$folder'" EXIT
	own_apt_settings "$arch" "$folder"
	export APT_CONFIG=$folder/apt.conf
	if [ "$arch" = amd64 ]; then
		say "reading the package lists of $PINNED_RELEASE"
	else
		say "reading the package lists of $arch"
	fi
	# A mirror may lack an architecture in one suite and have the kernel in another: the result shows
	# what is missing.
	apt-get update -q </dev/null >"$folder/log" 2>&1 || true
	version=$(kernel_on_offer "$series" "$pin")
	[ -n "$version" ] || die "no apt source of this machine has a kernel image of $series" \
		"($(grep -E '^(E|W|Err)' "$folder/log" | tail -n 1 || true)): add Debian's archive with its backports to the sources"
	[ "$version" = "$pin" ] || say "the pinned kernel $pin is no longer on offer: taking $version"
	# It has a trap of its own.
	(kernel_fetch "$version") || exit 2
}

# own_apt_settings ARCHITECTURE FOLDER: an apt that knows this machine's Debian archives, for one architecture, and at the same
# addresses the release of the pinned kernels.
own_apt_settings() {
	local arch=$1 folder=$2 codename release part source
	codename=$(os_release VERSION_CODENAME)
	[ -n "$codename" ] || die "this is not Debian: put its $arch kernel into $(kernel_cache) by hand"
	for release in $(printf '%s\n' "$codename" "$PINNED_RELEASE" | sort -u); do
		for part in -security -backports ""; do
			source=$(apt_archive_like "$release$part" "$codename$part")
			# Backports are in the release's archive, whether or not this machine takes anything from there.
			[ -n "$source" ] || [ "$part" != -backports ] || source=$(apt_archive "$codename" | sed -n 1p)
			[ -z "$source" ] || apt_line "$release$part" "$source"
		done
	done >"$folder/sources.list"
	own_apt_conf "$arch" "$folder"
}

# own_apt_conf ARCHITECTURE FOLDER: settings of an apt whose sources, lists and downloads are in the folder.
own_apt_conf() {
	local arch=$1 folder=$2
	mkdir -p "$folder"/state/lists/partial "$folder"/cache/archives/partial
	[ -e "$folder/status" ] || : >"$folder/status"
	cat >"$folder/apt.conf" <<-END
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Dir::State "$folder/state";
		Dir::State::status "$folder/status";
		Dir::Cache "$folder/cache";
		Dir::Etc::sourcelist "$folder/sources.list";
		Dir::Etc::sourceparts "-";
	END
}
