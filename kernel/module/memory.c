// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Memory for the core, the Rust part of the module, which allocates and frees only when a policy is
 * built or deleted.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>

void *hoist_host_alloc(size_t bytes, size_t align);
void hoist_host_free(void *memory);
void hoist_host_impossible(void);

/*
 * kvzalloc aligns to at least 8, and to the size if that is a power of two; the core needs at most
 * 64.
 */
void *hoist_host_alloc(size_t bytes, size_t align)
{
	void *memory = kvzalloc(align > 8 ? ALIGN(bytes, align) : bytes, GFP_KERNEL | __GFP_NOWARN);

	if (memory && !IS_ALIGNED((unsigned long)memory, align)) {
		kvfree(memory);
		memory = kvzalloc(roundup_pow_of_two(max(bytes, align)), GFP_KERNEL | __GFP_NOWARN);
	}
	return memory;
}

void hoist_host_free(void *memory)
{
	kvfree(memory);
}

/*
 * Some versions of objtool follow calls from the core to this function, some do not; with a
 * condition both kinds accept it.
 */
static bool is_impossible = true;

void hoist_host_impossible(void)
{
	if (READ_ONCE(is_impossible))
		panic("hoistway: a table grew after construction\n");
}
