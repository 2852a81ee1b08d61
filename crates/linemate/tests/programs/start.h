/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How the threads of the test programs begin. */
#ifndef START_H
#define START_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int started;

/*
 * Each of that many threads on a CPU of its own, or one could be behind another. Nobody sleeps
 * here, who would be woken when others are done.
 */
static void start(int cpu, int threads)
{
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET(cpu, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		abort();
	atomic_fetch_add(&started, 1);
	while (atomic_load(&started) < threads)
		__builtin_ia32_pause();
}

#endif
