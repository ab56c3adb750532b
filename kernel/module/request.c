// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A request's life: from its tag to its end. What is done for every request is here, and is counted by kernel/boot/run cost. */
#include <linux/blktrace_api.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include <trace/events/block.h>

#include "ask.h"

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

/* ---- before a request is queued ---- */

/* Policies limit reads to keep shares: while three quarters of the tags are free, nobody lacks one. */
static bool is_unlimited(struct hoist_device *device, blk_opf_t opf)
{
	if ((opf & REQ_OP_MASK) != REQ_OP_READ)
		return !(device->wants & HOIST_LIMITS_WRITES);
	return !(device->wants & HOIST_LIMITS_READS) || atomic_read(&device->tags_held) < device->q->nr_requests / 4;
}

/* Policies count in requests of the whole queue; until 6.12 a shallow depth is one of each word of the tags' bitmap. */
void hoist_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_device *device = hoist_device_of(data->q);
	struct hoist_ask ask = {};
	u32 depth;

	if (likely(is_unlimited(device, opf)))
		return;
	ask.flags = hoist_flags_of(opf);
	ask.operation = hoist_operation_of(opf);
	ask.context = hoist_issuer_now(device);
	ask.group = hoist_group_of_current(device);
	spin_lock_irq(&device->lock);
	depth = hoist_admit(device->core, &ask, hoist_now(device));
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

/* The group holds a tag from now on. The root's are not counted by any policy: its requests are met when they are inserted. */
static void charge_group(struct hoist_device *device, struct request *rq)
{
	struct hoist_ask ask = {};
	u32 id;

	ask.group = hoist_group_of_current(device);
	if (!ask.group)
		return;
	ask.flags = hoist_flags_of(rq->cmd_flags);
	ask.operation = hoist_operation_of(rq->cmd_flags);
	ask.context = hoist_issuer_of(rq);
	ask.hardware_queue = rq->mq_hctx->queue_num;
	spin_lock_irq(&device->lock);
	id = hoist_allocate(device->core, &ask, hoist_now(device));
	if (id != HOIST_NONE)
		hoist_set_id(device, rq, id);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
}

/* The issuer's id is enough, so that no reference to its entry has to be kept: the core holds the id for the request. */
static u32 issuer_met(struct hoist_device *device)
{
	u32 id = hoist_issuer_now(device);
	struct io_cq *icq;

	if (likely(id))
		return id;
	icq = ioc_find_get_icq(device->q);
	if (!icq)
		return 0;
	id = container_of(icq, struct hoist_icq, icq)->id;
	put_io_context(icq->ioc);
	return id;
}

void hoist_prepare_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 wants = device->wants;

	rq->elv.icq = NULL;
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	if (wants & HOIST_WANTS_CONTEXTS)
		rq->elv.priv[1] = (void *)(unsigned long)issuer_met(device);
	if (wants & HOIST_LIMITS_READS)
		atomic_inc(&device->tags_held);
	if (wants & HOIST_CHARGES_GROUPS)
		charge_group(device, rq);
}

/* ---- in and out ---- */

/* What the core takes no part in: it has no slot, or blk-mq will not tell of the request's end. */
static void spill(struct hoist_device *device, struct request *rq, bool at_head)
{
	if (at_head)
		list_add(&rq->queuelist, &device->spill);
	else
		list_add_tail(&rq->queuelist, &device->spill);
	device->spilled++;
}

static void insert_one(struct hoist_device *device, struct request *rq, bool at_head, struct list_head *free, u64 now)
{
	struct request_queue *q = device->q;
	bool may_merge = hoist_may_take_part_in_merging(rq);
	struct hoist_ask ask;
	u32 id;

	if (may_merge && device->core->queued && blk_mq_sched_try_insert_merge(q, rq, free))
		return;
	trace_block_rq_insert(rq);
	if (unlikely(!hoist_is_prepared(rq))) {
		spill(device, rq, at_head);
		return;
	}
	hoist_ask_of_request(device, rq, &ask);
	id = hoist_insert(device->core, hoist_id_of(rq), &ask, at_head, now);
	hoist_bury(device);
	if (unlikely(id == HOIST_NONE)) {
		spill(device, rq, at_head);
		return;
	}
	hoist_set_id(device, rq, id);
	/* The hash finds it; q->last_merge, which blk-mq tries first, is set by blk-mq once a bio has joined. */
	if (may_merge && !at_head && device->core->search != HOIST_OWN)
		elv_rqhash_add(q, rq);
}

#ifdef HOIST_INSERT_FLAGS
void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t how)
{
	bool at_head = (__force u32)how & HOIST_INSERT_AT_HEAD;
#else
void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, bool at_head)
{
#endif
	struct hoist_device *device = hoist_device_of(hctx->queue);
	struct request *rq, *next;
	LIST_HEAD(free);
	u64 now;

	follow_trace(device);
	spin_lock_irq(&device->lock);
	now = hoist_now(device);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		insert_one(device, rq, at_head, &free, now);
	}
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
	list_for_each_entry_safe(rq, next, &free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	if (unlikely(device->is_traced))
		hoist_tell(device);
}

static struct request *next_spilled(struct hoist_device *device)
{
	struct request *rq = list_first_entry(&device->spill, struct request, queuelist);

	list_del_init(&rq->queuelist);
	return rq;
}

struct request *hoist_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct request_queue *q = hctx->queue;
	struct hoist_device *device = hoist_device_of(q);
	struct hoist_action action;
	struct request *rq = NULL;

	spin_lock_irq(&device->lock);
	if (unlikely(!list_empty(&device->spill))) {
		rq = next_spilled(device);
	} else {
		action = hoist_dispatch(device->core, hctx->queue_num, hoist_now(device));
		if (likely(action.kind == HOIST_DISPATCH))
			rq = hoist_request_of(device, action.id);
		hoist_timer_follows(device);
	}
	if (likely(rq)) {
		if (rq->rq_flags & RQF_HASHED || q->last_merge == rq)
			hoist_forget_for_merging(q, rq);
		rq->rq_flags |= RQF_STARTED;
	}
	spin_unlock_irq(&device->lock);
	if (unlikely(device->is_traced))
		hoist_tell(device);
	return rq;
}

/* Each hardware queue has queues of its own in the policy. */
static bool has_work_of_its_own(struct hoist_device *device, u16 queue)
{
	unsigned long flags;
	bool has;

	if (!READ_ONCE(device->core->queued) || READ_ONCE(device->core->throttled))
		return false;
	spin_lock_irqsave(&device->lock, flags);
	has = hoist_has_work(device->core, queue);
	spin_unlock_irqrestore(&device->lock, flags);
	return has;
}

/* Without the lock: a wrong answer costs one useless or one late run, and whatever changes it runs the queue afterwards. */
bool hoist_has_work_for(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_of(hctx->queue);

	if (unlikely(!list_empty_careful(&device->spill)))
		return true;
	if (unlikely(device->wants & HOIST_PER_QUEUE))
		return has_work_of_its_own(device, hctx->queue_num);
	return READ_ONCE(device->core->has_work);
}

/* The request ends, at a time that is known. */
static void end_request(struct hoist_device *device, struct request *rq, u64 now)
{
	u32 effect, id = hoist_id_of(rq);
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_finish(device->core, id, hoist_at(device, now));
	hoist_bury(device);
	device->slots[HOIST_SLOT(id)] = NULL;
	rq->elv.priv[0] = NULL;
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (!(effect & HOIST_RUN_QUEUE))
		return;
	/* blk-mq looks at the mark when it frees the request, right after this. */
	if (device->wants & HOIST_PER_QUEUE)
		hoist_run_all(device);
	else
		blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
}

/* Before finish_request, with the time that blk-mq has read already. */
void hoist_completed_request(struct request *rq, u64 now)
{
	if (likely(hoist_is_prepared(rq) && rq->elv.priv[0]))
		end_request(hoist_device_of(rq->q), rq, now);
}

void hoist_finish_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);

	/* It was never completed: merged into another, or never sent. */
	if (unlikely(rq->elv.priv[0]))
		end_request(device, rq, ktime_get_ns());
	if (device->wants & HOIST_LIMITS_READS)
		atomic_dec(&device->tags_held);
}

/* It keeps its id: it comes again by insert, or goes to the driver without, and ends in finish either way. */
void hoist_requeue_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 effect, id = hoist_id_of(rq);
	unsigned long flags;

	if (id == HOIST_NONE)
		return;
	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_requeue(device->core, id, hoist_now(device));
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
}

enum hrtimer_restart hoist_time_has_come(struct hrtimer *timer)
{
	struct hoist_device *device = container_of(timer, struct hoist_device, timer);
	unsigned long flags;
	u32 effect = 0;
	u64 now;

	spin_lock_irqsave(&device->lock, flags);
	now = hoist_now(device);
	device->armed_at_ns = HOIST_NEVER;
	if (device->core->timer_at_ns <= now)
		effect = hoist_timer(device->core, now);
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
	return HRTIMER_NORESTART;
}
