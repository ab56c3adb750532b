// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Control groups: one policy for all our elevators, because the kernel has only six slots; weights
 * in io.hoist.weight (v2) and blkio.hoist.weight (v1).
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "hoist.h"

#define WEIGHT_MIN 1
#define WEIGHT_MAX 10000
#define WEIGHT_DEFAULT 100

/* The data of a cgroup. */
struct group_everywhere {
	struct blkcg_policy_data data;
	u32 weight;
};

/* The data of a cgroup on a device. */
struct group_here {
	struct blkg_policy_data data;
	/*
	 * The device whose core gave the id; NULL without an id, after it was released, and after
	 * the elevator was switched. Protected by `membership`.
	 */
	struct hoist_device *device;
	struct list_head others;
	u32 id;
	/*
	 * The weight for this device alone; 0 = the cgroup's. Lost with the elevator, as with bfq.
	 */
	u32 own_weight;
	struct rcu_head rcu;
};

static struct blkcg_policy policy;

/*
 * A group may end before or after its elevator: the second of the two has nothing left to do. Taken
 * before the device's lock.
 */
static DEFINE_SPINLOCK(membership);

/*
 * The number of group data not yet freed. The kernel frees the data of a dying group through the
 * policy when its last request has ended.
 */
static atomic_t data_out = ATOMIC_INIT(0);

static struct group_here *here_of(struct blkg_policy_data *data)
{
	return data ? container_of(data, struct group_here, data) : NULL;
}

static struct group_here *here_in(struct blkcg_gq *blkg)
{
	return blkg ? here_of(blkg->pd[policy.plid]) : NULL;
}

static struct group_everywhere *everywhere(struct blkcg *blkcg)
{
	struct blkcg_policy_data *data = blkcg->cpd[policy.plid];

	return data ? container_of(data, struct group_everywhere, data) : NULL;
}

/* ---- the group of a bio ---- */

/*
 * A group without an id, because it is offline or found none, counts as its nearest ancestor with
 * one; the root's id is 0.
 */
u32 hoist_group_of_blkg(struct blkcg_gq *blkg)
{
	for (; blkg; blkg = blkg->parent) {
		struct group_here *here = here_in(blkg);
		u32 id = here ? READ_ONCE(here->id) : 0;

		if (likely(id))
			return id;
	}
	return 0;
}

u32 hoist_group_of_current(struct hoist_device *device)
{
	struct blkcg *blkcg;
	u32 id = 0;

	if (!READ_ONCE(device->group_count))
		return 0;
	rcu_read_lock_sched();
	blkcg = hoist_blkcg_of(task_css_check(current, io_cgrp_id, rcu_read_lock_sched_held()));
	if (blkcg != &blkcg_root)
		id = hoist_group_of_blkg(hoist_blkg_of(blkcg, device->q));
	rcu_read_unlock_sched();
	return id;
}

/* ---- life cycle of a group ---- */

static struct blkcg_policy_data *alloc_everywhere(gfp_t gfp)
{
	struct group_everywhere *group = kzalloc(sizeof(*group), gfp);

	if (!group)
		return NULL;
	group->weight = WEIGHT_DEFAULT;
	return &group->data;
}

static void free_everywhere(struct blkcg_policy_data *data)
{
	kfree(container_of(data, struct group_everywhere, data));
}

#ifdef HOIST_PD_ALLOC_DISK
static struct blkg_policy_data *alloc_here(struct gendisk *disk, struct blkcg *blkcg, gfp_t gfp)
{
	struct group_here *here = kzalloc_node(sizeof(*here), gfp, disk->node_id);
#else
static struct blkg_policy_data *alloc_here(gfp_t gfp, struct request_queue *q, struct blkcg *blkcg)
{
	struct group_here *here = kzalloc_node(sizeof(*here), gfp, q->node);
#endif

	if (!here)
		return NULL;
	atomic_inc(&data_out);
	return &here->data;
}

/* Parents are initialised before their children. */
static void init_here(struct blkg_policy_data *data)
{
	struct group_here *here = here_of(data);
	struct hoist_device *device = hoist_device_of(data->blkg->q);
	struct group_everywhere *group = everywhere(data->blkg->blkcg);
	unsigned long flags;

	if (!data->blkg->parent)
		return;
	spin_lock_irqsave(&membership, flags);
	spin_lock(&device->lock);
	here->id = hoist_group_added(device->core, hoist_group_of_blkg(data->blkg->parent), group ? group->weight : WEIGHT_DEFAULT, hoist_now(device));
	hoist_timer_follows(device);
	spin_unlock(&device->lock);
	if (here->id) {
		here->device = device;
		list_add(&here->others, &device->groups);
		WRITE_ONCE(device->group_count, device->group_count + 1);
	}
	spin_unlock_irqrestore(&membership, flags);
}

/* Queued requests stay and drain; later bios of the group count as its parent's. */
static void leave_here(struct blkg_policy_data *data)
{
	struct group_here *here = here_of(data);
	struct hoist_device *device;
	unsigned long flags;

	spin_lock_irqsave(&membership, flags);
	device = here->device;
	if (device) {
		list_del(&here->others);
		here->device = NULL;
		WRITE_ONCE(device->group_count, device->group_count - 1);
		spin_lock(&device->lock);
		hoist_group_offline(device->core, here->id, hoist_now(device));
		hoist_bury(device);
		WRITE_ONCE(here->id, 0);
		hoist_timer_follows(device);
		spin_unlock(&device->lock);
	}
	spin_unlock_irqrestore(&membership, flags);
}

/* Freed after a grace period, because hoist_group_of_current reads it without a lock. */
static void drop_here(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct group_here, rcu));
	atomic_dec(&data_out);
}

/*
 * The offline callback is not called for a group that was already dying when this elevator was
 * enabled (6.12 shows such groups to a new policy), nor for one that the kernel failed to create:
 * such a group is released here.
 */
static void free_here(struct blkg_policy_data *data)
{
	leave_here(data);
	call_rcu(&here_of(data)->rcu, drop_here);
}

/* ---- weights ---- */

static void weigh_here(struct blkcg_gq *blkg, u32 weight)
{
	struct group_here *here = here_in(blkg);
	struct hoist_device *device;
	unsigned long flags;
	u32 effect;

	/* The caller holds the locks that prevent groups from being created or freed. */
	device = here ? here->device : NULL;
	if (!device)
		return;
	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_group_weighed(device->core, here->id, weight, hoist_now(device));
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
}

/* The weight for all devices except those with one of their own. */
static int set_default(struct blkcg *blkcg, u32 weight)
{
	struct group_everywhere *group;
	struct group_here *here;
	struct blkcg_gq *blkg;

	spin_lock_irq(&blkcg->lock);
	group = everywhere(blkcg);
	if (group) {
		group->weight = weight;
		hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
			here = here_in(blkg);
			if (here && !here->own_weight)
				weigh_here(blkg, weight);
		}
	}
	spin_unlock_irq(&blkcg->lock);
	return group ? 0 : -ENODEV;
}

/* `weight` 0 removes this device's own weight. */
static void set_own(struct blkcg_gq *blkg, u32 weight)
{
	struct group_everywhere *group = everywhere(blkg->blkcg);
	struct group_here *here = here_in(blkg);

	here->own_weight = weight;
	weigh_here(blkg, weight ? weight : group ? group->weight : WEIGHT_DEFAULT);
}

static int parse_weight(const char *text, u32 *weight)
{
	u64 number;
	int error = kstrtou64(text, 10, &number);

	if (error)
		return error;
	if (number < WEIGHT_MIN || number > WEIGHT_MAX)
		return -ERANGE;
	*weight = number;
	return 0;
}

/*
 * Parses "8:16 300" or "8:16 default", for one device. blk-mq looks up the device, and creates its
 * entry for the cgroup if needed.
 */
static int write_own(struct blkcg *blkcg, char *line)
{
	struct blkg_conf_ctx context;
	u32 weight = 0;
	char *text;
	int error;

#ifdef HOIST_CONF_INIT
	blkg_conf_init(&context, line);
	error = blkg_conf_prep(blkcg, &policy, &context);
	if (error)
		goto out;
#else
	error = blkg_conf_prep(blkcg, &policy, line, &context);
	if (error)
		return error;
#endif
	text = strim(context.body);
	if (strcmp(text, "default"))
		error = parse_weight(text, &weight);
	if (!error)
		set_own(context.blkg, weight);
#ifdef HOIST_CONF_INIT
out:
	blkg_conf_exit(&context);
#else
	blkg_conf_finish(&context);
#endif
	return error;
}

/*
 * Parses "100" or "default 100" for all devices, "MAJOR:MINOR 100" or "MAJOR:MINOR default" for
 * one.
 */
static ssize_t write_weight(struct kernfs_open_file *of, char *text, size_t bytes, loff_t at)
{
	struct blkcg *blkcg = hoist_blkcg_of(of_css(of));
	char *line = strim(text);
	u32 weight;
	int error;

	if (strchr(line, ':')) {
		error = write_own(blkcg, line);
		return error ? error : bytes;
	}
	if (!strncmp(line, "default", 7))
		line = skip_spaces(line + 7);
	error = parse_weight(line, &weight);
	if (!error)
		error = set_default(blkcg, weight);
	return error ? error : bytes;
}

static u64 show_own(struct seq_file *file, struct blkg_policy_data *data, int unused)
{
	u32 weight = here_of(data)->own_weight;

	return weight ? __blkg_prfill_u64(file, data, weight) : 0;
}

static int show_weight(struct seq_file *file, void *unused)
{
	struct blkcg *blkcg = hoist_blkcg_of(seq_css(file));
	struct group_everywhere *group = everywhere(blkcg);

	seq_printf(file, "default %u\n", group ? group->weight : WEIGHT_DEFAULT);
	blkcg_print_blkgs(file, blkcg, show_own, &policy, 0, false);
	return 0;
}

static struct cftype files[] = {
	{ .name = "hoist.weight", .flags = CFTYPE_NOT_ON_ROOT, .seq_show = show_weight, .write = write_weight },
	{}
};

static struct cftype legacy_files[] = {
	{ .name = "hoist.weight", .flags = CFTYPE_NOT_ON_ROOT, .seq_show = show_weight, .write = write_weight },
	{}
};

static struct blkcg_policy policy = {
	.dfl_cftypes = files,
	.legacy_cftypes = legacy_files,
	.cpd_alloc_fn = alloc_everywhere,
	.cpd_free_fn = free_everywhere,
	.pd_alloc_fn = alloc_here,
	.pd_init_fn = init_here,
	.pd_offline_fn = leave_here,
	.pd_free_fn = free_here,
};

/* ---- enabling and disabling ---- */

/*
 * The core is about to be freed: groups that the kernel still has but that are in no list of this
 * device must not release ids any more.
 */
static void forget_groups(struct hoist_device *device)
{
	struct group_here *here, *next;

	spin_lock_irq(&membership);
	list_for_each_entry_safe(here, next, &device->groups, others) {
		list_del(&here->others);
		here->device = NULL;
	}
	spin_unlock_irq(&membership);
}

int hoist_groups_on(struct hoist_device *device)
{
	int error;

	if (!(device->wants & HOIST_WANTS_GROUPS))
		return 0;
#ifdef HOIST_PD_ALLOC_DISK
	error = blkcg_activate_policy(device->q->disk, &policy);
#else
	error = blkcg_activate_policy(device->q, &policy);
#endif
	if (error)
		forget_groups(device);
	return error;
}

void hoist_groups_off(struct hoist_device *device)
{
	if (!(device->wants & HOIST_WANTS_GROUPS))
		return;
#ifdef HOIST_PD_ALLOC_DISK
	blkcg_deactivate_policy(device->q->disk, &policy);
#else
	blkcg_deactivate_policy(device->q, &policy);
#endif
	forget_groups(device);
}

int hoist_groups_init(void)
{
	return blkcg_policy_register(&policy);
}

/*
 * No device uses our elevators any more, but 6.1 accesses the policy of a dying group's data
 * without a check.
 */
void hoist_groups_exit(void)
{
	while (atomic_read(&data_out))
		msleep(1);
	blkcg_policy_unregister(&policy);
}
