/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A pipeline in a ring: each thread takes numbers from one queue and puts them into the next one,
 * so every thread consumes from one queue and produces into another. Which of the two uses a queue
 * more depends on who has to wait: it polls the other's count.
 */
#define _GNU_SOURCE
#include "start.h"
#include <stdio.h>

enum { STAGES = 4, SLOTS = 64, STARTED = 32, LAPS = 4000 };

struct stage {
	_Alignas(64) atomic_ulong taken;
	atomic_ulong put;
	/* The producer's copy of the former, and the consumer's of the latter. */
	unsigned long seen_taken;
	unsigned long seen_put;
	unsigned long *slots;
};

static struct stage *stages[STAGES];

static void put(struct stage *stage, unsigned long number)
{
	unsigned long at = atomic_load_explicit(&stage->put, memory_order_relaxed);

	while (at - stage->seen_taken == SLOTS) {
		__builtin_ia32_pause();
		stage->seen_taken = atomic_load_explicit(&stage->taken, memory_order_acquire);
	}
	stage->slots[at % SLOTS] = number;
	atomic_store_explicit(&stage->put, at + 1, memory_order_release);
}

static unsigned long take(struct stage *stage)
{
	unsigned long at = atomic_load_explicit(&stage->taken, memory_order_relaxed);
	unsigned long number;

	while (at == stage->seen_put) {
		__builtin_ia32_pause();
		stage->seen_put = atomic_load_explicit(&stage->put, memory_order_acquire);
	}
	number = stage->slots[at % SLOTS];
	atomic_store_explicit(&stage->taken, at + 1, memory_order_release);
	return number;
}

static void *work(void *arg)
{
	int me = (int)(long)arg;
	struct stage *from = stages[me], *to = stages[(me + 1) % STAGES];
	unsigned long number = 0;

	start(me, STAGES);
	for (int i = 0; i < LAPS; i++) {
		if (i >= STARTED)
			number = take(from);
		/* One is slow: the queue before it is full, and those behind it are empty. */
		for (volatile int wait = me == 0 ? 100 : 0; wait > 0; wait--)
			;
		put(to, number + 1);
	}
	return (void *)number;
}

int main(void)
{
	pthread_t threads[STAGES];

	for (int i = 0; i < STAGES; i++) {
		stages[i] = aligned_alloc(64, sizeof(*stages[i]));
		*stages[i] = (struct stage){ .slots = aligned_alloc(64, SLOTS * sizeof(long)) };
	}
	for (long i = 0; i < STAGES; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < STAGES; i++) {
		void *last;

		pthread_join(threads[i], &last);
		printf("%lu\n", (unsigned long)last);
	}
	return 0;
}
