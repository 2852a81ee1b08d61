// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * linear_regression - each thread sums up into its element of one array on the heap (Phoenix).
 * Source: T. Liu, E. D. Berger, SHERIFF, OOPSLA 2011; the fix pads each element by a line.
 *
 * Where it is weak: the points are few and stay in the caches. Today's compilers keep the sums in
 * registers and so hide the fault: volatile leaves them where those of 2011 did.
 */
#include "threads.h"

#define POINTS 1024

struct point {
	char x;
	char y;
};

struct lreg_args {
	pthread_t tid;
	const struct point *points;
	int num_elems;
	long long SX;
	long long SY;
	long long SXX;
	long long SYY;
	long long SXY;
#ifdef FIXED
	char padding[64];
#endif
};

static struct lreg_args *tid_args;

static void linear_regression_pthread(const struct work *work)
{
	volatile struct lreg_args *args = &tid_args[work->thread];
	long round;
	int i;

	for (round = 0; round < work->rounds; round++) {
		for (i = 0; i < args->num_elems; i++) {
			args->SX += args->points[i].x;
			args->SXX += args->points[i].x * args->points[i].x;
			args->SY += args->points[i].y;
			args->SYY += args->points[i].y * args->points[i].y;
			args->SXY += args->points[i].x * args->points[i].y;
		}
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 32);
	struct point *points = malloc(POINTS * sizeof(*points));
	long long sum = 0;
	int i;

	tid_args = calloc((size_t)work.threads, sizeof(*tid_args));
	if (!points || !tid_args)
		return 2;
	for (i = 0; i < POINTS; i++)
		points[i] = (struct point){ (char)(i % 50), (char)(i % 70) };
	for (i = 0; i < work.threads; i++) {
		tid_args[i].points = points;
		tid_args[i].num_elems = POINTS;
	}
	work_in_threads(&work, linear_regression_pthread);
	for (i = 0; i < work.threads; i++)
		sum += tid_args[i].SXY;
	free(tid_args);
	free(points);
	return sum == 0;
}
