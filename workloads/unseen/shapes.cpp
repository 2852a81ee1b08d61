// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * shapes - more small cases of false sharing in queues, deques and objects with slots, each a function, with
 * its published fix under FIXED; and a control. cases.list has the sources.
 *
 * Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
 *
 * usage: shapes CASE [ROUNDS [THREADS]]
 */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
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

/* cell_queue: a bounded queue of cells with sequence numbers; two threads for each queue. */
template <class T> class CellQueue {
	struct Cell {
		std::atomic<size_t> sequence;
		T data;
	};

	APART Cell *const buffer_;
	const size_t mask_;
	APART std::atomic<size_t> enqueue_{ 0 };
	APART std::atomic<size_t> dequeue_{ 0 };

public:
	explicit CellQueue(size_t size) : buffer_(new Cell[size]), mask_(size - 1)
	{
		for (size_t i = 0; i < size; i++)
			buffer_[i].sequence.store(i, std::memory_order_relaxed);
	}

	bool enqueue(const T &data)
	{
		size_t at = enqueue_.load(std::memory_order_relaxed);
		Cell &cell = buffer_[at & mask_];

		if (cell.sequence.load(std::memory_order_acquire) != at)
			return false;
		if (!enqueue_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed))
			return false;
		cell.data = data;
		cell.sequence.store(at + 1, std::memory_order_release);
		return true;
	}

	bool dequeue(T &data)
	{
		size_t at = dequeue_.load(std::memory_order_relaxed);
		Cell &cell = buffer_[at & mask_];

		if (cell.sequence.load(std::memory_order_acquire) != at + 1)
			return false;
		if (!dequeue_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed))
			return false;
		data = cell.data;
		cell.sequence.store(at + mask_ + 1, std::memory_order_release);
		return true;
	}
};

CellQueue<long> *cell_queues[THREADS_MAX / 2];

void enqueue_or_dequeue(const struct work *work)
{
	CellQueue<long> &queue = *cell_queues[work->thread / 2];

	for (long round = 0; round < work->rounds; round++) {
		long data = round;

		while (!(work->thread % 2 ? queue.dequeue(data) : queue.enqueue(data)))
			__builtin_ia32_pause();
		if (data != round)
			exit(1);
	}
}

int cell_queue(struct work work)
{
	for (int i = 0; i < work.threads / 2; i++)
		cell_queues[i] = new CellQueue<long>(1024);
	work_in_threads(&work, enqueue_or_dequeue);
	return 0;
}

/* member_slots: an object with a slot of tickers for each thread. */
struct Tickers {
	APART std::atomic<uint64_t> hits{ 0 };
	std::atomic<uint64_t> bytes{ 0 };
};

class Statistics {
	uint64_t level_ = 1;
	Tickers slots_[THREADS_MAX];

public:
	void record(int thread, uint64_t bytes)
	{
		Tickers &own = slots_[thread];

		own.hits.fetch_add(level_, std::memory_order_relaxed);
		own.bytes.fetch_add(bytes, std::memory_order_relaxed);
	}
};

Statistics *statistics;

void record_hits(const struct work *work)
{
	for (long round = 0; round < work->rounds; round++)
		statistics->record(work->thread, 64);
}

int member_slots(struct work work)
{
	statistics = new Statistics;
	work_in_threads(&work, record_hits);
	return 0;
}

/* stealing: owners push and pop at the bottom of a deque, another thread steals at its top. */
template <class T> class TaskDeque {
	APART std::atomic<int64_t> top_{ 0 };
	APART std::atomic<int64_t> bottom_{ 0 };
	APART std::atomic<T> *const tasks_;
	const int64_t mask_;

public:
	explicit TaskDeque(size_t size) : tasks_(new std::atomic<T>[size]()), mask_((int64_t)size - 1) {}

	void push(T task)
	{
		int64_t bottom = bottom_.load(std::memory_order_relaxed);

		tasks_[bottom & mask_].store(task, std::memory_order_relaxed);
		bottom_.store(bottom + 1, std::memory_order_release);
	}

	bool pop(T &task)
	{
		int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;

		bottom_.store(bottom, std::memory_order_relaxed);
		task = tasks_[bottom & mask_].load(std::memory_order_relaxed);
		return true;
	}

	/* A thief that only looks whether there is enough to steal, as most do. */
	bool steal(T &task)
	{
		int64_t top = top_.load(std::memory_order_relaxed);

		task = tasks_[top & mask_].load(std::memory_order_relaxed);
		return top_.compare_exchange_strong(top, top + 1, std::memory_order_relaxed);
	}
};

TaskDeque<long> *deques[THREADS_MAX / 2];

void own_or_steal(const struct work *work)
{
	TaskDeque<long> &deque = *deques[work->thread / 2];
	/* volatile, so that what is taken is used. */
	volatile long last = 0;

	for (long round = 0; round < work->rounds; round++) {
		long task = round;

		if (work->thread % 2) {
			deque.steal(task);
		} else {
			deque.push(round);
			deque.pop(task);
		}
		last = task;
	}
	(void)last;
}

int stealing(struct work work)
{
	for (int i = 0; i < work.threads / 2; i++)
		deques[i] = new TaskDeque<long>(256);
	work_in_threads(&work, own_or_steal);
	return 0;
}

/* control_shards: an object with a slot for each thread, each slot with a line. */
struct alignas(64) Shard {
	std::atomic<uint64_t> hits{ 0 };
	std::atomic<uint64_t> misses{ 0 };
};

struct Shards {
	uint64_t level = 1;
	Shard slots[THREADS_MAX];
};

Shards *sharded;

void record_padded(const struct work *work)
{
	for (long round = 0; round < work->rounds; round++) {
		Shard &own = sharded->slots[work->thread];

		(round % 3 ? own.hits : own.misses).fetch_add(sharded->level, std::memory_order_relaxed);
	}
}

int control_shards(struct work work)
{
	sharded = new Shards;
	work_in_threads(&work, record_padded);
	return 0;
}

const struct {
	const char *name;
	int (*run)(struct work work);
} all[] = {
	{ "cell_queue", cell_queue },
	{ "member_slots", member_slots },
	{ "stealing", stealing },
	{ "control_shards", control_shards },
};

} // namespace

int main(int argc, char **argv)
{
	for (const auto &one : all)
		if (argc > 1 && !std::strcmp(one.name, argv[1]))
			return one.run(work_from(argc - 1, argv + 1, ROUNDS));
	std::fprintf(stderr, "usage: shapes CASE [ROUNDS [THREADS]]\n");
	return 2;
}
