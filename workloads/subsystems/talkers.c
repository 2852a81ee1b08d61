// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * talkers - clients that exchange small messages with a server of several threads on the loopback.
 *
 * Each of S server threads has an epoll instance and, with TCP, a listener of its own on one port
 * (SO_REUSEPORT); with -u all of them receive from one UDP socket. Each of C client threads has K
 * connections: it writes a message on every one of them, then reads the answers. With -n each round
 * makes its connections anew. With -o messages go one way. With -p each server has an even CPU to
 * itself and each client an odd one. It stands for caches, proxies and name servers: the paths of
 * sockets, of their hash tables, of routes, of memory accounting and of epoll.
 *
 * Where it is weak: there is no network card, so no interrupt, no NAPI of a driver and no offload;
 * each client is in step with its server; and both are on one machine, so a message's path is run
 * to its end by the CPU that sends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common.h"

#define PORT		7707
#define MESSAGE_MAX	65536
#define EVENTS		64

static long servers = 4, clients = 4, connections = 1, rounds = 100, message = 64;
static bool udp, anew, one_way, pinned;
static int udp_server;

static struct sockaddr_in server_address(void)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static int bound_socket(int type)
{
	struct sockaddr_in address = server_address();
	int one = 1, fd = socket(AF_INET, type, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		die("setsockopt: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		die("bind: %s", strerror(errno));
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl: %s", strerror(errno));
}

static void accept_all(int epoll, int listener)
{
	int one = 1, fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		watch(epoll, fd);
	}
}

/* Sends back what came; closes what has ended. */
static void answer(int fd, char *buffer)
{
	ssize_t got = read(fd, buffer, MESSAGE_MAX);

	if (got > 0) {
		if (!one_way && write(fd, buffer, got) != got)
			close(fd);
	} else if (!got || errno != EAGAIN) {
		close(fd);
	}
}

static void *serve_tcp(void *given)
{
	int listener = (int)(long)given, epoll = epoll_create1(0);
	struct epoll_event events[EVENTS];
	char buffer[MESSAGE_MAX];

	watch(epoll, listener);
	for (;;) {
		int i, ready = epoll_wait(epoll, events, EVENTS, -1);

		for (i = 0; i < ready; i++) {
			if (events[i].data.fd == listener)
				accept_all(epoll, listener);
			else
				answer(events[i].data.fd, buffer);
		}
	}
	return NULL;
}

static void *serve_udp(void *unused)
{
	char buffer[MESSAGE_MAX];
	struct sockaddr_in from;

	(void)unused;
	for (;;) {
		socklen_t size = sizeof(from);
		ssize_t got = recvfrom(udp_server, buffer, sizeof(buffer), 0,
				       (struct sockaddr *)&from, &size);

		if (got > 0)
			sendto(udp_server, buffer, got, 0, (struct sockaddr *)&from, size);
	}
	return NULL;
}

static int connected(void)
{
	struct sockaddr_in address = server_address();
	int one = 1, fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (!udp)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect: %s", strerror(errno));
	return fd;
}

/* Waits until the server has read everything. */
static void finish(int fd, char *buffer)
{
	if (shutdown(fd, SHUT_WR) || read(fd, buffer, 1))
		die("the server did not end a connection");
}

static void read_answer(int fd, char *buffer)
{
	ssize_t left = one_way ? 0 : message;

	while (left > 0) {
		ssize_t got = read(fd, buffer, left);

		if (got <= 0)
			die("the server ended a connection");
		left -= got;
	}
}

static void *talk(void *unused)
{
	int *fds = calloc(connections, sizeof(*fds));
	char buffer[MESSAGE_MAX] = { 0 };
	long i, round;

	(void)unused;
	if (!fds)
		die("no memory for %ld connections", connections);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < connections; i++) {
			if (!round || anew)
				fds[i] = connected();
			if (write(fds[i], buffer, message) != message)
				die("write: %s", strerror(errno));
		}
		for (i = 0; i < connections; i++) {
			read_answer(fds[i], buffer);
			if (one_way && (anew || round == rounds - 1))
				finish(fds[i], buffer);
			if (anew)
				close(fds[i]);
		}
	}
	free(fds);
	return NULL;
}

static pthread_t started(void *(*run)(void *), void *given, long cpu)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	check(pthread_attr_init(&attributes), "pthread_attr_init");
	if (pinned)
		check(pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus),
		      "pthread_attr_setaffinity_np");
	check(pthread_create(&thread, &attributes, run, given), "pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}

static void start_servers(void)
{
	long i;

	if (udp)
		udp_server = bound_socket(SOCK_DGRAM);
	for (i = 0; i < servers; i++) {
		int listener;

		if (udp) {
			started(serve_udp, NULL, 2 * i);
			continue;
		}
		listener = bound_socket(SOCK_STREAM | SOCK_NONBLOCK);
		if (listen(listener, 4096))
			die("listen: %s", strerror(errno));
		started(serve_tcp, (void *)(long)listener, 2 * i);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[1024];
	int option;
	long i;

	while ((option = getopt(argc, argv, "s:c:k:l:m:unop")) != -1) {
		switch (option) {
		case 's':
			servers = parse_number("-s", optarg, 1, 1024);
			break;
		case 'c':
			clients = parse_number("-c", optarg, 1, 1024);
			break;
		case 'k':
			connections = parse_number("-k", optarg, 1, 20000);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'm':
			message = parse_number("-m", optarg, 1, MESSAGE_MAX);
			break;
		case 'u':
			udp = true;
			break;
		case 'n':
			anew = true;
			break;
		case 'o':
			one_way = true;
			break;
		case 'p':
			pinned = true;
			break;
		default:
			die("usage: talkers [-s SERVERS] [-c CLIENTS] [-k CONNECTIONS] [-l ROUNDS] "
			    "[-m BYTES] [-u] [-n] [-o] [-p]");
		}
	}
	if (udp && one_way)
		die("-o needs TCP: datagrams have no end");
	start_servers();
	for (i = 0; i < clients; i++)
		threads[i] = started(talk, NULL, 2 * i + 1);
	for (i = 0; i < clients; i++)
		check(pthread_join(threads[i], NULL), "pthread_join");
	return EXIT_SUCCESS;
}
