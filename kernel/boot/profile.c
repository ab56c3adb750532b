// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A QEMU plugin that counts executed instructions by address: -plugin profile.so,out=FILE. At the
 * end FILE has a line per translated block: address, instructions in it, times executed. Debian
 * ships no header for plugins, so the declarations used are here (interface version 1, as in QEMU
 * 7.2).
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int operation, void *counter, uint64_t amount);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*ended)(qemu_plugin_id_t, void *), void *data);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define PLACES (1u << 20)

struct place {
	uint64_t address, instructions, times;
};

static struct place *places;
static const char *out;

/* The counter of a block; blocks that begin at one address may differ in length. */
static struct place *place_of(uint64_t address, uint64_t instructions)
{
	uint64_t at = (address * 0x9e3779b97f4a7c15ull + instructions) % PLACES;

	while (places[at].instructions && (places[at].address != address || places[at].instructions != instructions))
		at = (at + 1) % PLACES;
	places[at].address = address;
	places[at].instructions = instructions;
	return &places[at];
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &place_of(qemu_plugin_tb_vaddr(tb), qemu_plugin_tb_n_insns(tb))->times, 1);
}

static void ended(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(out, "w");

	(void)id;
	(void)data;
	if (!file)
		return;
	for (uint64_t at = 0; at < PLACES; at++)
		if (places[at].times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", places[at].address, places[at].instructions, places[at].times);
	fclose(file);
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
	places = calloc(PLACES, sizeof(*places));
	if (!out || !places)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return 0;
}
