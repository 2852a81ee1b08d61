// SPDX-License-Identifier: MIT OR Apache-2.0
// stacks: cases of false sharing between threads whose closures borrow what is on the stack of the
// one that starts them; each a function, with its published fix under FIXED; and a control.
//
// Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
//
// usage: stacks CASE [ROUNDS]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#ifdef FIXED
#define APART alignas(64)
#else
#define APART
#endif

// closure_counters: two threads of a closure each, each with a counter of the caller's.
static long closure_counters(long rounds)
{
	APART std::atomic<long> hits{0};
	APART std::atomic<long> misses{0};
	const auto counts = [rounds](std::atomic<long> &counter) {
		for (long round = 0; round < rounds; round++)
			counter.fetch_add(round & 1, std::memory_order_relaxed);
	};
	std::thread first([&] { counts(hits); });
	std::thread second([&] { counts(misses); });

	first.join();
	second.join();
	return hits + misses;
}

// pool_state: a pool on the caller's stack, with what the producer and the consumer write side by
// side.
struct PoolState {
	APART std::atomic<long> submitted{0};
	APART std::atomic<long> finished{0};
	APART long limit = 1 << 20;
};

static long pool_state(long rounds)
{
	PoolState pool;
	std::thread producer([&pool, rounds] {
		for (long round = 0; round < rounds; round++)
			pool.submitted.fetch_add(1, std::memory_order_relaxed);
	});
	std::thread consumer([&pool, rounds] {
		for (long round = 0; round < rounds; round++)
			pool.finished.fetch_add(1, std::memory_order_relaxed);
	});

	producer.join();
	consumer.join();
	return pool.submitted + pool.finished + pool.limit;
}

// control_shared_total: one counter that all threads add to: true sharing.
static long control_shared_total(long rounds)
{
	std::atomic<long> total{0};
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (long round = 0; round < rounds / 4; round++)
				total.fetch_add(1, std::memory_order_relaxed);
		});
	for (auto &thread : threads)
		thread.join();
	return total;
}

static const struct {
	const char *name;
	long (*run)(long rounds);
} all[] = {
	{ "closure_counters", closure_counters },
	{ "pool_state", pool_state },
	{ "control_shared_total", control_shared_total },
};

int main(int argc, char **argv)
{
	const long rounds = argc > 2 ? std::atol(argv[2]) : 40000;

	for (const auto &one : all)
		if (argc > 1 && !std::strcmp(one.name, argv[1]))
			return one.run(rounds) < 0;
	std::fprintf(stderr, "usage: stacks CASE [ROUNDS]\n");
	return 2;
}
