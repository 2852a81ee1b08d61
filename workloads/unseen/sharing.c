/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sharing - small cases of false sharing, each a function, with its published fix under FIXED; and
 * controls without any. cases.list has where each was published.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: sharing CASE [ROUNDS [THREADS]]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../known/threads.h"

#define LINE 64

#ifdef FIXED
#define APART _Alignas(LINE)
#define STRIDE(type) (LINE / sizeof(type))
#else
#define APART
#define STRIDE(type) 1
#endif

#define load_relaxed(word) atomic_load_explicit(word, memory_order_relaxed)
#define load_acquire(word) atomic_load_explicit(word, memory_order_acquire)

/* Rounds of a phase in which threads run side by side. */
#define ROUNDS 20000

/* sum_per_thread: one int for each thread in a block of them. */
static volatile int *sums;

static void add_up(const struct work *work)
{
	volatile int *own = &sums[(size_t)work->thread * STRIDE(int)];
	long round;

	for (round = 0; round < work->rounds; round++)
		*own += (int)round;
}

static int sum_per_thread(struct work work)
{
	sums = aligned_alloc(LINE, (size_t)work.threads * LINE);
	memset((void *)sums, 0, (size_t)work.threads * LINE);
	work_in_threads(&work, add_up);
	return sums[0] == 1;
}

/* partial_rows: three partial sums of doubles for each thread, rows of one block. */
#define COLUMNS 3
#ifdef FIXED
#define ROW (LINE / sizeof(double))
#else
#define ROW COLUMNS
#endif

static volatile double *rows;

static void add_rows(const struct work *work)
{
	volatile double *row = &rows[(size_t)work->thread * ROW];
	long round;

	for (round = 0; round < work->rounds; round++) {
		row[0] += (double)round;
		row[1] += 1.0;
		row[2] -= 1.0;
	}
}

static int partial_rows(struct work work)
{
	rows = aligned_alloc(LINE, (size_t)work.threads * LINE);
	memset((void *)rows, 0, (size_t)work.threads * LINE);
	work_in_threads(&work, add_rows);
	return rows[1] < 1.0;
}

/* lcore_stats: packets and bytes of each thread in an array of structs without a tag. */
typedef struct {
	APART volatile long packets;
	volatile long bytes;
} lcore_stats_t;

static lcore_stats_t *lcores;

static void forward(const struct work *work)
{
	lcore_stats_t *own = &lcores[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++) {
		own->packets++;
		own->bytes += 64;
	}
}

static int lcore_stats(struct work work)
{
	lcores = aligned_alloc(LINE, (size_t)work.threads * LINE);
	memset(lcores, 0, (size_t)work.threads * LINE);
	work_in_threads(&work, forward);
	return lcores[0].packets != work.rounds;
}

/* ring: producer's and consumer's index and what both read, in one struct without a tag. */
typedef struct {
	APART atomic_uint produced;
	APART atomic_uint consumed;
	APART unsigned int mask;
	long *slots;
} ring_t;

static ring_t *rings[THREADS_MAX / 2];

static void produce_or_consume(const struct work *work)
{
	ring_t *ring = rings[work->thread / 2];
	long round;

	for (round = 0; round < work->rounds; round++) {
		if (work->thread % 2) {
			unsigned int next = load_relaxed(&ring->consumed);

			while (load_acquire(&ring->produced) == next)
				__builtin_ia32_pause();
			if (ring->slots[next & ring->mask] != round)
				exit(1);
			atomic_store_explicit(&ring->consumed, next + 1, memory_order_release);
		} else {
			unsigned int next = load_relaxed(&ring->produced);

			while (next - load_acquire(&ring->consumed) > ring->mask)
				__builtin_ia32_pause();
			ring->slots[next & ring->mask] = round;
			atomic_store_explicit(&ring->produced, next + 1, memory_order_release);
		}
	}
}

static int ring(struct work work)
{
	int i;

	for (i = 0; i < work.threads / 2; i++) {
		rings[i] = aligned_alloc(LINE, (sizeof(ring_t) + LINE - 1) / LINE * LINE);
		memset(rings[i], 0, sizeof(ring_t));
		rings[i]->mask = 255;
		rings[i]->slots = calloc(256, sizeof(long));
	}
	work_in_threads(&work, produce_or_consume);
	return 0;
}

/* handed_blocks: one thread allocates a small block for each of the others. */
static long *blocks[THREADS_MAX];

static void scratch(const struct work *work)
{
	volatile long *own = blocks[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++)
		own[0] += own[1];
}

static int handed_blocks(struct work work)
{
	int i;

	for (i = 0; i < work.threads; i++) {
#ifdef FIXED
		blocks[i] = aligned_alloc(LINE, LINE);
#else
		blocks[i] = malloc(2 * sizeof(long));
#endif
		blocks[i][0] = 0;
		blocks[i][1] = 1;
	}
	work_in_threads(&work, scratch);
	return blocks[0][0] != work.rounds;
}

/* row_counts: a counter for each thread in a variable of the program. */
static volatile long row_counts[THREADS_MAX * (LINE / sizeof(long))];

static void count_rows(const struct work *work)
{
	volatile long *own = &row_counts[(size_t)work->thread * STRIDE(long)];
	long round;

	for (round = 0; round < work->rounds; round++)
		++*own;
}

static int sharded_rows(struct work work)
{
	work_in_threads(&work, count_rows);
	return row_counts[0] != work.rounds;
}

/* control_one_word: all threads add to one number on the heap; nothing else is there. */
static atomic_long *one_word;

static void add_one(const struct work *work)
{
	long round;

	for (round = 0; round < work->rounds / 8; round++)
		atomic_fetch_add(one_word, 1);
}

static int control_one_word(struct work work)
{
	one_word = aligned_alloc(LINE, LINE);
	atomic_init(one_word, 0);
	work_in_threads(&work, add_one);
	return 0;
}

/* control_table: all threads read a block of numbers that nobody writes. */
static int *table;

static void read_table(const struct work *work)
{
	volatile int sum = 0;
	long round;

	for (round = 0; round < work->rounds; round++)
		sum += table[(round * 7 + work->thread) % 256];
}

static int control_table(struct work work)
{
	int i;

	table = malloc(256 * sizeof(int));
	for (i = 0; i < 256; i++)
		table[i] = i;
	work_in_threads(&work, read_table);
	return 0;
}

/* control_pages: each thread has four pages of one block for itself. */
#define PAGES_OF (4 * 4096 / sizeof(long))
static long *pages;

static void fill_pages(const struct work *work)
{
	volatile long *own = &pages[(size_t)work->thread * PAGES_OF];
	long round;

	for (round = 0; round < work->rounds; round++)
		own[(size_t)round % PAGES_OF] += round;
}

static int control_pages(struct work work)
{
	pages = aligned_alloc(4096, (size_t)work.threads * PAGES_OF * sizeof(long));
	memset(pages, 0, (size_t)work.threads * PAGES_OF * sizeof(long));
	work_in_threads(&work, fill_pages);
	return 0;
}

/* control_guarded: a lock and what it guards, in a struct without a tag, always used together. */
typedef struct {
	atomic_int lock;
	int users;
	long sum;
	long last;
} guarded_t;

static guarded_t *guarded;

static void use_guarded(const struct work *work)
{
	/* volatile, so that the work is not computed in one go. */
	volatile long own = 0;
	long round;
	int i;

	for (round = 0; round < work->rounds / 32; round++) {
		while (atomic_exchange_explicit(&guarded->lock, 1, memory_order_acquire))
			__builtin_ia32_pause();
		guarded->users++;
		guarded->sum += round;
		guarded->last = round;
		atomic_store_explicit(&guarded->lock, 0, memory_order_release);
		for (i = 0; i < 1000; i++)
			own += i;
	}
}

static int control_guarded(struct work work)
{
	guarded = aligned_alloc(LINE, LINE);
	memset(guarded, 0, LINE);
	work_in_threads(&work, use_guarded);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct work work);
} all[] = {
	{ "sum_per_thread", sum_per_thread },
	{ "partial_rows", partial_rows },
	{ "lcore_stats", lcore_stats },
	{ "ring", ring },
	{ "handed_blocks", handed_blocks },
	{ "sharded_rows", sharded_rows },
	{ "control_one_word", control_one_word },
	{ "control_table", control_table },
	{ "control_pages", control_pages },
	{ "control_guarded", control_guarded },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]))
			return all[i].run(work_from(argc - 1, argv + 1, ROUNDS));
	fprintf(stderr, "usage: sharing CASE [ROUNDS [THREADS]]\n");
	return 2;
}
