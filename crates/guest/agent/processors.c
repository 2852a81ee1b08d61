// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first process of a guest of many CPUs, which boots with one: waits while the host plugs the
 * others in, starts them, and becomes the agent.
 */
#include "agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPUS "/sys/devices/system/cpu"

/* In the guest's time, of which an idle guest takes any length at once. */
#define NOTICE_US (200 * 1000)

/* How many CPUs the kernel has room for. */
static int possible(void)
{
	FILE *file = fopen(CPUS "/possible", "re");
	int last = 0;

	if (!file)
		die_errno(CPUS "/possible");
	/* `0` or `0-239` */
	if (fscanf(file, "%*d-%d", &last) == EOF)
		last = 0;
	fclose(file);
	return last + 1;
}

/* Starts a CPU unless it is not there or runs already; returns whether it did. */
static int start(int cpu)
{
	char path[64], on = 0;
	int fd;

	snprintf(path, sizeof(path), CPUS "/cpu%d/online", cpu);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, &on, 1) != 1)
		die_errno(path);
	if (on == '0' && pwrite(fd, "1", 1, 0) != 1)
		die_errno(path);
	close(fd);
	return on == '0';
}

/* Starts those of `cpus` that are there; returns how many. */
static int start_all(int cpus)
{
	int started = 0;
	int cpu;

	for (cpu = 1; cpu < cpus; cpu++)
		started += start(cpu);
	return started;
}

/* The host plugs in some; the kernel notices one after the other. Returns how many. */
static int take_some(int cpus)
{
	int some, all = 0;

	host_hold("processors");
	do {
		usleep(NOTICE_US);
		some = start_all(cpus);
		all += some;
	} while (some || !all);
	return all;
}

int main(void)
{
	char *argv[] = { "/init", NULL };
	int online = 1;
	int cpus;

	host_open();
	mkdir("/sys", 0755);
	if (mount("sysfs", "/sys", "sysfs", 0, NULL))
		die_errno("/sys");
	cpus = possible();
	host_say("possible %d", cpus);
	/* Held at least once: the host ends a guest whose kernel has too little room. */
	do {
		online += take_some(cpus);
	} while (online < cpus);
	umount("/sys");
	execv("/init", argv);
	die_errno("/init");
}
