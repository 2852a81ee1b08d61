// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A vector that grows as it is filled, of elements that nothing but an atomic's method reaches:
 * threads count, each in an element of its own.
 */
#include <atomic>
#include <thread>
#include <vector>

constexpr int threads = 4;
constexpr int rounds = 5000;

struct slot {
	std::atomic<long> hits{0};

	slot() = default;
	slot(slot &&other) noexcept : hits(other.hits.load()) {}
};

static std::vector<slot> slots;

__attribute__((noinline)) static void fill(int count)
{
	for (int i = 0; i < count; i++)
		slots.emplace_back();
}

int main(int argc, char **)
{
	std::vector<std::thread> running;

	/* Not known when it is compiled, so that the vector really grows. */
	fill(threads + argc);
	for (int number = 0; number < threads; number++)
		running.emplace_back([number] {
			for (int i = 0; i < rounds; i++)
				slots[number].hits.fetch_add(1, std::memory_order_relaxed);
		});
	for (std::thread &thread : running)
		thread.join();
	return slots[0].hits.load() != rounds;
}
