/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stacks - cases of false sharing between threads of OpenMP that use what is on the stack of the
 * one that starts them; each a function, with its published fix under FIXED; and controls.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: stacks CASE [ROUNDS [THREADS]]
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 16
#define ROUNDS 20000
#define LINE 64

#ifdef FIXED
#define APART _Alignas(LINE)
#define STRIDE (LINE / sizeof(double))
#else
#define APART
#define STRIDE 1
#endif

/* omp_sums: an integral in strips, each thread with its partial sum in an array. */
static double omp_sums(long rounds, int threads)
{
	APART volatile double sums[THREADS_MAX * STRIDE] = { 0 };
	double step = 1.0 / (double)rounds, all = 0;
	int i;

#pragma omp parallel num_threads(threads)
	{
		size_t own = (size_t)omp_get_thread_num() * STRIDE;

		for (long round = 0; round < rounds; round++) {
			double x = ((double)round + 0.5) * step;

			sums[own] += 4.0 / (1.0 + x * x);
		}
	}
	for (i = 0; i < threads; i++)
		all += sums[(size_t)i * STRIDE];
	return all;
}

/* omp_records: each thread's minimum and count in a struct of an array. */
struct extremum {
	APART volatile double least;
	volatile long seen;
};

static double omp_records(long rounds, int threads)
{
	struct extremum found[THREADS_MAX];
	double least = 2;
	int i;

	for (i = 0; i < THREADS_MAX; i++) {
		found[i].least = 1;
		found[i].seen = 0;
	}
#pragma omp parallel num_threads(threads)
	{
		struct extremum *own = &found[omp_get_thread_num()];

		for (long round = 1; round <= rounds; round++) {
			double next = 1.0 / (double)round;

			if (next < own->least)
				own->least = next;
			own->seen++;
		}
	}
	for (i = 0; i < threads; i++)
		if (found[i].seen && found[i].least < least)
			least = found[i].least;
	return least;
}

/* control_reduction: the sums are each thread's own, and added at its end. */
static double control_reduction(long rounds, int threads)
{
	double step = 1.0 / (double)rounds, all = 0;

#pragma omp parallel for num_threads(threads) reduction(+ : all)
	for (long round = 0; round < rounds; round++) {
		double x = ((double)round + 0.5) * step;

		all += 4.0 / (1.0 + x * x);
	}
	return all;
}

/* control_blocks: each thread writes a part of an array that is many lines long. */
static double control_blocks(long rounds, int threads)
{
	_Alignas(LINE) volatile double cells[THREADS_MAX * LINE] = { 0 };
	double all = 0;
	size_t i;

#pragma omp parallel num_threads(threads)
	{
		volatile double *own = &cells[omp_get_thread_num() * LINE];

		for (long round = 0; round < rounds; round++)
			own[round % LINE] += (double)round;
	}
	for (i = 0; i < THREADS_MAX * LINE; i++)
		all += cells[i];
	return all;
}

static const struct {
	const char *name;
	double (*run)(long rounds, int threads);
} all[] = {
	{ "omp_sums", omp_sums },
	{ "omp_records", omp_records },
	{ "control_reduction", control_reduction },
	{ "control_blocks", control_blocks },
};

int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : ROUNDS;
	int threads = argc > 3 ? atoi(argv[3]) : 4;
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]) && threads <= THREADS_MAX)
			return all[i].run(rounds, threads) < 0;
	fprintf(stderr, "usage: stacks CASE [ROUNDS [THREADS]]\n");
	return 2;
}
