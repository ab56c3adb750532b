// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * tester DISK DEPTH random|sequential|descending|write BATCHES: submits batches of DEPTH 4 KiB
 * requests with io_submit on an O_DIRECT descriptor, and waits for each batch. Prints the median of
 * the cycles per request. With QEMU's -icount one cycle is one instruction, so the figure is exact.
 *
 * tester DISK DEPTH stream|mixed BATCHES [FILE]: the same number of requests, with DEPTH of them
 * outstanding all the time (mixed: at least three quarters). stream: random reads of 4 KiB; mixed:
 * random reads and writes, some of them adjacent, of 4 to 16 KiB. With FILE, the number of requests
 * done so far is kept there in 8 bytes (od -v -A n -t d8).
 *
 * Linked statically with libc alone, because starting fio costs more than what is measured.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define BLOCK_BYTES 4096
#define DEPTH_MAX 64
#define BATCHES_MAX 4000

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int disk, is_mixed;
static uint64_t seed = 88172645463325252ull, blocks, at;
static char *memory;

#define BLOCKS_MAX 4

/*
 * A request for slot `i`, at random; of a mixed load one of four begins where the one drawn before
 * ends.
 */
static struct iocb drawn(int i)
{
	uint64_t draw = next(&seed);
	uint64_t count = is_mixed ? 1 + (draw >> 40) % BLOCKS_MAX : 1;
	int is_write = is_mixed && (draw >> 50) % 2;

	if (!is_mixed || (draw >> 60) % 4)
		at = draw % (blocks - BLOCKS_MAX);
	if (at + count > blocks)
		at = 0;
	at += count;
	return (struct iocb){ .aio_data = i, .aio_fildes = disk, .aio_lio_opcode = is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			      .aio_buf = (uintptr_t)(memory + (uint64_t)i * BLOCK_BYTES * BLOCKS_MAX),
			      .aio_nbytes = count * BLOCK_BYTES, .aio_offset = (at - count) * BLOCK_BYTES };
}

static volatile int64_t unseen, *done_so_far = &unseen;

/* Maps the file in which other processes can read the number of requests done. */
static int show_in(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (file < 0 || ftruncate(file, sizeof(*done_so_far)))
		return 1;
	done_so_far = mmap(NULL, sizeof(*done_so_far), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return done_so_far == MAP_FAILED;
}

/*
 * Keeps `depth` requests outstanding until `count` are done; a mixed load refills when a quarter
 * has completed, which saves the emulator most of its context switches.
 */
static int stream(aio_context_t context, int depth, long count)
{
	static struct iocb cbs[DEPTH_MAX];
	struct iocb *list[DEPTH_MAX];
	struct io_event events[DEPTH_MAX];
	long submitted = 0, done = 0;
	int again = depth, batch = is_mixed ? (depth + 3) / 4 : 1;

	for (int i = 0; i < depth; i++)
		list[i] = &cbs[i];
	while (done < count) {
		int got;

		if (again > count - submitted)
			again = count - submitted;
		for (int i = 0; i < again; i++)
			*list[i] = drawn(list[i] - cbs);
		if (again > 0 && syscall(SYS_io_submit, context, again, list) != again)
			return 1;
		submitted += again;
		if (batch > submitted - done)
			batch = submitted - done;
		got = syscall(SYS_io_getevents, context, batch, depth, events, NULL);
		if (got < 1)
			return 1;
		for (int i = 0; i < got; i++) {
			if (events[i].res != (int64_t)cbs[events[i].data].aio_nbytes)
				return 1;
			list[i] = &cbs[events[i].data];
		}
		done += got;
		*done_so_far = done;
		again = got;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint64_t took[BATCHES_MAX];
	static struct iocb cbs[DEPTH_MAX];
	struct iocb *list[DEPTH_MAX];
	struct io_event events[DEPTH_MAX];
	aio_context_t context = 0;
	int depth, batches, is_write;

	if (argc != 5 && argc != 6)
		return 2;
	if (argc == 6 && show_in(argv[5]))
		return 2;
	depth = atoi(argv[2]);
	batches = atoi(argv[4]);
	is_write = !strcmp(argv[3], "write");
	is_mixed = !strcmp(argv[3], "mixed");
	disk = open(argv[1], O_RDWR | O_DIRECT);
	if (disk < 0 || depth < 1 || depth > DEPTH_MAX || batches < 1)
		return 2;
	blocks = lseek(disk, 0, SEEK_END) / BLOCK_BYTES;
	if (blocks <= BLOCKS_MAX || posix_memalign((void **)&memory, BLOCK_BYTES, BLOCK_BYTES * BLOCKS_MAX * depth) ||
	    syscall(SYS_io_setup, DEPTH_MAX, &context))
		return 2;
	seed ^= (uint64_t)getpid() << 32;
	if (is_mixed || !strcmp(argv[3], "stream"))
		return stream(context, depth, (long)depth * batches);
	if (batches > BATCHES_MAX)
		return 2;
	seed = 88172645463325252ull;
	for (int batch = 0; batch < batches; batch++) {
		uint64_t begin;
		unsigned int cpu;
		int done = 0;

		for (int i = 0; i < depth; i++) {
			uint64_t block = next(&seed) % blocks;

			if (!strcmp(argv[3], "sequential"))
				block = (at + i) % blocks;
			else if (!strcmp(argv[3], "descending"))
				block = (at + depth - 1 - i) % blocks;
			cbs[i] = (struct iocb){ .aio_fildes = disk, .aio_lio_opcode = is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
						.aio_buf = (uintptr_t)(memory + i * BLOCK_BYTES), .aio_nbytes = BLOCK_BYTES,
						.aio_offset = block * BLOCK_BYTES };
			list[i] = &cbs[i];
		}
		at += depth;
		begin = __rdtscp(&cpu);
		if (syscall(SYS_io_submit, context, depth, list) != depth)
			return 1;
		while (done < depth) {
			int got = syscall(SYS_io_getevents, context, 1, depth - done, events, NULL);

			if (got < 1)
				return 1;
			for (int i = 0; i < got; i++)
				if (events[i].res != BLOCK_BYTES)
					return 1;
			done += got;
		}
		took[batch] = (__rdtscp(&cpu) - begin) / depth;
	}
	qsort(took, batches, sizeof(*took), by_size);
	printf("%llu\n", (unsigned long long)took[batches / 2]);
	return 0;
}
