// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two threads of the same work: after each batch a thread notes how far the other is, in lines
 * "together OWN OTHER". Then one fills a ring that the other empties; both wait without `pause`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 40000
#define BATCH 2000
#define EVENTS 20000
#define SLOTS 4096

struct counter {
	_Alignas(64) atomic_long done;
};

struct spsc {
	_Alignas(64) atomic_uint produced;
	atomic_uint consumed;
	long slots[SLOTS];
};

static struct counter counters[2];
static struct spsc ring;
static long others[2][ROUNDS / BATCH];
static atomic_int waiting[2] = { 2, 2 };

/* Both go on together. */
static void meet(int which)
{
	atomic_fetch_sub(&waiting[which], 1);
	while (atomic_load(&waiting[which]))
		;
}

static void same_work(long id)
{
	for (long i = 1; i <= ROUNDS; i++) {
		atomic_store_explicit(&counters[id].done, i, memory_order_relaxed);
		if (i % BATCH == 0)
			others[id][i / BATCH - 1] =
				atomic_load_explicit(&counters[1 - id].done, memory_order_relaxed);
	}
}

static void produce(void)
{
	for (unsigned int i = 0; i < EVENTS; i++) {
		while (i - atomic_load_explicit(&ring.consumed, memory_order_acquire) == SLOTS)
			;
		ring.slots[i % SLOTS] = i;
		atomic_store_explicit(&ring.produced, i + 1, memory_order_release);
	}
}

static void consume(void)
{
	for (unsigned int i = 0; i < EVENTS; i++) {
		while (atomic_load_explicit(&ring.produced, memory_order_acquire) == i)
			;
		if (ring.slots[i % SLOTS] != i)
			abort();
		atomic_store_explicit(&ring.consumed, i + 1, memory_order_release);
	}
}

static void *thread(void *p)
{
	long id = (long)p;
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET(id, &own);
	if (pthread_setaffinity_np(pthread_self(), sizeof(own), &own))
		abort();
	meet(0);
	same_work(id);
	meet(1);
	if (id)
		consume();
	else
		produce();
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	for (long i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)i))
			abort();
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (long batch = 0; batch < ROUNDS / BATCH; batch++)
		for (int id = 0; id < 2; id++)
			printf("together %ld %ld\n", (batch + 1) * BATCH, others[id][batch]);
	return 0;
}
