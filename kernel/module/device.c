// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Enabling and disabling an elevator on a device, and changes of its queue depths. The kernel calls
 * these functions while the device's queue is frozen.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/blktrace_api.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "hoist.h"

static unsigned int slots_max = 65536;
module_param(slots_max, uint, 0444);
MODULE_PARM_DESC(slots_max, "Largest number of requests that a policy handles at a time; others wait in a FIFO queue (default 65536)");

static unsigned int groups_max = 1024;
module_param(groups_max, uint, 0444);
MODULE_PARM_DESC(groups_max, "Largest number of cgroups that a policy distinguishes on a device; I/O of others counts for their nearest ancestor among these (default 1024)");

static unsigned int record;
module_param(record, uint, 0644);
MODULE_PARM_DESC(record, "Number of policy calls to record per device, readable in debugfs hoistway/DISK/calls (default 0)");

static char *version = "";
module_param(version, charp, 0644);
MODULE_PARM_DESC(version, "Kernel version whose elevators are reproduced, for example 5.1 or 2.6.36; read at the next switch (default: newest)");

/* Elevators are registered before initialisation is complete; until then no device may use one. */
static bool is_ready;

void hoist_set_ready(void)
{
	WRITE_ONCE(is_ready, true);
}

static u64 version_wanted(void)
{
	unsigned int major = 0, minor = 0, patch = 0;

	if (!*version || sscanf(version, "%u.%u.%u", &major, &minor, &patch) < 1)
		return 0;
	return ((u64)min(major, 0xffffu) << 32) | ((u64)min(minor, 0xffffu) << 16) | min(patch, 0xffffu);
}

static void config_of(struct request_queue *q, const struct hoist_kind *kind, struct hoist_config *config)
{
	u32 wanted = q->nr_hw_queues * max_t(u32, q->nr_requests, 1024);

	*config = (struct hoist_config) {
		.policy = kind->policy,
		.slots = clamp_t(u32, wanted, 1, clamp_t(u32, slots_max, 1, 65536)),
		.groups = kind->wants & HOIST_WANTS_GROUPS ? clamp_t(u32, groups_max, 1, 65536) : 1,
		.contexts = kind->wants & HOIST_WANTS_CONTEXTS ? HOIST_CONTEXTS : 1,
		.requests = q->nr_requests,
		.device = q->tag_set ? q->tag_set->queue_depth : 32,
		.max_sectors = queue_max_sectors(q),
		.hardware_queues = q->nr_hw_queues,
		.software_queues = 1,
		.capacity_sectors = q->disk ? get_capacity(q->disk) : 0,
		.seed = 1,
		.rotational = hoist_is_rotational(q),
		.queueing = q->tag_set && q->tag_set->queue_depth > 1,
		.version = version_wanted(),
	};
}

static void free_device(struct hoist_device *device)
{
	if (device->core)
		hoist_delete(device->core);
	kvfree(device->slots);
	vfree(device->records);
	kfree(device);
}

static struct hoist_device *new_device(struct request_queue *q, const struct hoist_kind *kind, int *error)
{
	struct hoist_device *device = kzalloc_node(sizeof(*device), GFP_KERNEL, q->node);
	struct hoist_config *config;
	unsigned int noio;
	u32 why = 0;

	*error = -ENOMEM;
	if (!device)
		return NULL;
	config = &device->config;
	config_of(q, kind, config);
	device->config_blob.data = config;
	device->config_blob.size = sizeof(*config);
	device->q = q;
	device->kind = kind;
	device->wants = kind->wants;
	device->slot_count = config->slots;
	spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->overflow);
	INIT_LIST_HEAD(&device->groups);
	hoist_timer_setup(&device->timer, hoist_timer_fired);
	/*
	 * The queue is frozen: if the allocation reclaimed memory by writing dirty or swapped pages
	 * to this device, it would wait for I/O that starts only after this function has returned.
	 */
	noio = memalloc_noio_save();
	device->slots = kvcalloc(config->slots, sizeof(*device->slots), GFP_KERNEL);
	device->core = device->slots ? hoist_new(config, &why) : NULL;
	if (device->core && record) {
		device->record_room = min_t(u32, record, 1 << 24);
		device->records = vmalloc(array_size(device->record_room, sizeof(*device->records)));
		if (device->records)
			hoist_record(device->core, device->records, device->record_room);
		else
			pr_warn("%s: no memory to record %u calls\n", kind->name, record);
	}
	memalloc_noio_restore(noio);
	if (!device->core) {
		if (why == 2) {
			*error = -EINVAL;
			pr_warn("%s did not exist at version=%s\n", kind->name, version);
		} else {
			pr_warn("%s: no memory for tables of %u requests\n", kind->name, config->slots);
		}
		free_device(device);
		return NULL;
	}
	return device;
}

/*
 * A policy can choose only among requests that hold a tag. With eight tags for each command that
 * the device accepts, a group rarely has to wait for a tag.
 */
u32 hoist_advised_requests(const struct hoist_device *device)
{
	return clamp_t(u32, 8 * device->config.device * device->config.hardware_queues, 256, 2048);
}

static void advise(const struct hoist_device *device)
{
	u32 advised = hoist_advised_requests(device);

	if (device->wants & HOIST_WANTS_GROUPS && device->q->nr_requests < advised)
		pr_info("%s: shares of groups need nr_requests of %u or more, %s has %lu\n", device->kind->name, advised,
			device->q->disk ? device->q->disk->disk_name : "the device", (unsigned long)device->q->nr_requests);
}

static int take_queue(struct request_queue *q, struct elevator_queue *eq)
{
	const struct hoist_kind *kind = container_of(eq->type, struct hoist_kind, type);
	struct hoist_device *device;
	int error;

	if (!READ_ONCE(is_ready))
		return -EAGAIN;
	device = new_device(q, kind, &error);
	if (!device)
		return error;
	eq->elevator_data = device;
	q->elevator = eq;
	if (kind->wants & HOIST_PER_QUEUE)
		blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	else
		blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	error = hoist_groups_on(device);
	if (error) {
		pr_warn("%s: the group policy could not be activated on this device: error %d\n", kind->name, -error);
		q->elevator = NULL;
		eq->elevator_data = NULL;
		free_device(device);
		return error;
	}
	if (kind->wants & HOIST_SCHEDULES_WRITES)
		hoist_set_wbt(q, eq, false);
	hoist_show_calls(device);
	advise(device);
	blk_add_trace_msg(q, "hoistway %s on", kind->name);
	return 0;
}

#ifdef HOIST_EQ_INIT
int hoist_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	return take_queue(q, eq);
}
#else
int hoist_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq = elevator_alloc(q, type);
	int error;

	if (!eq)
		return -ENOMEM;
	error = take_queue(q, eq);
	if (error)
		kobject_put(&eq->kobj);
	return error;
}
#endif

void hoist_exit_sched(struct elevator_queue *eq)
{
	struct hoist_device *device = eq->elevator_data;
	struct hoist_stats stats;

	hoist_hide_calls(device);
	hoist_groups_off(device);
	/* hoist_groups_off() may have started the timer again. */
	hrtimer_cancel(&device->timer);
	hoist_stats(device->core, &stats);
	pr_info("%s off: inserted %llu dispatched %llu finished %llu requeued %llu absorbed %llu queued %u in driver %llu spilled %llu faults %llu\n",
		device->kind->name, stats.inserted, stats.dispatched, stats.finished, stats.requeued, stats.absorbed,
		device->core->queued, stats.in_driver, device->overflowed, stats.faults);
	WARN_ONCE(device->core->queued || stats.in_driver || !list_empty(&device->overflow) || stats.faults,
		  "hoistway: requests were lost, or the policy counted violations\n");
	blk_add_trace_msg(device->q, "hoistway %s off", device->kind->name);
	if (device->wants & HOIST_SCHEDULES_WRITES)
		hoist_set_wbt(device->q, eq, true);
	free_device(device);
}

static void depth_changed(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_of(hctx->queue);

	/*
	 * Announces the smallest limit of tags (shallow depth) that is used; sbitmap warns if a
	 * smaller one is used later.
	 */
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
	spin_lock_irq(&device->lock);
	/* Not q->nr_requests: blk-mq updates that after this callback. */
	WRITE_ONCE(device->few_tags, hctx->sched_tags->bitmap_tags.sb.depth / 4);
	hoist_depth_changed(device->core, hctx->sched_tags->bitmap_tags.sb.depth,
			    hctx->queue->tag_set ? hctx->queue->tag_set->queue_depth : 32);
	hoist_arm_timer(device);
	spin_unlock_irq(&device->lock);
}

int hoist_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	hctx->sched_data = hoist_device_of(hctx->queue);
	depth_changed(hctx);
	return 0;
}

void hoist_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	hctx->sched_data = NULL;
}

#ifdef HOIST_DEPTH_UPDATED_Q
void hoist_depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		depth_changed(hctx);
}
#else
void hoist_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	depth_changed(hctx);
}
#endif
