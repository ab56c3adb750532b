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

/*
 * Asks the policy. Policies count in requests of the whole queue; until 6.12 a shallow depth is one of each word of the tags'
 * bitmap.
 */
static noinline void ask_depth(struct hoist_device *device, blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_ask ask = {
		.flags = hoist_flags_of(opf), .operation = hoist_operation_of(opf),
		.context = hoist_issuer_now(device), .group = hoist_group_of_current(device),
	};
	u32 depth;

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

/* For policies that limit writes alone. */
void hoist_limit_writes(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if ((opf & REQ_OP_MASK) != REQ_OP_READ)
		ask_depth(hoist_device_of(data->q), opf, data);
}

/* Policies limit reads to keep shares: while three quarters of the tags are free, nobody lacks one. */
void hoist_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_device *device = hoist_device_of(data->q);

	if ((opf & REQ_OP_MASK) != REQ_OP_READ || atomic_read(&device->tags_held) >= data->q->nr_requests / 4)
		ask_depth(device, opf, data);
}

/* The group holds a tag from now on. The root's are not counted by any policy: its requests are met when they are inserted. */
static noinline void charge_group(struct hoist_device *device, struct request *rq, u32 group)
{
	struct hoist_ask ask = {
		.context = hoist_issuer_of(rq), .group = group, .flags = hoist_flags_of(rq->cmd_flags),
		.hardware_queue = rq->mq_hctx->queue_num, .operation = hoist_operation_of(rq->cmd_flags),
	};
	u32 id;

	spin_lock_irq(&device->lock);
	id = hoist_allocate(device->core, &ask, hoist_now(device));
	if (id != HOIST_NONE)
		hoist_set_id(device, rq, id);
	hoist_timer_follows(device);
	spin_unlock_irq(&device->lock);
}

static noinline u32 meet_issuer(struct hoist_device *device)
{
	struct io_cq *icq = ioc_find_get_icq(device->q);
	u32 id;

	if (!icq)
		return 0;
	id = container_of(icq, struct hoist_icq, icq)->id;
	put_io_context(icq->ioc);
	return id;
}

/* For policies that know neither issuers nor groups. Without this operation blk-mq would not tell of a request's end. */
void hoist_prepare_plain(struct request *rq)
{
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
}

/* The issuer's id is enough, so that no reference to its entry has to be kept: the core holds the id for the request. */
void hoist_prepare_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 id = hoist_issuer_now(device), wants = device->wants, group;

	if (unlikely(!id && wants & HOIST_WANTS_CONTEXTS))
		id = meet_issuer(device);
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = (void *)(unsigned long)id;
	if (wants & HOIST_LIMITS_READS)
		atomic_inc(&device->tags_held);
	if (wants & HOIST_CHARGES_GROUPS) {
		group = hoist_group_of_current(device);
		if (group)
			charge_group(device, rq, group);
	}
}

/* ---- in and out ---- */

/* What the core takes no part in: it has no slot, or blk-mq will not tell of the request's end. */
static void spill(struct hoist_device *device, struct request *rq, bool at_head)
{
	if (at_head)
		list_add(&rq->queuelist, &device->spill);
	else
		list_add_tail(&rq->queuelist, &device->spill);
	device->has_spilled = true;
	device->spilled++;
}

static noinline void attend_insert(struct hoist_device *device, struct request *rq, u64 now, u32 id)
{
	struct hoist_ask ask;

	if (device->records) {
		ask = hoist_ask_of_request(device, rq);
		hoist_note_insert(device->core, HOIST_NONE, &ask, 0, now, id);
	}
	hoist_attend(device);
}

/* One that was charged, that goes before all others, or that the driver gave back; and all of a policy that searches by itself. */
static noinline u32 tell_at_length(struct hoist_device *device, struct request *rq, bool at_head, u64 now)
{
	struct hoist_ask ask = hoist_ask_of_request(device, rq);
	u32 known = hoist_id_of(rq);
	u32 id = hoist_insert(device->core, known, &ask, at_head, now);

	if (unlikely(device->records))
		hoist_note_insert(device->core, known, &ask, at_head, now, id);
	hoist_attend(device);
	return id;
}

/* The core's id of the request, none if it has no slot for it. */
static inline u32 tell_of(struct hoist_device *device, struct hoist_core *core, struct request *rq, bool is_plain, bool at_head,
			  bool is_sorted, u64 now, struct hoist_attributes *attributes)
{
	u32 id;

	if (unlikely(!is_sorted || rq->elv.priv[0]))
		return tell_at_length(device, rq, at_head, now);
	hoist_describe(device, rq, is_plain, attributes);
	id = core->entries->insert(core, attributes, now);
	if (unlikely(core->attention))
		attend_insert(device, rq, now, id);
	return id;
}

static noinline bool has_found_company(struct hoist_device *device, struct request *rq, struct list_head *free)
{
	INIT_LIST_HEAD(&rq->queuelist);
	return blk_mq_sched_try_insert_merge(device->q, rq, free);
}

/* `is_sorted`: the policy chooses the place, not whoever inserts it. */
static inline void insert_one(struct hoist_device *device, struct hoist_core *core, struct request_queue *q, struct request *rq,
			      bool at_head, bool is_sorted, struct list_head *free, u64 now, struct hoist_attributes *attributes)
{
	bool is_plain = hoist_is_plain(rq), may_merge = hoist_may_take_part_in_merging(rq, is_plain);
	u32 id;

	if (may_merge && core->queued && hoist_may_find_company(q, rq) && has_found_company(device, rq, free))
		return;
	trace_block_rq_insert(rq);
	if (unlikely(!hoist_is_prepared(rq))) {
		spill(device, rq, at_head);
		return;
	}
	id = tell_of(device, core, rq, is_plain, at_head, is_sorted, now, attributes);
	if (unlikely(id == HOIST_NONE)) {
		spill(device, rq, at_head);
		return;
	}
	hoist_set_id(device, rq, id);
	/* The hash finds it; q->last_merge, which blk-mq tries first, is set by blk-mq once a bio has joined. */
	if (may_merge && is_sorted)
		hoist_keep_for_merging(q, rq);
}

#ifdef HOIST_INSERT_FLAGS
void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t how)
{
	bool at_head = (__force u32)how & HOIST_INSERT_AT_HEAD;
#else
void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, bool at_head)
{
#endif
	struct request_queue *q = hctx->queue;
	struct hoist_device *device = hoist_device_at(hctx);
	struct hoist_core *core = device->core;
	struct request *rq, *next;
	/* Outside of the loop: many kernels fill what is not, and some of it is the same for all: they are for one hardware queue. */
	struct hoist_attributes attributes = { .hardware_queue = hctx->queue_num };
	bool is_sorted = !at_head && core->search != HOIST_OWN;
	LIST_HEAD(free);
	u64 now;

	follow_trace(device);
	spin_lock_irq(&device->lock);
	now = hoist_now(device);
	/* All leave the list, so that it is made empty once, and none is on a list of ours: what its links say means nothing. */
	list_for_each_entry_safe(rq, next, list, queuelist)
		insert_one(device, core, q, rq, at_head, is_sorted, &free, now, &attributes);
	INIT_LIST_HEAD(list);
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
	device->has_spilled = !list_empty(&device->spill);
	hoist_forget_for_merging(device->q, rq);
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

static noinline void attend_dispatch(struct hoist_device *device, u16 queue, u64 now, struct hoist_action action)
{
	if (device->records)
		hoist_note_dispatch(device->core, queue, now, action);
	hoist_attend(device);
}

static noinline struct request *no_such_slot(void)
{
	WARN_ON_ONCE(1);
	return NULL;
}

/* The policy's choice. */
static inline struct request *choose(struct hoist_device *device, u16 queue)
{
	u64 now = hoist_now_of_choice(device);
	struct hoist_core *core = device->core;
	struct hoist_action action = core->entries->dispatch(core, queue, now);
	struct request *rq;

	if (unlikely(core->attention))
		attend_dispatch(device, queue, now, action);
	if (action.kind != HOIST_DISPATCH)
		return NULL;
	if (unlikely(HOIST_SLOT(action.id) >= device->slot_count))
		return no_such_slot();
	rq = device->slots[HOIST_SLOT(action.id)];
	hoist_forget_for_merging(device->q, rq);
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

struct request *hoist_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_at(hctx);
	struct request *rq;

	spin_lock_irq(&device->lock);
	rq = likely(!device->has_spilled) ? choose(device, hctx->queue_num) : next_spilled(device);
	spin_unlock_irq(&device->lock);
	if (unlikely(device->is_traced))
		hoist_tell(device);
	return rq;
}

/* Without the lock: a wrong answer costs one useless or one late run, and whatever changes it runs the queue afterwards. */
bool hoist_has_work_for(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_at(hctx);

	return likely(READ_ONCE(device->core->has_work)) || READ_ONCE(device->has_spilled);
}

/* For policies that have queues of their own for each hardware queue. */
bool hoist_has_work_of_its_own(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_at(hctx);
	unsigned long flags;
	bool has;

	if (unlikely(READ_ONCE(device->has_spilled)))
		return true;
	if (!READ_ONCE(device->core->queued) || READ_ONCE(device->core->throttled))
		return false;
	spin_lock_irqsave(&device->lock, flags);
	has = hoist_has_work(device->core, hctx->queue_num);
	spin_unlock_irqrestore(&device->lock, flags);
	return has;
}

static noinline void attend_finish(struct hoist_device *device, u32 id, u32 effect)
{
	/* Nobody has read a later time since. */
	if (device->records)
		hoist_note_finish(device->core, id, device->now_ns, effect);
	hoist_attend(device);
}

/* The request ends, at a time that is known. */
static inline void end_request(struct hoist_device *device, struct request *rq, u64 now)
{
	u32 effect, id = hoist_id_of(rq);
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	effect = device->core->entries->finish(device->core, id, hoist_at(device, now));
	rq->elv.priv[0] = NULL;
	if (unlikely(device->core->attention))
		attend_finish(device, id, effect);
	spin_unlock_irqrestore(&device->lock, flags);
	if (likely(!(effect & HOIST_RUN_QUEUE)))
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
	if (likely(hoist_is_prepared_if_completed(rq) && rq->elv.priv[0]))
		end_request(hoist_device_at(rq->mq_hctx), rq, now);
}

/* It was never completed: merged into another, or never sent. */
static noinline void end_uncompleted(struct request *rq)
{
	end_request(hoist_device_of(rq->q), rq, ktime_get_ns());
}

void hoist_finish_plain(struct request *rq)
{
	if (unlikely(rq->elv.priv[0]))
		end_uncompleted(rq);
}

/* For policies that limit reads. */
void hoist_finish_counted(struct request *rq)
{
	hoist_finish_plain(rq);
	atomic_dec(&hoist_device_of(rq->q)->tags_held);
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
	device->core->armed_at_ns = HOIST_NEVER;
	if (device->core->timer_at_ns <= now)
		effect = hoist_timer(device->core, now);
	hoist_timer_follows(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
	return HRTIMER_NORESTART;
}
