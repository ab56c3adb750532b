// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Control groups. All our elevators share one cgroup policy (struct blkcg_policy), because the
 * kernel has only six slots for these. Weights are in io.hoist.weight (v2) and blkio.hoist.weight
 * (v1); without one, those of io.weight and io.bfq.weight count (heard.c). The core is the Rust part
 * of the module (kernel/core).
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

/*
 * Our own file's weight, and that of the files of others; 0 = not set. The former counts before
 * the latter, and of these a device's before the cgroup's.
 */
struct hoist_weights {
	u32 own;
	u32 heard;
	/* What was written to io.weight where that file is ours: in a kernel without io.cost. */
	u32 written;
};

/* The data of a cgroup. */
struct hoist_group_data {
	struct blkcg_policy_data data;
	struct hoist_weights weights;
	/* The rest is protected by `groups_lock`. In `listened` while `groups` is above 0. */
	struct list_head link;
	/* Entries of the cgroup with an id of a core. */
	u32 groups;
	/* The last round in which the files of others were read; 0 = none yet. */
	u32 round;
};

/* The data of a cgroup on a device. */
struct hoist_group {
	struct blkg_policy_data data;
	/*
	 * The device whose core gave the id; NULL without an id, after it was released, and after
	 * the elevator was switched. Protected by `groups_lock`.
	 */
	struct hoist_device *device;
	struct list_head link;
	u32 id;
	/* Whether it is counted in the cgroup's `groups`. */
	bool is_counted;
	/*
	 * For this device alone; 0 = the cgroup's. They are lost when the elevator is switched, as
	 * with bfq.
	 */
	struct hoist_weights weights;
	/* The weight that the core has. */
	u32 applied;
	struct rcu_head rcu;
};

static struct blkcg_policy policy;

/*
 * Protects the link between groups and devices. A group may be freed before or after the core of
 * its elevator; whichever is second finds the link removed. Must be taken before the device's lock.
 */
static DEFINE_SPINLOCK(groups_lock);

/* The cgroups with `groups`: those not read in this round first. Protected by `groups_lock`. */
static LIST_HEAD(listened);
static u32 round = 1;

/*
 * The number of group data not yet freed. The kernel frees the data of a dying group through the
 * policy when its last request has ended.
 */
static atomic_t live_groups = ATOMIC_INIT(0);

static struct hoist_group *group_of_data(struct blkg_policy_data *data)
{
	return data ? container_of(data, struct hoist_group, data) : NULL;
}

static struct hoist_group *group_of_blkg(struct blkcg_gq *blkg)
{
	return blkg ? group_of_data(blkg->pd[policy.plid]) : NULL;
}

static struct hoist_group_data *group_data_of(struct blkcg *blkcg)
{
	struct blkcg_policy_data *data = blkcg->cpd[policy.plid];

	return data ? container_of(data, struct hoist_group_data, data) : NULL;
}

/* ---- the group of a bio ---- */

/*
 * A group may have no id, because it is offline or all ids were in use; its bios then count for its
 * nearest ancestor with an id. The root's id is 0.
 */
u32 hoist_group_of_blkg(struct blkcg_gq *blkg)
{
	for (; blkg; blkg = blkg->parent) {
		struct hoist_group *group = group_of_blkg(blkg);
		u32 id = group ? READ_ONCE(group->id) : 0;

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

static struct blkcg_policy_data *alloc_group_data(gfp_t gfp)
{
	struct hoist_group_data *group_data = kzalloc(sizeof(*group_data), gfp);

	if (!group_data)
		return NULL;
	INIT_LIST_HEAD(&group_data->link);
	return &group_data->data;
}

static void free_group_data(struct blkcg_policy_data *data)
{
	kfree(container_of(data, struct hoist_group_data, data));
}

static HOIST_PD_ALLOC(alloc_group)
{
	struct hoist_group *group = kzalloc_node(sizeof(*group), gfp, HOIST_NODE_OF(on));

	if (!group)
		return NULL;
	atomic_inc(&live_groups);
	return &group->data;
}

static u32 weight_of(const struct hoist_group *group, const struct hoist_group_data *group_data)
{
	if (group->weights.own)
		return group->weights.own;
	if (group_data && group_data->weights.own)
		return group_data->weights.own;
	if (group->weights.heard)
		return group->weights.heard;
	return group_data && group_data->weights.heard ? group_data->weights.heard : WEIGHT_DEFAULT;
}

/*
 * Under `groups_lock`. The entry of a dying cgroup is not counted: the cgroup may be freed before it.
 */
static void count_group(struct hoist_group *group, struct hoist_group_data *group_data)
{
	if (!group_data || percpu_ref_is_dying(&group->data.blkg->refcnt))
		return;
	group->is_counted = true;
	if (!group_data->groups++) {
		group_data->round = 0;
		list_add(&group_data->link, &listened);
	}
}

static void uncount_group(struct hoist_group *group)
{
	struct hoist_group_data *group_data;

	if (!group->is_counted)
		return;
	group->is_counted = false;
	group_data = group_data_of(group->data.blkg->blkcg);
	if (!--group_data->groups)
		list_del_init(&group_data->link);
}

/* Parents are initialised before their children. */
static void init_group(struct blkg_policy_data *data)
{
	struct hoist_group *group = group_of_data(data);
	struct hoist_device *device = hoist_device_of(data->blkg->q);
	struct hoist_group_data *group_data = group_data_of(data->blkg->blkcg);
	unsigned long flags;

	if (!data->blkg->parent)
		return;
	spin_lock_irqsave(&groups_lock, flags);
	spin_lock(&device->lock);
	group->applied = weight_of(group, group_data);
	group->id = hoist_group_added(device->core, hoist_group_of_blkg(data->blkg->parent), group->applied, hoist_now(device));
	hoist_arm_timer(device);
	spin_unlock(&device->lock);
	if (group->id) {
		group->device = device;
		list_add(&group->link, &device->groups);
		WRITE_ONCE(device->group_count, device->group_count + 1);
		count_group(group, group_data);
	}
	spin_unlock_irqrestore(&groups_lock, flags);
	if (group->is_counted)
		hoist_listen_soon();
}

/*
 * Requests that are queued remain in the group until they are dispatched; later bios of the group
 * count for its parent.
 */
static void offline_group(struct blkg_policy_data *data)
{
	struct hoist_group *group = group_of_data(data);
	struct hoist_device *device;
	unsigned long flags;

	spin_lock_irqsave(&groups_lock, flags);
	device = group->device;
	if (device) {
		list_del(&group->link);
		uncount_group(group);
		group->device = NULL;
		WRITE_ONCE(device->group_count, device->group_count - 1);
		spin_lock(&device->lock);
		hoist_group_offline(device->core, group->id, hoist_now(device));
		hoist_release_dying_group(device);
		WRITE_ONCE(group->id, 0);
		hoist_arm_timer(device);
		spin_unlock(&device->lock);
	}
	spin_unlock_irqrestore(&groups_lock, flags);
}

/* Freed after a grace period, because hoist_group_of_current reads it without a lock. */
static void free_group_rcu(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct hoist_group, rcu));
	atomic_dec(&live_groups);
}

/*
 * The offline callback is not called for a group that was already dying when this elevator was
 * enabled (6.12 shows such groups to a new policy), nor for one that the kernel failed to create:
 * such a group is released here.
 */
static void free_group(struct blkg_policy_data *data)
{
	offline_group(data);
	call_rcu(&group_of_data(data)->rcu, free_group_rcu);
}

/* ---- weights ---- */

static void apply_weight(struct hoist_group *group, const struct hoist_group_data *group_data)
{
	u32 weight = weight_of(group, group_data), effect;
	struct hoist_device *device;
	unsigned long flags;

	/* The caller holds the locks that prevent groups from being created or freed. */
	device = group->device;
	if (!device || group->applied == weight)
		return;
	group->applied = weight;
	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_group_weighed(device->core, group->id, weight, hoist_now(device));
	hoist_arm_timer(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
}

/* The number behind a file: io.hoist.weight, or io.weight where that is ours. */
static u32 *behind(const struct cftype *file, struct hoist_weights *weights)
{
	return file->private ? &weights->written : &weights->own;
}

/* Sets the weight for all devices; 0 takes it back. */
static int set_default(const struct cftype *file, struct blkcg *blkcg, u32 weight)
{
	struct hoist_group_data *group_data;
	struct hoist_group *group;
	struct blkcg_gq *blkg;

	spin_lock_irq(&blkcg->lock);
	group_data = group_data_of(blkcg);
	if (group_data) {
		*behind(file, &group_data->weights) = weight;
		hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
			group = group_of_blkg(blkg);
			if (group)
				apply_weight(group, group_data);
		}
	}
	spin_unlock_irq(&blkcg->lock);
	return group_data ? 0 : -ENODEV;
}

/* 0 takes this device's weight back. */
static void set_device_weight(const struct cftype *file, struct blkcg_gq *blkg, u32 weight)
{
	struct hoist_group *group = group_of_blkg(blkg);

	*behind(file, &group->weights) = weight;
	apply_weight(group, group_data_of(blkg->blkcg));
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
static int write_device_weight(const struct cftype *file, struct blkcg *blkcg, char *line)
{
	struct blkg_conf_ctx context;
	u32 weight = 0;
	char *text;
	int error;

	error = hoist_conf_begin(blkcg, &policy, line, &context);
	if (error)
		return error;
	text = strim(context.body);
	if (strcmp(text, "default"))
		error = parse_weight(text, &weight);
	if (!error)
		set_device_weight(file, context.blkg, weight);
	hoist_conf_end(&context);
	return error;
}

/*
 * Parses "100" or "default 100" for all devices, "default" to take that back, "MAJOR:MINOR 100" or
 * "MAJOR:MINOR default" for one.
 */
static ssize_t write_weight(struct kernfs_open_file *of, char *text, size_t bytes, loff_t at)
{
	struct blkcg *blkcg = hoist_blkcg_of(of_css(of));
	char *line = strim(text);
	u32 weight = 0;
	int error = 0;

	if (strchr(line, ':')) {
		error = write_device_weight(of_cft(of), blkcg, line);
		return error ? error : bytes;
	}
	if (!strncmp(line, "default", 7)) {
		line = skip_spaces(line + 7);
		if (*line)
			error = parse_weight(line, &weight);
	} else {
		error = parse_weight(line, &weight);
	}
	if (!error)
		error = set_default(of_cft(of), blkcg, weight);
	return error ? error : bytes;
}

static u64 show_device_weight(struct seq_file *file, struct blkg_policy_data *data, int unused)
{
	u32 weight = *behind(seq_cft(file), &group_of_data(data)->weights);

	return weight ? __blkg_prfill_u64(file, data, weight) : 0;
}

/* The cgroup's weight: what was written to the file, else the weight that counts instead. */
static int show_weight(struct seq_file *file, void *unused)
{
	struct blkcg *blkcg = hoist_blkcg_of(seq_css(file));
	struct hoist_group_data *group_data = group_data_of(blkcg);
	u32 weight = group_data ? *behind(seq_cft(file), &group_data->weights) : 0;

	if (!weight && group_data && !seq_cft(file)->private)
		weight = group_data->weights.heard;
	seq_printf(file, "default %u\n", weight ? weight : WEIGHT_DEFAULT);
	blkcg_print_blkgs(file, blkcg, show_device_weight, &policy, 0, false);
	return 0;
}

#define WEIGHT_FILE(file, is_of_others)                                                                              \
	{ .name = file, .private = is_of_others, .flags = CFTYPE_NOT_ON_ROOT, .seq_show = show_weight, .write = write_weight }

static struct cftype files[] = {
	WEIGHT_FILE("hoist.weight", 0),
#ifndef CONFIG_BLK_CGROUP_IOCOST
	WEIGHT_FILE("weight", 1),
#endif
	{}
};

static struct cftype legacy_files[] = {
	WEIGHT_FILE("hoist.weight", 0),
	{}
};

static struct blkcg_policy policy = {
	.dfl_cftypes = files,
	.legacy_cftypes = legacy_files,
	.cpd_alloc_fn = alloc_group_data,
	.cpd_free_fn = free_group_data,
	.pd_alloc_fn = alloc_group,
	.pd_init_fn = init_group,
	.pd_offline_fn = offline_group,
	.pd_free_fn = free_group,
};

/* ---- weights of others ---- */

void hoist_begin_round(void)
{
	spin_lock_irq(&groups_lock);
	/* 0 is no round. */
	round = round == U32_MAX ? 1 : round + 1;
	spin_unlock_irq(&groups_lock);
}

bool hoist_has_groups(void)
{
	return !list_empty_careful(&listened);
}

/* The next cgroup that was not read in this round, with a reference; NULL if there is none. */
struct blkcg *hoist_next_in_round(void)
{
	struct hoist_group_data *group_data;
	struct blkcg *found = NULL;

	spin_lock_irq(&groups_lock);
	while (!found) {
		group_data = list_first_entry_or_null(&listened, struct hoist_group_data, link);
		if (!group_data || group_data->round == round)
			break;
		group_data->round = round;
		list_move_tail(&group_data->link, &listened);
		if (css_tryget(&group_data->data.blkcg->css))
			found = group_data->data.blkcg;
	}
	spin_unlock_irq(&groups_lock);
	return found;
}

/* A file's weight for a device: the device's own line, else 0. `text` is what the file says. */
static u32 weight_in_line(const char *text, const struct request_queue *q)
{
	dev_t number = q->disk ? disk_devt(q->disk) : 0;
	unsigned int major, minor, weight;

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (sscanf(text, "%u:%u %u", &major, &minor, &weight) == 3 && MKDEV(major, minor) == number)
			return clamp_t(u32, weight, WEIGHT_MIN, WEIGHT_MAX);
	}
	return 0;
}

/* A file's weight for all devices; 0 if there is no file, or it was not changed. */
static u32 weight_changed(const char *text)
{
	unsigned int weight;

	if (sscanf(text, "default %u", &weight) != 1 || weight == WEIGHT_DEFAULT)
		return 0;
	return clamp_t(u32, weight, WEIGHT_MIN, WEIGHT_MAX);
}

/*
 * Takes over what io.weight and io.bfq.weight say, the former first: systemd writes both, and
 * squeezes the latter into bfq's range of 1 to 1000. Neither shows whether its 100 was written, so a
 * 100 counts as not written.
 */
void hoist_hear(struct blkcg *blkcg, const char *weight, const char *bfq_weight)
{
	struct hoist_group_data *group_data;
	struct hoist_group *group;
	struct blkcg_gq *blkg;
	u32 changed = weight_changed(weight);
	bool is_bfq = !changed;

	spin_lock_irq(&blkcg->lock);
	group_data = group_data_of(blkcg);
	if (group_data) {
		group_data->weights.heard = is_bfq ? weight_changed(bfq_weight) : changed;
		hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
			group = group_of_blkg(blkg);
			if (!group)
				continue;
			group->weights.heard = weight_in_line(weight, blkg->q);
			if (!group->weights.heard && is_bfq)
				group->weights.heard = weight_in_line(bfq_weight, blkg->q);
			apply_weight(group, group_data);
		}
	}
	spin_unlock_irq(&blkcg->lock);
}

/* ---- enabling and disabling ---- */

/*
 * Called before the core is freed: cuts the link of all groups that the kernel has not freed yet,
 * so that they do not release ids of this core later.
 */
static void forget_groups(struct hoist_device *device)
{
	struct hoist_group *group, *next;

	spin_lock_irq(&groups_lock);
	list_for_each_entry_safe(group, next, &device->groups, link) {
		list_del(&group->link);
		uncount_group(group);
		group->device = NULL;
	}
	spin_unlock_irq(&groups_lock);
}

int hoist_groups_on(struct hoist_device *device)
{
	int error;

	if (!(device->wants & HOIST_WANTS_GROUPS))
		return 0;
	hoist_find_cgroups();
	error = blkcg_activate_policy(HOIST_POLICY_OF(device->q), &policy);
	if (error)
		forget_groups(device);
	return error;
}

void hoist_groups_off(struct hoist_device *device)
{
	if (!(device->wants & HOIST_WANTS_GROUPS))
		return;
	blkcg_deactivate_policy(HOIST_POLICY_OF(device->q), &policy);
	forget_groups(device);
}

int hoist_groups_init(void)
{
	int error = hoist_listen_init();

	if (!error)
		error = blkcg_policy_register(&policy);
	if (error)
		hoist_listen_exit();
	return error;
}

/*
 * No device uses our elevators any more, but dying groups may still have data, and Linux 6.1
 * accesses the policy of such data without checking that it is registered. So this waits until all
 * data is freed.
 */
void hoist_groups_exit(void)
{
	while (atomic_read(&live_groups))
		msleep(1);
	hoist_listen_exit();
	blkcg_policy_unregister(&policy);
}
