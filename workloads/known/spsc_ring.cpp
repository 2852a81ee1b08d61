// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * spsc_ring - the reader's and the writer's index of a queue share a line (folly, ProducerConsumerQueue).
 * Source: E. Rigtorp, github.com/facebook/folly/pull/378, 2016; the fix gives each index a line.
 *
 * Where it is weak: records are numbers, so the indices are most of the work.
 */
#include <atomic>
#include <cstdint>

#include "threads.h"

#ifdef FIXED
#define APART alignas(64)
#else
#define APART
#endif

template <class T> class ProducerConsumerQueue {
	const uint32_t size_;
	T *const records_;
	APART std::atomic<unsigned int> readIndex_;
	APART std::atomic<unsigned int> writeIndex_;

public:
	explicit ProducerConsumerQueue(uint32_t size)
		: size_(size), records_(new T[size]), readIndex_(0), writeIndex_(0)
	{
	}

	bool write(const T &record)
	{
		unsigned int current = writeIndex_.load(std::memory_order_relaxed);
		unsigned int next = current + 1 == size_ ? 0 : current + 1;

		if (next == readIndex_.load(std::memory_order_acquire))
			return false;
		records_[current] = record;
		writeIndex_.store(next, std::memory_order_release);
		return true;
	}

	bool read(T &record)
	{
		unsigned int current = readIndex_.load(std::memory_order_relaxed);

		if (current == writeIndex_.load(std::memory_order_acquire))
			return false;
		record = records_[current];
		readIndex_.store(current + 1 == size_ ? 0 : current + 1, std::memory_order_release);
		return true;
	}
};

static ProducerConsumerQueue<long> *queues[THREADS_MAX / 2];

/* Threads 0 and 1 share the first queue, 2 and 3 the second, and so on. */
static void send_or_receive(const struct work *work)
{
	ProducerConsumerQueue<long> &queue = *queues[work->thread / 2];

	for (long round = 0; round < work->rounds; round++) {
		long record = round;

		while (!(work->thread % 2 ? queue.read(record) : queue.write(record)))
			__builtin_ia32_pause();
		if (record != round)
			exit(1);
	}
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 20000);

	if (work.threads % 2)
		return 2;
	for (int i = 0; i < work.threads / 2; i++)
		queues[i] = new ProducerConsumerQueue<long>(1024);
	work_in_threads(&work, send_or_receive);
	return 0;
}
