// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * events - threads that wait for and make events: eventfds, timers, signals, futexes.
 *
 * -o epoll: half of the threads write to eventfds, the other half wait at one epoll instance for
 * all of them (one-shot, armed again). -o timers: each thread has timerfds and POSIX timers that
 * expire in turn. -o signals: threads of one process queue signals to each other. -o futex: pairs
 * hand a turn to each other while all go through one mutex now and then. It stands for
 * event loops, runtimes with a scheduler of their own, and thread pools.
 *
 * Where it is weak: an event brings no work with it, so all of the time is its delivery; timers
 * are short and never cancelled late.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../common.h"

#define THREADS_MAX	256
#define TIMERS		4

static long threads = 8, rounds = 100, descriptors = 64;
static int epoll, events[4096];
static pthread_t ids[THREADS_MAX];
static pthread_barrier_t start;
static pthread_mutex_t common_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t turns[THREADS_MAX];
static long left;

static void must(int well, const char *what)
{
	if (!well)
		die("%s: %s", what, strerror(errno));
}

static void arm(int operation, int index)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.fd = events[index] };

	must(!epoll_ctl(epoll, operation, events[index], &event), "epoll_ctl");
}

static void write_events(long thread)
{
	uint64_t one = 1;
	long i;

	for (i = 0; i < rounds; i++) {
		int fd = events[(thread * 31 + i * 7) % descriptors];

		must(write(fd, &one, sizeof(one)) == sizeof(one), "write");
	}
}

static void wait_events(void)
{
	struct epoll_event got[8];
	uint64_t count;

	/* Several writes may be one event: waiting ends when nothing has come for a while. */
	for (;;) {
		int i, ready = epoll_wait(epoll, got, 8, 20);

		if (ready <= 0)
			return;
		for (i = 0; i < ready; i++) {
			struct epoll_event again = {
				.events = EPOLLIN | EPOLLONESHOT,
				.data.fd = got[i].data.fd,
			};

			must(read(got[i].data.fd, &count, sizeof(count)) > 0, "read");
			must(!epoll_ctl(epoll, EPOLL_CTL_MOD, got[i].data.fd, &again), "epoll_ctl");
		}
	}
}

static void timers(long thread)
{
	struct itimerspec soon = { .it_value.tv_nsec = 20000 + thread * 1000 };
	struct sigevent quiet = { .sigev_notify = SIGEV_NONE };
	timer_t posix[TIMERS];
	uint64_t expired;
	int fds[TIMERS], i;
	long round;

	for (i = 0; i < TIMERS; i++) {
		fds[i] = timerfd_create(CLOCK_MONOTONIC, 0);
		must(fds[i] >= 0, "timerfd_create");
		must(!timer_create(CLOCK_MONOTONIC, &quiet, &posix[i]), "timer_create");
	}
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < TIMERS; i++) {
			must(!timerfd_settime(fds[i], 0, &soon, NULL), "timerfd_settime");
			must(!timer_settime(posix[i], 0, &soon, NULL), "timer_settime");
		}
		for (i = 0; i < TIMERS; i++)
			must(read(fds[i], &expired, sizeof(expired)) > 0, "read");
	}
}

static void signals(long thread)
{
	struct timespec never = { 0 };
	union sigval value = { .sival_int = 1 };
	sigset_t own;
	long round;

	sigemptyset(&own);
	sigaddset(&own, SIGRTMIN);
	for (round = 0; round < rounds; round++) {
		pthread_sigqueue(ids[(thread + 1 + round) % threads], SIGRTMIN, value);
		if (round % 4 == 0)
			sigqueue(getpid(), SIGRTMIN, value);
		while (sigtimedwait(&own, NULL, &never) > 0)
			;
	}
}

static void futexes(long thread)
{
	long round;

	for (round = 0; round < rounds; round++) {
		sem_post(&turns[thread ^ 1]);
		sem_wait(&turns[thread]);
		if (round % 4)
			continue;
		pthread_mutex_lock(&common_lock);
		left++;
		pthread_mutex_unlock(&common_lock);
	}
}

static char operation;

static void *work(void *given)
{
	long thread = (long)given;

	pthread_barrier_wait(&start);
	switch (operation) {
	case 'e':
		if (thread % 2)
			write_events(thread);
		else
			wait_events();
		break;
	case 't':
		timers(thread);
		break;
	case 's':
		signals(thread);
		break;
	default:
		futexes(thread);
	}
	/* A thread that is gone takes no more signals. */
	pthread_barrier_wait(&start);
	return NULL;
}

static void prepare(void)
{
	sigset_t blocked;
	long i;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	check(pthread_barrier_init(&start, NULL, threads), "pthread_barrier_init");
	for (i = 0; i < threads; i++)
		must(!sem_init(&turns[i], 0, 0), "sem_init");
	if (operation != 'e')
		return;
	epoll = epoll_create1(0);
	must(epoll >= 0, "epoll_create1");
	for (i = 0; i < descriptors; i++) {
		events[i] = eventfd(0, EFD_NONBLOCK);
		must(events[i] >= 0, "eventfd");
		arm(EPOLL_CTL_ADD, i);
	}
}

int main(int argc, char **argv)
{
	int option;
	long i;

	while ((option = getopt(argc, argv, "o:t:l:d:")) != -1) {
		switch (option) {
		case 'o':
			operation = optarg[0];
			break;
		case 't':
			threads = parse_number("-t", optarg, 2, THREADS_MAX) & ~1L;
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'd':
			descriptors = parse_number("-d", optarg, 1, 4096);
			break;
		default:
			operation = 0;
		}
	}
	if (!operation || !strchr("etsf", operation))
		die("usage: events -o epoll|timers|signals|futex [-t THREADS] [-l ROUNDS] "
		    "[-d DESCRIPTORS]");
	prepare();
	for (i = 0; i < threads; i++)
		check(pthread_create(&ids[i], NULL, work, (void *)i), "pthread_create");
	for (i = 0; i < threads; i++)
		check(pthread_join(ids[i], NULL), "pthread_join");
	return EXIT_SUCCESS;
}
