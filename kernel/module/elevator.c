// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The elevator operations: blk-mq on one side, the policies (kernel/core, Rust) on the other.
 *
 * One spinlock per device, interrupts off, around every call of the core. Order of locks: q->queue_lock, blkcg->lock, ours:
 * issuers and groups are looked up before ours is taken, and requests are freed after it was given back.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/blktrace_api.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <trace/events/block.h>

#include "hoist.h"

static unsigned int slots_max = 65536;
module_param(slots_max, uint, 0444);
MODULE_PARM_DESC(slots_max, "Most requests that a policy knows at one time; others wait in a plain queue (default 65536)");

static unsigned int record;
module_param(record, uint, 0644);
MODULE_PARM_DESC(record, "Calls of the policy to write down per device, read from debugfs hoistway/DISK/calls (default 0)");

static char *version = "";
module_param(version, charp, 0644);
MODULE_PARM_DESC(version, "Behave as this kernel's elevators, as 5.1 or 2.6.36; taken at the next switch (default: newest)");

static struct hoist_kind *kinds;
static u32 kind_count;

/* ---- memory for the core: only while a device is set up or given up ---- */

void *hoist_host_alloc(size_t bytes, size_t align);
void hoist_host_free(void *memory);
void hoist_host_impossible(void);

/* kvzalloc aligns to at least 8, and to the size where that is a power of two; nothing in the core wants more than 64. */
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

/* Some versions of objtool follow calls from the core to here, some do not; behind a condition both see what they expect. */
static bool is_impossible = true;

void hoist_host_impossible(void)
{
	if (READ_ONCE(is_impossible))
		panic("hoistway: a table grew that must not\n");
}

/* ---- what policies know of bios and requests ---- */

static u16 flags_of(blk_opf_t opf)
{
	u32 bits = (__force u32)opf;
	u16 flags = 0;

	if (likely(!(bits & (__force u32)~(REQ_OP_MASK | REQ_SYNC | REQ_IDLE | REQ_ALLOC_CACHE))))
		return (bits & (__force u32)REQ_SYNC ? HOIST_SYNC : 0) | (bits & (__force u32)REQ_IDLE ? HOIST_IDLE : 0);
	if (opf & REQ_SYNC)
		flags |= HOIST_SYNC;
	if (opf & REQ_FUA)
		flags |= HOIST_FUA;
	if (opf & REQ_PREFLUSH)
		flags |= HOIST_PREFLUSH;
	if (opf & REQ_META)
		flags |= HOIST_META;
	if (opf & REQ_PRIO)
		flags |= HOIST_PRIO;
	if (opf & REQ_RAHEAD)
		flags |= HOIST_RAHEAD;
	if (opf & REQ_NOMERGE)
		flags |= HOIST_NOMERGE;
	if (opf & REQ_BACKGROUND)
		flags |= HOIST_BACKGROUND;
	if (opf & REQ_SWAP)
		flags |= HOIST_SWAP;
	if (opf & REQ_IDLE)
		flags |= HOIST_IDLE;
	if ((opf & REQ_OP_MASK) == REQ_OP_WRITE_ZEROES && (opf & REQ_NOUNMAP))
		flags |= HOIST_NO_UNMAP;
	return flags;
}

static u8 operation_of(blk_opf_t opf)
{
	switch ((__force u32)(opf & REQ_OP_MASK)) {
	case (__force u32)REQ_OP_READ:
		return 0;
	case (__force u32)REQ_OP_WRITE:
		return 1;
	case (__force u32)REQ_OP_DISCARD:
		return 2;
	case (__force u32)REQ_OP_SECURE_ERASE:
		return 3;
	case (__force u32)REQ_OP_WRITE_ZEROES:
		return 4;
	case (__force u32)REQ_OP_ZONE_APPEND:
		return 5;
	case (__force u32)REQ_OP_FLUSH:
		return 6;
	default:
		return 7;
	}
}

static void ask_of_request(struct hoist_device *device, struct request *rq, struct hoist_ask *ask)
{
	struct io_cq *icq = device->kind->wants & HOIST_WANTS_CONTEXTS ? rq->elv.icq : NULL;

	ask->sector = blk_rq_pos(rq);
	ask->sectors = blk_rq_sectors(rq);
	ask->context = icq ? container_of(icq, struct hoist_icq, icq)->id : 0;
	ask->group = hoist_group_of_bio(device, rq->bio);
	ask->flags = flags_of(rq->cmd_flags);
	ask->priority = req_get_ioprio(rq);
	ask->segments = rq->nr_phys_segments;
	ask->hardware_queue = rq->mq_hctx->queue_num;
	ask->software_queue = 0;
	ask->operation = operation_of(rq->cmd_flags);
	ask->unused = 0;
}

static void ask_of_bio(struct hoist_device *device, struct bio *bio, struct hoist_ask *ask)
{
	ask->sector = bio->bi_iter.bi_sector;
	ask->sectors = bio_sectors(bio);
	ask->context = device->bio_context;
	ask->group = device->bio_group;
	ask->flags = flags_of(bio->bi_opf);
	ask->priority = bio_prio(bio);
	ask->segments = 1;
	ask->hardware_queue = 0;
	ask->software_queue = 0;
	ask->operation = operation_of(bio->bi_opf);
	ask->unused = 0;
}

/* The core's id of a request, in the private word: 0 = it knows nothing of it. */
static u32 id_of(const struct request *rq)
{
	unsigned long word = (unsigned long)rq->elv.priv[0];

	return word ? (u32)(word - 1) : HOIST_NONE;
}

static void set_id(struct hoist_device *device, struct request *rq, u32 id)
{
	rq->elv.priv[0] = (void *)((unsigned long)id + 1);
	device->slots[HOIST_SLOT(id)] = rq;
}

static struct request *request_of(struct hoist_device *device, u32 id)
{
	u32 slot = HOIST_SLOT(id);

	return id != HOIST_NONE && slot < device->slot_count ? device->slots[slot] : NULL;
}

static u32 context_of_current(struct hoist_device *device)
{
	struct io_cq *icq = NULL;
	unsigned long flags;

	if (!(device->kind->wants & HOIST_WANTS_CONTEXTS) || !current->io_context)
		return 0;
	spin_lock_irqsave(&device->q->queue_lock, flags);
	icq = ioc_lookup_icq(device->q);
	spin_unlock_irqrestore(&device->q->queue_lock, flags);
	return icq ? container_of(icq, struct hoist_icq, icq)->id : 0;
}

/* Somebody began or ended a trace: the policies write messages only for a reader. */
static void follow_trace(struct hoist_device *device)
{
	bool is_traced = rcu_access_pointer(device->q->blk_trace);
	unsigned long flags;

	if (likely(is_traced == device->is_traced))
		return;
	spin_lock_irqsave(&device->lock, flags);
	device->is_traced = is_traced;
	hoist_trace(device->core, is_traced);
	spin_unlock_irqrestore(&device->lock, flags);
}

/* ---- after each call ---- */

/* Under the lock: the timer goes where the core wants it. One that comes too early is harmless. */
void hoist_timer_follows(struct hoist_device *device)
{
	u64 at_ns = device->core->timer_at_ns;

	if (likely(at_ns == device->armed_at_ns))
		return;
	device->armed_at_ns = at_ns;
	if (at_ns != HOIST_NEVER)
		hrtimer_start(&device->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/* Under the lock: a group that nothing holds any more. */
void hoist_bury(struct hoist_device *device)
{
	if (unlikely(device->core->dying_group))
		hoist_bury_group(device->core, hoist_now());
}

static void run_all(struct hoist_device *device)
{
	WRITE_ONCE(device->is_throttled, false);
	blk_mq_run_hw_queues(device->q, true);
}

static enum hrtimer_restart time_has_come(struct hrtimer *timer)
{
	struct hoist_device *device = container_of(timer, struct hoist_device, timer);
	unsigned long flags;
	u32 effect = 0;
	u64 now;

	spin_lock_irqsave(&device->lock, flags);
	now = hoist_now();
	device->armed_at_ns = HOIST_NEVER;
	if (device->core->timer_at_ns <= now)
		effect = hoist_timer(device->core, now);
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		run_all(device);
	return HRTIMER_NORESTART;
}

/* ---- before a request is queued ---- */

/* Policies count in requests of the whole queue; until 6.12 a shallow depth is one of each word of the tags' bitmap. */
static void limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_device *device = hoist_device_of(data->q);
	struct hoist_ask ask = {};
	u32 depth;

	/* Without issuers and groups, reads are never limited. */
	if (!(device->kind->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)) && (opf & REQ_OP_MASK) == REQ_OP_READ)
		return;
	ask.flags = flags_of(opf);
	ask.operation = operation_of(opf);
	ask.context = context_of_current(device);
	ask.group = hoist_group_of_current(device);
	spin_lock_irq(&device->lock);
	depth = hoist_admit(device->core, &ask, hoist_now());
	spin_unlock_irq(&device->lock);
	if (!depth || depth >= data->q->nr_requests)
		return;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	if (data->hctx && data->hctx->sched_tags) {
		u32 word = 1u << data->hctx->sched_tags->bitmap_tags.sb.shift;

		depth = max_t(u32, 1, depth * word / max_t(u32, 1, data->hctx->sched_tags->bitmap_tags.sb.depth));
	}
#endif
	data->shallow_depth = depth;
}

static void prepare_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	struct hoist_ask ask = {};
	u32 id;

	rq->elv.icq = NULL;
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	if (!(device->kind->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)))
		return;
	if (device->kind->wants & HOIST_WANTS_CONTEXTS)
		rq->elv.icq = ioc_find_get_icq(rq->q);
	ask.flags = flags_of(rq->cmd_flags);
	ask.operation = operation_of(rq->cmd_flags);
	ask.context = rq->elv.icq ? container_of(rq->elv.icq, struct hoist_icq, icq)->id : 0;
	ask.group = hoist_group_of_current(device);
	ask.hardware_queue = rq->mq_hctx->queue_num;
	spin_lock_irq(&device->lock);
	id = hoist_allocate(device->core, &ask, hoist_now());
	if (id != HOIST_NONE)
		set_id(device, rq, id);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
}

/* ---- merging ---- */

static bool bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 context = context_of_current(device);
	u32 group = hoist_group_of_bio(device, bio);
	struct request *gone = NULL;
	bool is_merged;

	spin_lock_irq(&device->lock);
	device->bio_context = context;
	device->bio_group = group;
	is_merged = blk_mq_sched_try_merge(q, bio, nr_segs, &gone);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
	if (gone)
		blk_mq_free_request(gone);
	return is_merged;
}

static bool allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct hoist_device *device = hoist_device_of(q);
	struct hoist_ask ask;
	u32 id = id_of(rq);

	if (!(device->kind->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)) || id == HOIST_NONE)
		return true;
	ask_of_bio(device, bio, &ask);
	return hoist_may_merge(device->core, id, &ask);
}

static int request_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct hoist_device *device = hoist_device_of(q);
	struct hoist_ask ask;
	struct request *rq;
	u32 side;

	if (device->core->search == HOIST_PIPELINE)
		return ELEVATOR_NO_MERGE;
	ask_of_bio(device, bio, &ask);
	rq = request_of(device, hoist_find_company(device->core, &ask, hoist_now(), &side));
	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	if (hoist_is_many_ranged(rq))
		return ELEVATOR_DISCARD_MERGE;
	return side == HOIST_BACK ? ELEVATOR_BACK_MERGE : ELEVATOR_FRONT_MERGE;
}

static void request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 side = type == ELEVATOR_FRONT_MERGE ? HOIST_FRONT_SIDE :
		   type == ELEVATOR_BACK_MERGE ? HOIST_BACK : HOIST_DISCARD;
	u32 id = id_of(rq);

	if (id != HOIST_NONE)
		hoist_bio_merged(device->core, id, side, blk_rq_pos(rq), blk_rq_sectors(rq), hoist_now());
}

static void forget_for_merging(struct request_queue *q, struct request *rq)
{
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
}

/* `gone` may be on its way in: then the core knows it only if it asks for requests when they are allocated. */
static void requests_merged(struct request_queue *q, struct request *rq, struct request *gone)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = id_of(rq), gone_id = id_of(gone);

	if (id != HOIST_NONE && gone_id != HOIST_NONE)
		hoist_absorbed(device->core, id, blk_rq_sectors(rq), gone_id, hoist_now());
	else if (id != HOIST_NONE)
		hoist_bio_merged(device->core, id, HOIST_BACK, blk_rq_pos(rq), blk_rq_sectors(rq), hoist_now());
	else
		list_del_init(&gone->queuelist);
	forget_for_merging(q, gone);
}

static struct request *former_request(struct request_queue *q, struct request *rq)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = id_of(rq);

	return id == HOIST_NONE ? NULL : request_of(device, hoist_neighbour(device->core, id, false));
}

static struct request *next_request(struct request_queue *q, struct request *rq)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = id_of(rq);

	return id == HOIST_NONE ? NULL : request_of(device, hoist_neighbour(device->core, id, true));
}

/* ---- a request's life ---- */

static void insert_one(struct hoist_device *device, struct request *rq, bool at_head, struct list_head *free, u64 now)
{
	struct request_queue *q = device->q;
	struct hoist_ask ask;
	u32 id;

	if (blk_mq_sched_try_insert_merge(q, rq, free))
		return;
	trace_block_rq_insert(rq);
	id = HOIST_NONE;
	if (likely(hoist_is_prepared(rq))) {
		ask_of_request(device, rq, &ask);
		id = hoist_insert(device->core, id_of(rq), &ask, at_head, now);
		hoist_bury(device);
	}
	if (unlikely(id == HOIST_NONE)) {
		if (at_head)
			list_add(&rq->queuelist, &device->spill);
		else
			list_add_tail(&rq->queuelist, &device->spill);
		device->spilled++;
		return;
	}
	set_id(device, rq, id);
	if (!at_head && device->core->search != HOIST_OWN && hoist_may_take_part_in_merging(rq)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
}

#ifdef HOIST_INSERT_FLAGS
static void insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t how)
{
	bool at_head = (__force u32)how & HOIST_INSERT_AT_HEAD;
#else
static void insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, bool at_head)
{
#endif
	struct hoist_device *device = hoist_device_of(hctx->queue);
	struct request *rq, *next;
	LIST_HEAD(free);
	u64 now;

	follow_trace(device);
	spin_lock_irq(&device->lock);
	now = hoist_now();
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		insert_one(device, rq, at_head, &free, now);
	}
	WRITE_ONCE(device->is_throttled, false);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
	list_for_each_entry_safe(rq, next, &free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	if (unlikely(device->is_traced))
		hoist_tell(device);
}

static struct request *dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_of(hctx->queue);
	struct hoist_action action;
	struct request *rq = NULL;

	spin_lock_irq(&device->lock);
	if (unlikely(!list_empty(&device->spill))) {
		rq = list_first_entry(&device->spill, struct request, queuelist);
		list_del_init(&rq->queuelist);
		goto out;
	}
	hoist_dispatch(device->core, hctx->queue_num, hoist_now(), &action);
	if (action.kind == HOIST_DISPATCH)
		rq = request_of(device, action.id);
	else if (action.kind == HOIST_WAIT_COMPLETION)
		WRITE_ONCE(device->is_throttled, true);
	hoist_timer_follows(device);
out:
	if (rq) {
		forget_for_merging(hctx->queue, rq);
		rq->rq_flags |= RQF_STARTED;
	}
	spin_unlock_irq(&device->lock);
	if (unlikely(device->is_traced))
		hoist_tell(device);
	return rq;
}

/* Without the lock: a wrong answer costs one useless or one late run, and whatever changes it runs the queue afterwards. */
static bool has_work(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_of(hctx->queue);
	unsigned long flags;
	bool has;

	if (unlikely(!list_empty_careful(&device->spill)))
		return true;
	if (!READ_ONCE(device->core->queued) || READ_ONCE(device->is_throttled))
		return false;
	if (!(device->kind->wants & HOIST_PER_QUEUE))
		return READ_ONCE(device->core->has_work);
	spin_lock_irqsave(&device->lock, flags);
	has = hoist_has_work(device->core, hctx->queue_num);
	spin_unlock_irqrestore(&device->lock, flags);
	return has;
}

static void finish_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 effect, id = id_of(rq);
	unsigned long flags;

	if (id != HOIST_NONE) {
		spin_lock_irqsave(&device->lock, flags);
		effect = hoist_finish(device->core, id, hoist_now());
		hoist_bury(device);
		device->slots[HOIST_SLOT(id)] = NULL;
		rq->elv.priv[0] = NULL;
		hoist_timer_follows(device);
		if (effect & HOIST_RUN_QUEUE)
			WRITE_ONCE(device->is_throttled, false);
		spin_unlock_irqrestore(&device->lock, flags);
		if (effect & HOIST_RUN_QUEUE) {
			/* blk-mq looks at the mark when it frees the request, right after this. */
			if (device->kind->wants & HOIST_PER_QUEUE)
				blk_mq_run_hw_queues(device->q, true);
			else
				blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
		}
	}
	if (rq->elv.icq) {
		put_io_context(rq->elv.icq->ioc);
		rq->elv.icq = NULL;
	}
}

/* It keeps its id: it comes again by insert, or goes to the driver without, and ends in finish either way. */
static void requeue_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 effect = 0, id = id_of(rq);
	unsigned long flags;

	if (id == HOIST_NONE)
		return;
	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_requeue(device->core, id, hoist_now());
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		run_all(device);
}

/* ---- issuers ---- */

static void init_icq(struct io_cq *icq)
{
	struct hoist_device *device = hoist_device_of(icq->q);
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	container_of(icq, struct hoist_icq, icq)->id = hoist_context_added(device->core);
	spin_unlock_irqrestore(&device->lock, flags);
}

static void exit_icq(struct io_cq *icq)
{
	struct hoist_device *device = hoist_device_of(icq->q);
	unsigned long flags;
	u32 effect;

	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_context_exited(device->core, container_of(icq, struct hoist_icq, icq)->id, hoist_now());
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		run_all(device);
}

/* ---- a device comes and goes ---- */

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
		.groups = kind->wants & HOIST_WANTS_GROUPS ? HOIST_GROUPS : 1,
		.contexts = kind->wants & HOIST_WANTS_CONTEXTS ? HOIST_CONTEXTS : 1,
		.requests = q->nr_requests,
		.device = q->tag_set ? q->tag_set->queue_depth : 32,
		.max_sectors = queue_max_sectors(q),
		.hardware_queues = q->nr_hw_queues,
		.software_queues = 1,
		.capacity_sectors = q->disk ? get_capacity(q->disk) : 0,
		.seed = 1,
		.rotational = !blk_queue_nonrot(q),
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
	device->slot_count = config->slots;
	device->armed_at_ns = HOIST_NEVER;
	spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->spill);
	hrtimer_init(&device->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	device->timer.function = time_has_come;
	/* The queue is frozen: memory must not be made by writing to it. */
	noio = memalloc_noio_save();
	device->slots = kvcalloc(config->slots, sizeof(*device->slots), GFP_KERNEL);
	device->core = device->slots ? hoist_new(config, &why) : NULL;
	if (device->core && record) {
		device->record_room = min_t(u32, record, 1 << 24);
		device->records = vmalloc(array_size(device->record_room, sizeof(*device->records)));
		if (device->records)
			hoist_record(device->core, device->records, device->record_room);
		else
			pr_warn("%s: no memory to write down %u calls\n", kind->name, record);
	}
	memalloc_noio_restore(noio);
	if (!device->core) {
		if (why == 2) {
			*error = -EINVAL;
			pr_warn("%s has no form as old as version=%s\n", kind->name, version);
		} else {
			pr_warn("%s: no memory for tables of %u requests\n", kind->name, config->slots);
		}
		free_device(device);
		return NULL;
	}
	return device;
}

static int take_queue(struct request_queue *q, struct elevator_queue *eq)
{
	const struct hoist_kind *kind = container_of(eq->type, struct hoist_kind, type);
	struct hoist_device *device;
	int error;

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
		pr_warn("%s: no group policy for this device: error %d\n", kind->name, -error);
		q->elevator = NULL;
		eq->elevator_data = NULL;
		free_device(device);
		return error;
	}
	hoist_show_calls(device);
	blk_add_trace_msg(q, "hoistway %s on", kind->name);
	return 0;
}

#ifdef HOIST_EQ_INIT
static int init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	return take_queue(q, eq);
}
#else
static int init_sched(struct request_queue *q, struct elevator_type *type)
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

static void exit_sched(struct elevator_queue *eq)
{
	struct hoist_device *device = eq->elevator_data;
	struct hoist_stats stats;

	hrtimer_cancel(&device->timer);
	hoist_hide_calls(device);
	hoist_groups_off(device);
	hoist_stats(device->core, &stats);
	pr_info("%s off: inserted %llu dispatched %llu finished %llu requeued %llu absorbed %llu queued %u in driver %u spilled %llu faults %llu\n",
		device->kind->name, stats.inserted, stats.dispatched, stats.finished, stats.requeued, stats.absorbed,
		device->core->queued, device->core->in_driver, device->spilled, stats.faults);
	WARN_ONCE(device->core->queued || device->core->in_driver || !list_empty(&device->spill) || stats.faults,
		  "hoistway: requests were lost, or the policy met what cannot be\n");
	blk_add_trace_msg(device->q, "hoistway %s off", device->kind->name);
	free_device(device);
}

static void depth_changed(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_of(hctx->queue);

	/* Any later shallow depth is at least this; without it sbitmap warns. */
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
	spin_lock_irq(&device->lock);
	/* Not q->nr_requests: blk-mq writes that after it told us. */
	hoist_depth_changed(device->core, hctx->sched_tags->bitmap_tags.sb.depth,
			    hctx->queue->tag_set ? hctx->queue->tag_set->queue_depth : 32);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
}

static int init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	depth_changed(hctx);
	return 0;
}

#ifdef HOIST_DEPTH_UPDATED_Q
static void depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		depth_changed(hctx);
}
#else
static void depth_updated(struct blk_mq_hw_ctx *hctx)
{
	depth_changed(hctx);
}
#endif

/* ---- the module ---- */

static const struct elevator_mq_ops operations = {
	.init_sched = init_sched,
	.exit_sched = exit_sched,
	.init_hctx = init_hctx,
	.depth_updated = depth_updated,
	.limit_depth = limit_depth,
	.prepare_request = prepare_request,
	.bio_merge = bio_merge,
	.allow_merge = allow_merge,
	.request_merge = request_merge,
	.request_merged = request_merged,
	.requests_merged = requests_merged,
	.former_request = former_request,
	.next_request = next_request,
	.insert_requests = insert_requests,
	.dispatch_request = dispatch_request,
	.has_work = has_work,
	.finish_request = finish_request,
	.requeue_request = requeue_request,
	.init_icq = init_icq,
	.exit_icq = exit_icq,
};

static int offer_kind(struct hoist_kind *kind, u32 index)
{
	struct hoist_line prefix, name;
	int error;

	if (!hoist_offer(index, &prefix, &name, &kind->wants))
		return -EINVAL;
	kind->policy = index;
	snprintf(kind->name, sizeof(kind->name), "%.*s%.*s", (int)prefix.bytes, prefix.text, (int)name.bytes, name.text);
	kind->type.ops = operations;
	if (kind->wants & HOIST_WANTS_CONTEXTS) {
		kind->type.icq_size = sizeof(struct hoist_icq);
		kind->type.icq_align = __alignof__(struct hoist_icq);
	} else {
		kind->type.ops.init_icq = NULL;
		kind->type.ops.exit_icq = NULL;
	}
	/* Where neither issuers nor groups count, anybody may join anybody. */
	if (!(kind->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)))
		kind->type.ops.allow_merge = NULL;
	kind->type.elevator_name = kind->name;
	kind->type.elevator_owner = THIS_MODULE;
	error = hoist_files_of(kind);
	if (error)
		return error;
	kind->type.elevator_attrs = kind->files;
	error = elv_register(&kind->type);
	if (error)
		pr_err("%s: elv_register says %d (is the name taken?)\n", kind->name, error);
	else
		kind->is_registered = true;
	return error;
}

static void withdraw(void)
{
	u32 i;

	for (i = 0; i < kind_count; i++) {
		if (kinds[i].is_registered)
			elv_unregister(&kinds[i].type);
		hoist_no_files_of(&kinds[i]);
	}
	kfree(kinds);
	kinds = NULL;
}

static int __init hoistway_init(void)
{
	int error;
	u32 i;

	if (hoist_core_abi() != HOIST_ABI) {
		pr_err("glue and core are of different builds (%u, %u): build the module anew\n", HOIST_ABI, hoist_core_abi());
		return -EINVAL;
	}
	kind_count = hoist_offers();
	kinds = kcalloc(kind_count, sizeof(*kinds), GFP_KERNEL);
	if (!kinds)
		return -ENOMEM;
	error = hoist_groups_init();
	if (error) {
		pr_err("no slot for a group policy (error %d): the kernel has six, and all are taken\n", -error);
		kfree(kinds);
		return error;
	}
	hoist_debugfs_init();
	for (i = 0; !error && i < kind_count; i++)
		error = offer_kind(&kinds[i], i);
	if (error) {
		withdraw();
		hoist_debugfs_exit();
		hoist_groups_exit();
	}
	return error;
}

static void __exit hoistway_exit(void)
{
	withdraw();
	hoist_debugfs_exit();
	hoist_groups_exit();
	/* Freed icqs and group data wait for RCU. */
	rcu_barrier();
}

module_init(hoistway_init);
module_exit(hoistway_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_AUTHOR("The Hoistway authors");
MODULE_DESCRIPTION("Block I/O schedulers of Hoistway");
#include "hoist_aliases.h"
