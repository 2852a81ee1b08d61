// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first process of a guest of many CPUs, which boots with one: waits while the host plugs the
 * others in, starts them, and becomes the agent.
 */
#include "agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPUS "/sys/devices/system/cpu"
#define CGROUPS "/cgroups"
#define ASIDE CGROUPS "/aside"

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

/* Writes to a file of the kernel; returns whether it took it. */
static int put(const char *path, const char *words)
{
	ssize_t written;
	int fd;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	written = write(fd, words, strlen(words));
	close(fd);
	return written == (ssize_t)strlen(words);
}

/*
 * The kernel builds the scheduling domains of all CPUs again for each one that starts, in time that
 * grows with the square of their number. CPUs of an isolated partition have none, so all but the
 * first are set aside until the last has started. Where that is refused, starting takes longer.
 */
static int set_aside(int cpus)
{
	char list[32];

	snprintf(list, sizeof(list), "1-%d", cpus - 1);
	mkdir(CGROUPS, 0755);
	if (mount("cgroup2", CGROUPS, "cgroup2", 0, NULL))
		return 0;
	return put(CGROUPS "/cgroup.subtree_control", "+cpuset") && !mkdir(ASIDE, 0755) &&
	       put(ASIDE "/cpuset.cpus", list) && put(ASIDE "/cpuset.cpus.partition", "isolated");
}

/* Has the domains of all CPUs built, and leaves no group behind. */
static void give_back(int aside)
{
	if (aside && !put(ASIDE "/cpuset.cpus.partition", "member"))
		die_errno(ASIDE);
	rmdir(ASIDE);
	put(CGROUPS "/cgroup.subtree_control", "-cpuset");
	umount(CGROUPS);
	rmdir(CGROUPS);
}

int main(void)
{
	char *argv[] = { "/init", NULL };
	int online = 1;
	int cpus, aside;

	host_open();
	mkdir("/sys", 0755);
	if (mount("sysfs", "/sys", "sysfs", 0, NULL))
		die_errno("/sys");
	cpus = possible();
	host_say("possible %d", cpus);
	aside = set_aside(cpus);
	/* Held at least once: the host ends a guest whose kernel has too little room. */
	do {
		online += take_some(cpus);
	} while (online < cpus);
	give_back(aside);
	umount("/sys");
	execv("/init", argv);
	die_errno("/init");
}
