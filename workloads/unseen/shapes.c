/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * shapes - small cases of false sharing, by where the memory is: stack, arena, variables, heap;
 * each a function, with its published fix under FIXED; and controls. cases.list has the sources.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: shapes CASE [ROUNDS [THREADS]]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

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
#define add_relaxed(word, number) atomic_fetch_add_explicit(word, number, memory_order_relaxed)

/* Rounds of a phase in which threads run side by side. */
#define ROUNDS 20000

/* stack_sums: partial sums of threads in an array on the stack of the one that waits for them. */
static volatile double *partial;

static void integrate(const struct work *work)
{
	volatile double *own = &partial[(size_t)work->thread * STRIDE(double)];
	double step = 1.0 / (double)work->rounds;
	long round;

	for (round = 0; round < work->rounds; round++) {
		double x = ((double)round + 0.5) * step;

		*own += 4.0 / (1.0 + x * x);
	}
}

static int stack_sums(struct work work)
{
	_Alignas(LINE) volatile double sums[THREADS_MAX * STRIDE(double)];
	double all = 0;
	int i;

	for (i = 0; i < THREADS_MAX; i++)
		sums[(size_t)i * STRIDE(double)] = 0;
	partial = sums;
	work_in_threads(&work, integrate);
	for (i = 0; i < work.threads; i++)
		all += sums[(size_t)i * STRIDE(double)];
	return all < 1.0;
}

/* arena_blocks: one mapping, cut into a descriptor for each thread. */
struct descriptor {
	APART volatile long status;
	volatile long commits;
	volatile long aborts;
};

static struct {
	char *next, *end;
} arena;

static void *cut_from_arena(size_t size)
{
	void *block = arena.next;

	size = (size + 15) & ~(size_t)15;
	if (arena.next + size > arena.end)
		exit(2);
	arena.next += size;
	return block;
}

static struct descriptor *descriptors[THREADS_MAX];

static void transact(const struct work *work)
{
	struct descriptor *own = descriptors[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++) {
		own->status = 1;
		own->commits++;
		own->status = 0;
	}
}

static int arena_blocks(struct work work)
{
	int i;

	arena.next = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	arena.end = arena.next + (1 << 16);
	for (i = 0; i < work.threads; i++)
		descriptors[i] = cut_from_arena(sizeof(struct descriptor));
	work_in_threads(&work, transact);
	return descriptors[0]->commits != work.rounds;
}

/* stat_slots: statistics of each thread in an array of structs that is a variable. */
static struct slot {
	APART volatile long reads;
	volatile long writes;
	volatile long bytes;
} stat_slot[THREADS_MAX];

static void serve(const struct work *work)
{
	struct slot *own = &stat_slot[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++) {
		if (round % 4)
			own->reads++;
		else
			own->writes++;
		own->bytes += 100;
	}
}

static int stat_slots(struct work work)
{
	work_in_threads(&work, serve);
	return stat_slot[0].writes == 0;
}

/* clock_reads: a sequence count and what it guards beside a count of faults by one thread. */
struct clock {
	atomic_uint sequence;
	volatile long base;
	volatile long scale;
	APART atomic_long faults;
};

static struct clock *clock_of_all;

static long read_clock(struct clock *clock)
{
	unsigned int sequence;
	long now;

	do {
		sequence = atomic_load_explicit(&clock->sequence, memory_order_acquire);
		now = clock->base * clock->scale;
		atomic_thread_fence(memory_order_acquire);
	} while (sequence % 2 || sequence != load_relaxed(&clock->sequence));
	return now;
}

static void read_or_fault(const struct work *work)
{
	volatile long last = 0;
	long round;

	for (round = 0; round < work->rounds; round++) {
		if (work->thread == 0)
			add_relaxed(&clock_of_all->faults, 1);
		else
			last = read_clock(clock_of_all);
	}
	(void)last;
}

static int clock_reads(struct work work)
{
	clock_of_all = aligned_alloc(LINE, 2 * LINE);
	memset(clock_of_all, 0, sizeof(*clock_of_all));
	clock_of_all->scale = 3;
	work_in_threads(&work, read_or_fault);
	return 0;
}

/* lock_table: a lock of four bytes for each stripe of a table; each thread has its own. */
static atomic_int *stripes;

static void update_stripes(const struct work *work)
{
	long round;

	for (round = 0; round < work->rounds; round++) {
		size_t stripe = (size_t)(work->thread + work->threads * (round % 4));
		atomic_int *lock = &stripes[stripe * STRIDE(int)];

		while (atomic_exchange_explicit(lock, 1, memory_order_acquire))
			__builtin_ia32_pause();
		atomic_store_explicit(lock, 0, memory_order_release);
	}
}

static int lock_table(struct work work)
{
	size_t bytes = (size_t)work.threads * 4 * LINE;

	stripes = aligned_alloc(LINE, bytes);
	memset(stripes, 0, bytes);
	work_in_threads(&work, update_stripes);
	return stripes[0];
}

/* global_clock: a transactional memory's clock, a variable beside what all transactions read. */
static struct {
	APART atomic_long ticks;
} stm_clock = { 1 };
static struct {
	APART volatile long mask;
	volatile long *locks;
} stm_table = { 1023, NULL };

static void run_transactions(const struct work *work)
{
	volatile long seen = 0;
	long round;

	for (round = 0; round < work->rounds; round++) {
		seen = stm_table.locks[(round * 8 + work->thread) & stm_table.mask];
		if (work->thread == 0)
			add_relaxed(&stm_clock.ticks, 1);
	}
	(void)seen;
}

static int global_clock(struct work work)
{
	stm_table.locks = calloc(1024, sizeof(long));
	work_in_threads(&work, run_transactions);
	return 0;
}

/* thread_records: a small struct for each thread, all allocated by one. */
struct record {
	volatile long done;
	struct record *next;
};

static struct record *records_of[THREADS_MAX];

static void work_off(const struct work *work)
{
	struct record *own = records_of[work->thread];
	long round;

	for (round = 0; round < work->rounds; round++)
		own->done++;
}

static int thread_records(struct work work)
{
	struct record *all = NULL;
	int i;

	for (i = 0; i < work.threads; i++) {
#ifdef FIXED
		struct record *one = aligned_alloc(LINE, LINE);
#else
		struct record *one = malloc(sizeof(*one));
#endif
		one->done = 0;
		one->next = all;
		all = one;
		records_of[i] = one;
	}
	work_in_threads(&work, work_off);
	return records_of[0]->done != work.rounds;
}

/* control_tickets: a lock-free stack; threads share its one head, nodes are their own. */
struct node {
	_Alignas(LINE) struct node *next;
	long value;
};

static struct {
	_Alignas(LINE) _Atomic(struct node *) head;
} stack_of_all;

static void push_nodes(const struct work *work)
{
	/* Pushed once each, so that no node is met twice. */
	struct node *own = calloc((size_t)work->rounds / 8, sizeof(struct node));
	long round;

	for (round = 0; round < work->rounds / 8; round++) {
		struct node *old = load_relaxed(&stack_of_all.head);

		do
			own[round].next = old;
		while (!atomic_compare_exchange_weak(&stack_of_all.head, &old, &own[round]));
	}
}

static int control_tickets(struct work work)
{
	work_in_threads(&work, push_nodes);
	return stack_of_all.head == NULL;
}

/* control_routes: a table that one thread changes once in a thousand rounds, and all read. */
struct route {
	volatile long target;
	volatile long cost;
};

static struct route *routes;

static void look_up(const struct work *work)
{
	volatile long sum = 0;
	long round;

	for (round = 0; round < work->rounds; round++) {
		sum = sum + routes[round % 32].target;
		if (work->thread == 0 && round % 1000 == 0)
			routes[round % 32].cost++;
	}
}

static int control_routes(struct work work)
{
	routes = calloc(32, sizeof(struct route));
	work_in_threads(&work, look_up);
	return 0;
}

/* own_blocks: each thread allocates a small block, and the C library takes them from one heap. */
static void use_own_blocks(const struct work *work)
{
#ifdef FIXED
	volatile long *own = aligned_alloc(LINE, LINE);
#else
	volatile long *own = malloc(3 * sizeof(long));
#endif
	long round;

	own[0] = 0;
	for (round = 0; round < work->rounds; round++)
		own[0] += round;
}

static int own_blocks(struct work work)
{
	work_in_threads(&work, use_own_blocks);
	return 0;
}

/* control_own_pages: each thread allocates two pages for itself. */
static void use_own_pages(const struct work *work)
{
	volatile long *own = malloc(8192);
	long round;

	for (round = 0; round < work->rounds; round++)
		own[256 + round % 64] = round;
}

static int control_own_pages(struct work work)
{
	work_in_threads(&work, use_own_pages);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct work work);
} all[] = {
	{ "stack_sums", stack_sums },
	{ "arena_blocks", arena_blocks },
	{ "stat_slots", stat_slots },
	{ "clock_reads", clock_reads },
	{ "lock_table", lock_table },
	{ "global_clock", global_clock },
	{ "thread_records", thread_records },
	{ "control_tickets", control_tickets },
	{ "control_routes", control_routes },
	{ "own_blocks", own_blocks },
	{ "control_own_pages", control_own_pages },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]))
			return all[i].run(work_from(argc - 1, argv + 1, ROUNDS));
	fprintf(stderr, "usage: shapes CASE [ROUNDS [THREADS]]\n");
	return 2;
}
