// What a program declares inside classes of the standard library: numbers in std::atomic, an object
// behind the counts of std::make_shared, elements of a std::list. And a class with a base, two of
// whose members different threads write, and small objects of two classes with one base.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <thread>
#include <vector>

struct Settings {
	long limit = 3;
	long retries = 2;
};

struct Counted {
	// Three, so that two are on one line wherever the linker puts them.
	static inline std::atomic<long> hits{ 0 };
	static inline std::atomic<long> misses{ 0 };
	static inline std::atomic<long> evictions{ 0 };
};

struct Named {
	long id = 1;
	virtual ~Named() {}
};

struct Session : Named {
	char name[48] = "name";
	// At a multiple of 16 bytes, so that wherever the heap puts it these two are on one line.
	long requests = 0;
	long responses = 0;
	long limit = 5;
};

struct Job {
	long state = 0;
	long done = 0;
};

struct Worker {
	volatile long done = 0;
	virtual ~Worker() {}
	virtual long step() = 0;
};

struct Adder : Worker {
	long step() override { return 1; }
};

struct Mixer : Worker {
	long step() override { return done * 31; }
};

static std::shared_ptr<Settings> settings;
static Session *session;
static std::list<Job> jobs;
static std::vector<std::unique_ptr<Worker>> workers;
static std::atomic<int> arrived;
static long rounds;

static void wait_for_all(int phase)
{
	arrived++;
	while (arrived < 4 * phase) {
	}
}

static void settings_are_read_while_they_are_counted(int thread)
{
	const volatile Settings *read = settings.get();
	long sum = 0;

	for (long i = 0; i < rounds; i++) {
		if (thread == 0)
			std::shared_ptr<Settings> held = settings;
		else
			sum += read->limit + read->retries;
	}
}

static void three_numbers_are_counted(int thread)
{
	for (long i = 0; i < rounds; i++) {
		if (thread == 0)
			Counted::hits++;
		else if (thread == 1)
			Counted::misses++;
		else if (thread == 2)
			Counted::evictions++;
	}
}

static void a_session_has_two_writers(int thread)
{
	volatile Session *used = session;
	long sum = 0;

	for (long i = 0; i < rounds; i++) {
		if (thread == 0)
			used->requests = used->requests + 1;
		else if (thread == 1)
			used->responses = used->responses + 1;
		else
			sum += used->limit;
	}
}

static void jobs_are_done(int thread)
{
	if (thread != 0)
		return;
	for (long i = 0; i < rounds; i++) {
		for (Job &job : jobs)
			((volatile Job &)job).done = job.done + 1;
	}
}

static void workers_work(int thread)
{
	Worker *worker = workers[thread].get();

	for (long i = 0; i < rounds; i++)
		worker->done = worker->done + worker->step();
}

static void run(int thread)
{
	wait_for_all(1);
	settings_are_read_while_they_are_counted(thread);
	wait_for_all(2);
	three_numbers_are_counted(thread);
	wait_for_all(3);
	a_session_has_two_writers(thread);
	wait_for_all(4);
	jobs_are_done(thread);
	wait_for_all(5);
	workers_work(thread);
}

int main(int count, char **arguments)
{
	rounds = count > 1 ? std::atol(arguments[1]) : 5000;
	// Not where the object starts a line: its counts would be on the one before.
	std::vector<std::shared_ptr<Settings>> others;
	do {
		others.push_back(settings);
		settings = std::make_shared<Settings>();
	} while (reinterpret_cast<std::uintptr_t>(settings.get()) % 64 == 0);
	session = new Session;
	for (int i = 0; i < 3; i++)
		jobs.emplace_back();
	workers.reserve(4);
	for (int i = 0; i < 4; i++) {
		if (i % 2 == 0)
			workers.push_back(std::make_unique<Adder>());
		else
			workers.push_back(std::make_unique<Mixer>());
	}
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(run, i);
	for (std::thread &thread : threads)
		thread.join();
	return 0;
}
