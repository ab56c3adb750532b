// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * One elevator type per policy, and the module's initialisation. Read request.c first: it connects
 * blk-mq with the policies (kernel/core, Rust).
 *
 * There is one spinlock per device, with interrupts off, held around every call of the core. Lock
 * order: q->queue_lock, blkcg->lock, then our lock. So issuers and groups are looked up before our
 * lock is taken, and requests are freed after it was released.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "hoist.h"

static struct hoist_kind *kinds;
static u32 kind_count;

static const struct elevator_mq_ops operations = {
	.init_sched = hoist_init_sched,
	.exit_sched = hoist_exit_sched,
	.init_hctx = hoist_init_hctx,
	.exit_hctx = hoist_exit_hctx,
	.depth_updated = hoist_depth_updated,
	.prepare_request = hoist_prepare_request,
	.bio_merge = hoist_bio_merge,
	.allow_merge = hoist_allow_merge,
	.request_merge = hoist_request_merge,
	.request_merged = hoist_request_merged,
	.requests_merged = hoist_requests_merged,
	.former_request = hoist_former_request,
	.next_request = hoist_next_request,
	.insert_requests = hoist_insert_requests,
	.dispatch_request = hoist_dispatch_request,
	.has_work = hoist_has_work_for,
	.completed_request = hoist_completed_request,
	.finish_request = hoist_finish_request,
	.requeue_request = hoist_requeue_request,
	.init_icq = hoist_init_icq,
	.exit_icq = hoist_exit_icq,
};

/* Chooses the operations that a policy needs, each in its cheapest variant. */
static void choose_operations(struct hoist_kind *kind, struct elevator_mq_ops *ops)
{
	u32 wants = kind->wants;

	if (wants & HOIST_WANTS_CONTEXTS) {
		kind->type.icq_size = sizeof(struct hoist_icq);
		kind->type.icq_align = __alignof__(struct hoist_icq);
	} else {
		ops->init_icq = NULL;
		ops->exit_icq = NULL;
	}
	if (wants & HOIST_LIMITS_READS) {
		ops->limit_depth = hoist_limit_depth;
		ops->prepare_request = hoist_prepare_counted;
		ops->completed_request = hoist_completed_counted;
	} else if (wants & HOIST_LIMITS_WRITES) {
		ops->limit_depth = hoist_limit_writes;
	}
	/* For policies that use neither issuers nor groups, any bio may merge with any request. */
	if (wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)) {
		ops->insert_requests = hoist_insert_with_owners;
	} else {
		ops->allow_merge = NULL;
		ops->prepare_request = hoist_prepare_plain;
	}
	if (wants & HOIST_PER_QUEUE) {
		ops->has_work = hoist_has_work_per_hctx;
		ops->dispatch_request = hoist_dispatch_per_hctx;
	} else if (wants & HOIST_TICK_RESOLUTION) {
		ops->dispatch_request = hoist_dispatch_in_ticks;
	}
}

static int register_kind(struct hoist_kind *kind, u32 index)
{
	struct hoist_line prefix, name;
	int error;

	if (!hoist_elevator_type(index, &prefix, &name, &kind->wants))
		return -EINVAL;
	kind->policy = index;
	snprintf(kind->name, sizeof(kind->name), "%.*s%.*s", (int)prefix.bytes, prefix.text, (int)name.bytes, name.text);
	kind->type.ops = operations;
	choose_operations(kind, &kind->type.ops);
	kind->type.elevator_name = kind->name;
	kind->type.elevator_owner = THIS_MODULE;
	error = hoist_create_files(kind);
	if (error)
		return error;
	kind->type.elevator_attrs = kind->files;
	error = elv_register(&kind->type);
	if (error)
		pr_err("%s: elv_register failed with %d (is the name in use?)\n", kind->name, error);
	else
		kind->is_registered = true;
	return error;
}

static void unregister_kinds(void)
{
	u32 i;

	for (i = 0; i < kind_count; i++) {
		if (kinds[i].is_registered)
			elv_unregister(&kinds[i].type);
		hoist_remove_files(&kinds[i]);
	}
	kfree(kinds);
	kinds = NULL;
}

static int __init hoistway_init(void)
{
	int error = 0;
	u32 i;

	if (hoist_core_abi() != HOIST_ABI) {
		pr_err("glue and core are from different builds (%u, %u): rebuild the module\n", HOIST_ABI, hoist_core_abi());
		return -EINVAL;
	}
	kind_count = hoist_elevator_types();
	kinds = kcalloc(kind_count, sizeof(*kinds), GFP_KERNEL);
	if (!kinds)
		return -ENOMEM;
	/*
	 * The elevators are registered before the groups' files. If their names are in use, so are
	 * those of the files, and the kernel would print a warning about these. Until
	 * hoist_set_ready() no device can use the elevators.
	 */
	for (i = 0; !error && i < kind_count; i++)
		error = register_kind(&kinds[i], i);
	if (!error) {
		error = hoist_groups_init();
		if (error)
			pr_err("no slot for a group policy (error %d): the kernel has six, and all are in use\n", -error);
	}
	if (error) {
		unregister_kinds();
		return error;
	}
	hoist_debugfs_init();
	hoist_set_ready();
	return 0;
}

static void __exit hoistway_exit(void)
{
	unregister_kinds();
	hoist_debugfs_exit();
	hoist_groups_exit();
	/* Issuers' entries (icqs) and group data are freed by RCU callbacks in this module. */
	rcu_barrier();
}

module_init(hoistway_init);
module_exit(hoistway_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_AUTHOR("The Hoistway authors");
MODULE_DESCRIPTION("Block I/O schedulers of Hoistway");
#include "hoist_aliases.h"
