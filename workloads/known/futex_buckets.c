// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * futex_buckets - the locks of neighbouring buckets of a hash table share a line (Linux, futexes).
 * Source: R. G. Thirumalai, lkml.org/lkml/2009/3/21/33; Linux 3.14 (2014) gives each bucket a line.
 *
 * Where it is weak: nobody sleeps; a chain has no more than one element.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "threads.h"

#define BUCKETS 64
#define FUTEXES 4

struct futex_q {
	struct futex_q *next;
	uint32_t *uaddr;
};

struct futex_hash_bucket {
#ifdef FIXED
	_Alignas(64)
#endif
	atomic_int waiters;
	atomic_int lock;
	struct futex_q *chain;
};

static struct futex_hash_bucket futex_queues[BUCKETS];
/* A line for each thread's, so that only the buckets share lines. */
static _Alignas(128) uint32_t futexes[THREADS_MAX][32];

static struct futex_hash_bucket *hash_futex(const uint32_t *uaddr)
{
	uint64_t hash = (uintptr_t)uaddr / sizeof(*uaddr) * 0x9e3779b97f4a7c15ull;

	return &futex_queues[hash >> 58];
}

static void wait_and_wake(uint32_t *uaddr)
{
	struct futex_hash_bucket *hb = hash_futex(uaddr);
	struct futex_q q = { NULL, uaddr };

	atomic_fetch_add(&hb->waiters, 1);
	while (atomic_exchange_explicit(&hb->lock, 1, memory_order_acquire))
		__builtin_ia32_pause();
	q.next = hb->chain;
	hb->chain = &q;
	*uaddr += 1;
	hb->chain = q.next;
	atomic_store_explicit(&hb->lock, 0, memory_order_release);
	atomic_fetch_sub(&hb->waiters, 1);
}

static void use_futexes(const struct work *work)
{
	long round;
	int i;

	for (round = 0; round < work->rounds; round++)
		for (i = 0; i < FUTEXES; i++)
			wait_and_wake(&futexes[work->thread][i]);
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 16000);

	work_in_threads(&work, use_futexes);
	return futexes[0][0] != work.rounds;
}
