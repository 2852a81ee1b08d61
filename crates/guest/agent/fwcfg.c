// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Reading of QEMU's fw_cfg. The directory is read byte by byte through the data port, the file
 * itself by DMA, which is as synchronous but a thousand times faster: the guest's clock counts
 * instructions, and neither way depends on host time as a block device would.
 */
#include "agent.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

#define PORT_SELECT 0x510
#define PORT_DATA 0x511
#define PORT_DMA_HIGH 0x514
#define PORT_DMA_LOW 0x518

#define KEY_DIRECTORY 0x19
#define DMA_ERROR 1u
#define DMA_READ 2u
#define DMA_SELECT 8u

#define PAGE 4096ul

/* All fields are big-endian. */
struct file_entry {
	uint32_t size;
	uint16_t key;
	uint16_t reserved;
	char name[56];
};

struct dma_request {
	uint32_t control;
	uint32_t length;
	uint64_t address;
};

static int find(const char *name, struct file_entry *found)
{
	uint32_t count;

	outw(KEY_DIRECTORY, PORT_SELECT);
	host_read(PORT_DATA, &count, sizeof(count));
	for (count = be32toh(count); count; count--) {
		host_read(PORT_DATA, found, sizeof(*found));
		found->name[sizeof(found->name) - 1] = 0;
		if (!strcmp(found->name, name))
			return 0;
	}
	return -1;
}

int fwcfg_has(const char *name)
{
	struct file_entry file;

	return !find(name, &file);
}

static uint64_t physical(int pagemap, const void *addr)
{
	uint64_t entry;
	uintptr_t va = (uintptr_t)addr;

	if (pread(pagemap, &entry, sizeof(entry), va / PAGE * sizeof(entry)) != sizeof(entry))
		die_errno("pagemap");
	if (!(entry >> 63))
		die("pagemap: page not present");
	return (entry & ((1ull << 55) - 1)) * PAGE + va % PAGE;
}

static void *map_locked(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_LOCKED, -1, 0);

	if (p == MAP_FAILED)
		die_errno("memory for the payload");
	return p;
}

void *fwcfg_read(const char *name, size_t *len)
{
	struct file_entry file;
	volatile struct dma_request *request;
	uint64_t request_pa;
	uint32_t key;
	size_t at, chunk;
	char *data;
	int pagemap;

	if (find(name, &file))
		die("fw_cfg has no %s", name);
	*len = be32toh(file.size);
	key = (uint32_t)be16toh(file.key) << 16;
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		die_errno("/proc/self/pagemap");
	data = map_locked(*len + 1);
	request = map_locked(PAGE);
	request_pa = physical(pagemap, (const void *)request);

	for (at = 0; at < *len; at += chunk) {
		chunk = *len - at < PAGE ? *len - at : PAGE;
		request->control = htobe32(DMA_READ | (at ? 0 : DMA_SELECT | key));
		request->length = htobe32(chunk);
		request->address = htobe64(physical(pagemap, data + at));
		outl(htobe32(request_pa >> 32), PORT_DMA_HIGH);
		outl(htobe32((uint32_t)request_pa), PORT_DMA_LOW);
		if (be32toh(request->control) & DMA_ERROR)
			die("fw_cfg: transfer failed at byte %zu", at);
	}
	munmap((void *)request, PAGE);
	close(pagemap);
	data[*len] = 0;
	return data;
}
