/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations of hammer.c through which programs wait for and reach each other. */
#ifndef LINEMATE_WORKLOADS_MESSAGES_H
#define LINEMATE_WORKLOADS_MESSAGES_H

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hammer.h"

#define FUTEXES		1024

/* A set of semaphores, one for each worker. */
static int semaphores;

static void semaphores_prepare(void)
{
	semaphores = semget(IPC_PRIVATE, workers, IPC_CREAT | 0600);
	must(semaphores >= 0, "semget");
}

static void semaphores_end(void)
{
	must(!semctl(semaphores, 0, IPC_RMID), "semctl");
}

static void semaphore(long worker)
{
	struct sembuf give = { .sem_num = worker, .sem_op = 1 };
	struct sembuf take = { .sem_num = worker, .sem_op = -1 };
	long i;

	for (i = 0; i < rounds; i++) {
		must(!semop(semaphores, &give, 1), "semop");
		must(!semop(semaphores, &take, 1), "semop");
	}
}

static void queue(long worker)
{
	struct {
		long type;
		char byte;
	} message = { 1, 0 };
	int own = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	long i;

	(void)worker;
	must(own >= 0, "msgget");
	for (i = 0; i < rounds; i++) {
		must(!msgsnd(own, &message, 1, 0), "msgsnd");
		must(msgrcv(own, &message, 1, 0, 0) == 1, "msgrcv");
	}
	must(!msgctl(own, IPC_RMID, NULL), "msgctl");
}

static int event_of_its_own(void)
{
	int own = eventfd(1, 0);

	must(own >= 0, "eventfd");
	return own;
}

static void event(long worker)
{
	int own = event_of_its_own();
	eventfd_t value;
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++) {
		must(!eventfd_write(own, 1), "write");
		must(!eventfd_read(own, &value), "read");
	}
}

/* With the smallest buffer that the kernel allows nearly all that is sent is dropped. */
static void flood_prepare(void)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(own);
	int small = 1;

	file = socket(AF_INET, SOCK_DGRAM, 0);
	must(file >= 0, "socket");
	must(!setsockopt(file, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), "SO_RCVBUF");
	must(!bind(file, (struct sockaddr *)&own, size), "bind");
	must(!getsockname(file, (struct sockaddr *)&own, &size), "getsockname");
	shared->flooded = own;
}

static void flood(long worker)
{
	const struct sockaddr *to = (struct sockaddr *)&shared->flooded;
	int own = socket(AF_INET, SOCK_DGRAM, 0);
	char bytes[64] = "";
	long i;

	must(own >= 0, "socket");
	for (i = 0; i < rounds; i++) {
		if (worker)
			sendto(own, bytes, sizeof(bytes), 0, to, sizeof(shared->flooded));
		else
			recv(file, bytes, sizeof(bytes), MSG_DONTWAIT);
	}
	close(own);
}

static void wait_for_others(long worker)
{
	unsigned int *own = calloc(FUTEXES, sizeof(*own));
	long i;

	(void)worker;
	must(own, "calloc");
	for (i = 0; i < rounds; i++) {
		long result = syscall(SYS_futex, own + i % FUTEXES, FUTEX_WAIT_PRIVATE, 1, NULL);

		must(result < 0 && errno == EAGAIN, "futex");
	}
	free(own);
}

static void wake(long worker)
{
	int word = 0;
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void poll_one(long worker)
{
	struct pollfd own = { .fd = event_of_its_own(), .events = POLLIN };
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		must(poll(&own, 1, 0) == 1, "poll");
}

static void epoll_one(long worker)
{
	struct epoll_event ready = { .events = EPOLLIN };
	int own = epoll_create1(0);
	long i;

	(void)worker;
	must(own >= 0, "epoll_create1");
	must(!epoll_ctl(own, EPOLL_CTL_ADD, event_of_its_own(), &ready), "epoll_ctl");
	for (i = 0; i < rounds; i++)
		must(epoll_wait(own, &ready, 1, 0) == 1, "epoll_wait");
}

static void caught(int number)
{
	(void)number;
}

static void signal_prepare(void)
{
	must(signal(SIGUSR1, caught) != SIG_ERR, "signal");
}

static void signal_itself(long worker)
{
	long process = getpid(), thread = syscall(SYS_gettid), i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		must(!syscall(SYS_tgkill, process, thread, SIGUSR1), "tgkill");
}

#endif
