// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * streamcluster - each thread's sums are padded for lines of 32 bytes, in one array (PARSEC).
 * Source: T. Liu, E. D. Berger, SHERIFF, OOPSLA 2011; the fix pads for lines of 64 bytes.
 *
 * Where it is weak: only the sums of pgain() are here, with made-up distances.
 */
#include <stdio.h>

#include "threads.h"

#ifdef FIXED
#define CACHE_LINE 64
#else
#define CACHE_LINE 32
#endif

#define CENTERS 10
#define POINTS 512

static double *work_mem;
static int stride;

static void pgain(const struct work *work)
{
	double *lower = &work_mem[work->thread * stride];
	long round;
	int i;

	for (round = 0; round < work->rounds; round++) {
		for (i = 0; i < POINTS; i++)
			lower[i % CENTERS] += (double)i * 0.5;
		lower[CENTERS] += lower[round % CENTERS];
		lower[CENTERS + 1] += 1.0;
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 400);
	int line = CACHE_LINE / (int)sizeof(double);

	stride = CENTERS + 2;
	if (stride % line)
		stride = line * (stride / line + 1);
	work_mem = calloc((size_t)(stride * (work.threads + 1)), sizeof(*work_mem));
	if (!work_mem)
		return 2;
	work_in_threads(&work, pgain);
	printf("%.0f\n", work_mem[CENTERS]);
	free(work_mem);
	return 0;
}
