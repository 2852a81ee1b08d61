// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * sharing - small cases of false sharing, each a function, with its published fix under FIXED; and
 * controls without any. cases.list has where each was published.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: sharing CASE [ROUNDS [THREADS]]
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "../known/threads.h"

#ifdef FIXED
#define APART alignas(64)
#else
#define APART
#endif

namespace {

/* Rounds of a phase in which threads run side by side. */
constexpr long ROUNDS = 20000;

/* atomic_vector: a counter for each thread. */
struct Counter {
	APART std::atomic<long> value{ 0 };
};

#ifdef FIXED
using Shard = Counter;
std::atomic<long> &value_of(Shard &shard)
{
	return shard.value;
}
#else
using Shard = std::atomic<long>;
std::atomic<long> &value_of(Shard &shard)
{
	return shard;
}
#endif

std::vector<Shard> *shards;

void count_in_vector(const struct work *work)
{
	std::atomic<long> &own = value_of((*shards)[(size_t)work->thread]);

	for (long round = 0; round < work->rounds; round++)
		own.fetch_add(1, std::memory_order_relaxed);
}

int atomic_vector(struct work work)
{
	shards = new std::vector<Shard>((size_t)work.threads);
	work_in_threads(&work, count_in_vector);
	return 0;
}

/* keep_apart: two words of one struct, each written by another thread. */
struct KeepApart {
	APART std::atomic<int> cat{ 0 };
	APART std::atomic<int> dog{ 0 };
};

KeepApart *pets[THREADS_MAX / 2];

void feed(const struct work *work)
{
	KeepApart &pair = *pets[work->thread / 2];

	for (long round = 0; round < work->rounds; round++)
		(work->thread % 2 ? pair.cat : pair.dog).fetch_add(1, std::memory_order_relaxed);
}

int keep_apart(struct work work)
{
	for (int i = 0; i < work.threads / 2; i++)
		pets[i] = new KeepApart;
	work_in_threads(&work, feed);
	return 0;
}

/* bounded_queue: producers' and consumers' tickets next to what both read. */
template <class T> class BoundedQueue {
	const size_t capacity_;
	T *const slots_;
	APART std::atomic<size_t> head_{ 0 };
	APART std::atomic<size_t> tail_{ 0 };

public:
	explicit BoundedQueue(size_t capacity) : capacity_(capacity), slots_(new T[capacity]()) {}

	void push(const T &value)
	{
		size_t ticket = head_.fetch_add(1, std::memory_order_relaxed);

		slots_[ticket % capacity_] = value;
	}

	T pop()
	{
		size_t ticket = tail_.fetch_add(1, std::memory_order_relaxed);

		return slots_[ticket % capacity_];
	}
};

BoundedQueue<long> *queues[THREADS_MAX / 2];

void push_or_pop(const struct work *work)
{
	BoundedQueue<long> &queue = *queues[work->thread / 2];
	/* volatile, so that what is popped is used. */
	volatile long last = 0;

	for (long round = 0; round < work->rounds; round++) {
		if (work->thread % 2)
			last = queue.pop();
		else
			queue.push(round);
	}
	(void)last;
}

int bounded_queue(struct work work)
{
	for (int i = 0; i < work.threads / 2; i++)
		queues[i] = new BoundedQueue<long>(512);
	work_in_threads(&work, push_or_pop);
	return 0;
}

/* ownership_records: a table of versions; each thread's transactions write its own entries. */
#ifdef FIXED
constexpr size_t RECORD = 8;
#else
constexpr size_t RECORD = 1;
#endif
std::unique_ptr<std::atomic<unsigned long>[]> records;

void commit(const struct work *work)
{
	for (long round = 0; round < work->rounds; round++) {
		std::atomic<unsigned long> &record = records[(size_t)work->thread * RECORD];
		unsigned long version = record.load(std::memory_order_relaxed);

		record.compare_exchange_strong(version, version + 2);
	}
}

int ownership_records(struct work work)
{
	records.reset(new std::atomic<unsigned long>[THREADS_MAX * RECORD]());
	work_in_threads(&work, commit);
	return 0;
}

/* control_padded_vector: as atomic_vector, each counter with a line. */
struct alignas(64) Padded {
	std::atomic<long> value{ 0 };
};

std::vector<Padded> *padded;

void count_padded(const struct work *work)
{
	for (long round = 0; round < work->rounds; round++)
		(*padded)[(size_t)work->thread].value.fetch_add(1, std::memory_order_relaxed);
}

int control_padded_vector(struct work work)
{
	padded = new std::vector<Padded>((size_t)work.threads);
	work_in_threads(&work, count_padded);
	return 0;
}

/* control_settings: a struct that all threads read and nobody writes. */
struct Settings {
	long first = 1;
	long second = 2;
	long third = 3;
};

Settings *settings;

void use_settings(const struct work *work)
{
	volatile long sum = 0;

	for (long round = 0; round < work->rounds; round++)
		sum = sum + settings->first + settings->second * settings->third;
}

int control_settings(struct work work)
{
	settings = new Settings;
	work_in_threads(&work, use_settings);
	return 0;
}

const struct {
	const char *name;
	int (*run)(struct work work);
} all[] = {
	{ "atomic_vector", atomic_vector },
	{ "keep_apart", keep_apart },
	{ "bounded_queue", bounded_queue },
	{ "ownership_records", ownership_records },
	{ "control_padded_vector", control_padded_vector },
	{ "control_settings", control_settings },
};

} // namespace

int main(int argc, char **argv)
{
	for (const auto &one : all)
		if (argc > 1 && !std::strcmp(one.name, argv[1]))
			return one.run(work_from(argc - 1, argv + 1, ROUNDS));
	std::fprintf(stderr, "usage: sharing CASE [ROUNDS [THREADS]]\n");
	return 2;
}
