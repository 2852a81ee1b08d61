// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * dentry_refcount - a reference count beside the name that all look-ups read (Linux).
 * Source: M. Guzik, Linux commit 18a5daf0e497, 2024: d_lockref moves away from the name.
 *
 * Where it is weak: one directory entry, and no other work between the look-ups.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "threads.h"

struct lockref {
	_Atomic uint64_t lock_count;
};

struct qstr {
	uint64_t hash_len;
	const unsigned char *name;
};

struct dentry {
	unsigned int d_flags;
	unsigned int d_seq;
	struct dentry *d_hash_next;
	struct dentry **d_hash_pprev;
	struct dentry *d_parent;
	struct qstr d_name;
	void *d_inode;
	unsigned char d_iname[40];
#ifndef FIXED
	struct lockref d_lockref;
#endif
	const void *d_op;
	void *d_sb;
	unsigned long d_time;
	void *d_fsdata;
#ifdef FIXED
	struct lockref d_lockref;
#endif
	void *d_lru[2];
	void *d_child[2];
	void *d_alias[2];
};

static struct dentry *hashed;

static int same_name(const unsigned char *name, const char *asked, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (name[i] != (unsigned char)asked[i])
			return 0;
	return 1;
}

static struct dentry *lookup_rcu(const char *asked, uint64_t hash_len)
{
	struct dentry *dentry;

	for (dentry = hashed; dentry; dentry = dentry->d_hash_next) {
		if (dentry->d_seq & 1 || dentry->d_name.hash_len != hash_len)
			continue;
		if (same_name(dentry->d_name.name, asked, hash_len >> 32))
			return dentry;
	}
	return NULL;
}

static void stat_file(const struct work *work)
{
	static const char asked[] = "will-it-scale-and-how-well.txt";
	uint64_t hash_len = (uint64_t)strlen(asked) << 32 | 7;
	long round;

	for (round = 0; round < work->rounds; round++) {
		struct dentry *dentry = lookup_rcu(asked, hash_len);

		if (!dentry)
			exit(1);
		atomic_fetch_add(&dentry->d_lockref.lock_count, 1);
		if (!dentry->d_inode)
			exit(1);
		atomic_fetch_sub(&dentry->d_lockref.lock_count, 1);
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 4000);

	hashed = aligned_alloc(64, sizeof(*hashed));
	if (!hashed)
		return 2;
	memset(hashed, 0, sizeof(*hashed));
	strcpy((char *)hashed->d_iname, "will-it-scale-and-how-well.txt");
	hashed->d_name.name = hashed->d_iname;
	hashed->d_name.hash_len = (uint64_t)strlen((char *)hashed->d_iname) << 32 | 7;
	hashed->d_inode = hashed;
	work_in_threads(&work, stat_file);
	return hashed->d_lockref.lock_count != 0;
}
