// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Unpacks a cpio archive (newc form, as the kernel's own initramfs): directories, files,
 * symbolic links.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER 110
#define FIELD_MODE 1
#define FIELD_SIZE 6
#define FIELD_NAME_SIZE 11

static size_t align4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* Fields are eight hexadecimal digits each, after the six of the magic. */
static size_t field(const char *header, int index)
{
	const char *p = header + 6 + 8 * index;
	size_t value = 0;
	int i;

	for (i = 0; i < 8; i++) {
		char c = p[i];

		value = value << 4 | (size_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
	}
	return value;
}

static void make_parents(const char *path)
{
	char dir[4096];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	for (slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(dir, 0755) && errno != EEXIST)
			die_errno(dir);
		*slash = '/';
	}
}

static void write_file(const char *path, mode_t mode, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		die_errno(path);
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n <= 0)
			die_errno(path);
		data += n;
		len -= n;
	}
	if (fchmod(fd, mode & 07777))
		die_errno(path);
	close(fd);
}

static void unpack_entry(const char *name, mode_t mode, const char *data, size_t len)
{
	char path[4096];
	char target[4096];

	snprintf(path, sizeof(path), "/%s", name);
	make_parents(path);
	if (S_ISDIR(mode)) {
		if (mkdir(path, mode & 07777) && errno != EEXIST)
			die_errno(path);
		return;
	}
	/* What the payload brings takes the place of busybox's stand-in. */
	if (unlink(path) && errno != ENOENT)
		die_errno(path);
	if (S_ISLNK(mode)) {
		snprintf(target, sizeof(target), "%.*s", (int)len, data);
		if (symlink(target, path))
			die_errno(path);
	} else {
		write_file(path, mode, data, len);
	}
}

void cpio_unpack(const char *archive, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *header = archive + at;
		const char *name = header + HEADER;
		size_t name_size, size, data;

		if (len - at < HEADER || memcmp(header, "070701", 6))
			die("payload: broken archive at byte %zu", at);
		name_size = field(header, FIELD_NAME_SIZE);
		size = field(header, FIELD_SIZE);
		data = at + align4(HEADER + name_size);
		if (!name_size || data > len || size > len - data)
			die("payload: archive cut at byte %zu", at);
		if (!strcmp(name, "TRAILER!!!"))
			return;
		unpack_entry(name, (mode_t)field(header, FIELD_MODE), archive + data, size);
		at = data + align4(size);
		if (at > len)
			die("payload: archive cut at byte %zu", at);
	}
}
