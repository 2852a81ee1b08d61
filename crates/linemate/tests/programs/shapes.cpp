// SPDX-License-Identifier: MIT OR Apache-2.0
// Four phases of 4,000 rounds, four threads: a count in a base class with virtual functions, whose
// last bytes the derived class uses; data of each thread that one of them finds in a list; elements
// that are variants; objects cut from a buffer of bytes.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <variant>
#include <vector>

enum { THREADS = 4, ROUNDS = 4000 };

class Shape {
public:
	virtual ~Shape() {}
	std::atomic<int> refs{1};
};

class Circle : public Shape {
public:
	int radius = 3;
	long area = 28;
};

struct Reader {
	std::atomic<unsigned long> snapshot{0};
	unsigned long nested = 0;
	unsigned long lookups = 0;
};

struct Feed {
	unsigned long ticks = 0;
};

struct Replay {
	unsigned long at = 0;
	unsigned long end = 0;
};

struct timer {
	unsigned long expires;
	unsigned int slack, fired;
	void *next;
};

static Circle *circle;
static thread_local Reader self;
static Reader *readers[THREADS];
static std::vector<std::variant<Feed, Replay>> lanes;
alignas(64) static char pool[4096];
static std::size_t used;
static timer *timers[THREADS];
static std::atomic<unsigned int> arrived;
static volatile unsigned long sink[THREADS * 16];

// Waits for all. Nobody sleeps here, who would be woken when others are done.
static void meet()
{
	const unsigned int all = (arrived++ / THREADS + 1) * THREADS;

	while (arrived < all)
		__builtin_ia32_pause();
}

// A CPU for each thread, or a phase could have one thread behind the other.
static void pin(int me)
{
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET(me, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		abort();
}

static void count(int me)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (me == 0)
			circle->refs.fetch_add(1, std::memory_order_relaxed);
		else
			sink[16 * me] = *(volatile int *)&circle->radius + *(volatile long *)&circle->area;
	}
}

static void publish(int me)
{
	readers[me] = &self;
	meet();
	for (int i = 0; i < ROUNDS; i++) {
		if (me == 0) {
			for (int other = 1; other < THREADS; other++)
				sink[0] = readers[other]->snapshot.load(std::memory_order_acquire);
			continue;
		}
		*(volatile unsigned long *)&self.nested = self.nested + 1;
		*(volatile unsigned long *)&self.lookups = self.lookups + 1;
		if (i % 256 == 0)
			self.snapshot.store(i, std::memory_order_release);
	}
}

static void advance(int me)
{
	volatile unsigned long *ticks = &std::get<Feed>(lanes[me]).ticks;

	for (int i = 0; i < ROUNDS; i++)
		*ticks = *ticks + 1;
}

static void fire(int me)
{
	volatile timer *mine = timers[me];

	for (int i = 0; i < ROUNDS; i++) {
		mine->expires = i;
		mine->fired = mine->fired + 1;
	}
}

static void work(int me)
{
	pin(me);
	for (auto phase : {count, publish, advance, fire}) {
		meet();
		phase(me);
		// Until all have ended: a thread's own data goes with it.
		meet();
	}
}

__attribute__((noinline)) static void *cut(std::size_t bytes)
{
	void *object = pool + used;

	used += (bytes + 7) & ~7ul;
	return object;
}

int main()
{
	std::vector<std::thread> threads;

	circle = new Circle;
	lanes.resize(THREADS);
	for (auto &timer : timers)
		timer = (struct timer *)cut(sizeof(struct timer));
	for (int me = 0; me < THREADS; me++)
		threads.emplace_back(work, me);
	for (auto &thread : threads)
		thread.join();
	return timers[0]->fired ? 0 : 1;
}
