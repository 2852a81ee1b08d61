// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * buffer_descriptors - descriptors of 64 bytes that do not start lines (PostgreSQL, BufferDesc).
 * Source: A. Freund, PostgreSQL 9.5, 2015: the array of descriptors starts a line.
 *
 * Where it is weak: each thread has buffers of its own, every fourth; a real one shares some.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "threads.h"

#define BUFFERS 64

struct buftag {
	uint32_t relation[3];
	int32_t fork;
	uint32_t block;
};

struct lwlock {
	_Atomic uint32_t state;
};

struct BufferDesc {
	struct buftag tag;
	uint16_t flags;
	uint16_t usage_count;
	uint32_t refcount;
	int32_t wait_backend_pid;
	_Atomic uint8_t buf_hdr_lock;
	int32_t buf_id;
	int32_t freeNext;
	struct lwlock *io_in_progress_lock;
	struct lwlock *content_lock;
};

static struct BufferDesc *descriptors;
/* Lines of their own, so that only the descriptors share lines. */
static _Alignas(128) struct lwlock locks[BUFFERS][32];

static void lock_header(struct BufferDesc *buffer)
{
	while (atomic_exchange_explicit(&buffer->buf_hdr_lock, 1, memory_order_acquire))
		__builtin_ia32_pause();
}

static void unlock_header(struct BufferDesc *buffer)
{
	atomic_store_explicit(&buffer->buf_hdr_lock, 0, memory_order_release);
}

static void read_buffer(struct BufferDesc *buffer, uint32_t block)
{
	lock_header(buffer);
	if (buffer->tag.block != block)
		exit(1);
	buffer->refcount++;
	if (buffer->usage_count < 5)
		buffer->usage_count++;
	unlock_header(buffer);
	atomic_fetch_add(&buffer->content_lock->state, 1);
	atomic_fetch_sub(&buffer->content_lock->state, 1);
	lock_header(buffer);
	buffer->refcount--;
	unlock_header(buffer);
}

static void scan(const struct work *work)
{
	long round;
	int i;

	for (round = 0; round < work->rounds; round++)
		for (i = work->thread; i < BUFFERS; i += work->threads)
			read_buffer(&descriptors[i], (uint32_t)i);
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 1200);
	int i;

#ifdef FIXED
	descriptors = aligned_alloc(64, BUFFERS * sizeof(*descriptors));
#else
	descriptors = malloc(BUFFERS * sizeof(*descriptors));
#endif
	if (!descriptors)
		return 2;
	memset(descriptors, 0, BUFFERS * sizeof(*descriptors));
	for (i = 0; i < BUFFERS; i++) {
		descriptors[i].tag.block = (uint32_t)i;
		descriptors[i].buf_id = i;
		descriptors[i].content_lock = locks[i];
	}
	work_in_threads(&work, scan);
	return descriptors[0].refcount != 0;
}
