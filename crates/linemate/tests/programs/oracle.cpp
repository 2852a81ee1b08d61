// SPDX-License-Identifier: MIT OR Apache-2.0
// What oracle.c does, with what C++ adds: bases, virtual functions, templates, inlining, the library's smart pointers.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace oracle {

template <class T> struct Counter {
	T value{};
	std::atomic<T> shared{};

	void add(T by)
	{
		value += by;
		shared.fetch_add(by);
	}
};

struct Named {
	char name[16] = "named";
	long uses = 0;
};

class Task : public Named {
public:
	explicit Task(long key) : key(key) {}
	virtual ~Task() = default;
	virtual long run(long n) = 0;

	Task *next = nullptr;

protected:
	long key;
};

class Adder final : public Task {
public:
	using Task::Task;
	long run(long n) override
	{
		uses++;
		sum.add(n);
		return sum.value + key;
	}

private:
	Counter<long> sum;
};

class Mixer final : public Task {
public:
	using Task::Task;
	long run(long n) override
	{
		uses++;
		state = state * 31 + n;
		steps.add(1);
		return state;
	}

private:
	unsigned int state = 7;
	Counter<int> steps;
};

struct Shared {
	std::atomic<long> rounds{0};
	long results[4] = {};
};

// Written before what is on stacks is used, and afterwards: in between it is what is told.
std::atomic<long> window;

} // namespace oracle

using namespace oracle;

static std::uint64_t place(const void *p)
{
	static int fd = open("/proc/self/pagemap", O_RDONLY);
	std::uint64_t entry = 0;
	auto addr = reinterpret_cast<std::uintptr_t>(p);

	if (pread(fd, &entry, sizeof(entry), addr / 4096 * 8) != sizeof(entry) || !(entry >> 63))
		abort();
	// Where Linux maps all physical memory on x86-64, without address randomisation.
	return 0xffff888000000000ull + (entry & ((1ull << 55) - 1)) * 4096 + addr % 4096;
}

static void tell(const void *p, std::size_t size, const char *type, const char *what = "object")
{
	auto addr = reinterpret_cast<std::uintptr_t>(p);

	if (addr / 4096 == (addr + size - 1) / 4096)
		std::printf("%s %llx %zu %s\n", what, static_cast<unsigned long long>(place(p)), size, type);
}

int main()
{
	Task *tasks = nullptr;
	std::vector<Adder *> adders;
	std::vector<Mixer *> mixers;
	auto shared = std::make_unique<Shared>();
	std::vector<std::thread> threads;
	// On the stack, and used by all threads.
	Adder own(7);
	Shared counts;
	window = 1;

	for (long i = 0; i < 6; i++) {
		auto *a = new Adder(i);
		a->next = tasks;
		adders.push_back(a);
		auto *m = new Mixer(i);
		m->next = a;
		mixers.push_back(m);
		tasks = m;
	}
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			for (long i = 0; i < 100; i++) {
				for (Task *task = tasks; task; task = task->next)
					shared->results[t] += task->run(i);
				shared->rounds++;
				counts.results[t] += own.run(i);
				counts.rounds++;
			}
		});
	for (auto &thread : threads)
		thread.join();
	window = 2;
	for (auto *a : adders)
		tell(a, sizeof(*a), "oracle::Adder");
	for (auto *m : mixers)
		tell(m, sizeof(*m), "oracle::Mixer");
	tell(shared.get(), sizeof(Shared), "oracle::Shared");
	tell(&own, sizeof(own), "oracle::Adder", "stack");
	tell(&counts, sizeof(counts), "oracle::Shared", "stack");
	tell(&window, sizeof(window), "long", "window");
	return 0;
}
