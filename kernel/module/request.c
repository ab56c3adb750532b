// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The life of a request, from its tag to its end. The core is the Rust part of the module
 * (kernel/core). Most of the module's cost per request arises here; `kernel/boot/run cost` measures
 * it.
 */
#include <linux/blktrace_api.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include <trace/events/block.h>

#include "ask.h"

/*
 * Checks whether a trace was started or stopped: the policies write messages only while there is a
 * reader.
 */
static void update_trace(struct hoist_device *device)
{
	bool is_traced = rcu_access_pointer(device->q->blk_trace);
	unsigned long flags;

	if (likely(is_traced == !!(device->unusual & HOIST_TRACED)))
		return;
	spin_lock_irqsave(&device->lock, flags);
	hoist_set_condition(device, HOIST_TRACED, is_traced);
	hoist_trace(device->core, is_traced);
	spin_unlock_irqrestore(&device->lock, flags);
}

/* ---- before a request is queued ---- */

/*
 * Asks the policy how many tags a request may use. Policies mean a number of tags of the whole
 * queue. Until Linux 6.18 the shallow depth applies to each word of the tags' bitmap, so it is
 * converted. The change to the whole bitmap was backported to 6.12.95
 * (docs/specifications/kernel-host.md, section 16).
 */
static noinline void ask_depth(struct hoist_device *device, blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_ask ask = {
		.flags = hoist_flags_of(opf), .operation = hoist_operation_of(opf),
		.context = hoist_issuer_if_wanted(device), .group = hoist_group_of_current(device),
	};
	u32 depth;

	spin_lock_irq(&device->lock);
	depth = hoist_admit(device->core, &ask, hoist_now(device));
	spin_unlock_irq(&device->lock);
	if (!depth || depth >= data->q->nr_requests)
		return;
	data->shallow_depth = hoist_shallow_depth(data, depth);
}

/* For policies that limit writes only. */
void hoist_limit_writes(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if ((opf & REQ_OP_MASK) != REQ_OP_READ)
		ask_depth(hoist_device_of(data->q), opf, data);
}

/*
 * For policies that limit reads as well. They do so to keep shares; while three quarters of the
 * tags are free, no group lacks tags, so that the policy need not be asked about reads.
 */
void hoist_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hoist_device *device = hoist_device_of(data->q);

	if ((opf & REQ_OP_MASK) != REQ_OP_READ || (u32)atomic_read(&device->tags_held) >= READ_ONCE(device->few_tags))
		ask_depth(device, opf, data);
}

/*
 * Informs the policy that a group holds one more tag. This is not done for the root, whose tags no
 * policy counts; the core learns of the root's requests when they are inserted.
 */
static noinline void charge_group(struct hoist_device *device, struct request *rq, u32 group)
{
	struct hoist_ask ask = {
		.context = hoist_issuer_of(device, rq), .group = group, .flags = hoist_flags_of(rq->cmd_flags),
		.hardware_queue = rq->mq_hctx->queue_num, .operation = hoist_operation_of(rq->cmd_flags),
	};
	u32 id;

	spin_lock_irq(&device->lock);
	id = hoist_allocate(device->core, &ask, hoist_now(device));
	if (id != HOIST_NONE)
		hoist_set_id(device, rq, id);
	hoist_arm_timer(device);
	spin_unlock_irq(&device->lock);
}

static u32 create_issuer(struct hoist_device *device)
{
	struct io_cq *icq = ioc_find_get_icq(device->q);
	u32 id;

	if (!icq)
		return 0;
	id = container_of(icq, struct hoist_icq, icq)->id;
	put_io_context(icq->ioc);
	return id;
}

/*
 * For policies that use neither issuers nor groups. Without this operation blk-mq would not notify
 * us of a request's end.
 */
void hoist_prepare_plain(struct request *rq)
{
	rq->elv.priv[0] = NULL;
}

/*
 * Stores the issuer's id in the request. A reference to the issuer's icq is not needed, because the
 * core keeps the id in use while the request exists.
 */
static inline void note_issuer(struct request *rq, u32 id)
{
	rq->elv.priv[1] = (void *)(unsigned long)id;
}

/* For policies that use issuers or groups, and do not limit reads. */
void hoist_prepare_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 id = hoist_issuer_if_wanted(device);

	rq->elv.priv[0] = NULL;
	if (unlikely(!id && device->wants & HOIST_WANTS_CONTEXTS))
		id = create_issuer(device);
	note_issuer(rq, id);
}

/*
 * The part of hoist_prepare_counted for an issuer that the hint of the I/O context does not give,
 * or while there are groups.
 */
static noinline void prepare_counted(struct request *rq, struct hoist_device *device, u32 id)
{
	u32 group;

	if (!id)
		id = hoist_issuer_searched(device);
	if (!id)
		id = create_issuer(device);
	note_issuer(rq, id);
	if (device->wants & HOIST_CHARGES_GROUPS) {
		group = hoist_group_of_current(device);
		if (group)
			charge_group(device, rq, group);
	}
}

/* For policies that limit reads, all of which use issuers. */
void hoist_prepare_counted(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 id = hoist_issuer_hinted(device);

	rq->elv.priv[0] = HOIST_COUNTED;
	atomic_inc(&device->tags_held);
	if (unlikely(!id || READ_ONCE(device->group_count)))
		prepare_counted(rq, device, id);
	else
		note_issuer(rq, id);
}

/* ---- insertion and dispatch ---- */

/*
 * Queues a request that the core does not take: it has no slot, or blk-mq will not notify us of the
 * request's end.
 */
static void overflow(struct hoist_device *device, struct request *rq, bool at_head)
{
	if (at_head)
		list_add(&rq->queuelist, &device->overflow);
	else
		list_add_tail(&rq->queuelist, &device->overflow);
	hoist_set_condition(device, HOIST_OVERFLOWED, true);
	device->overflowed++;
}

static noinline bool try_merge(struct hoist_device *device, struct request *rq, struct list_head *free)
{
	INIT_LIST_HEAD(&rq->queuelist);
	return blk_mq_sched_try_insert_merge(device->q, rq, free);
}

/*
 * Called if the core has set `attention` or has returned no id. Returns the id in the core's
 * answer.
 */
static noinline u32 attend_slow(struct hoist_device *device, u64 answer)
{
	hoist_attend(device);
	return answer;
}

/* Inserts a new request that the policy sorts. Returns whether the core has a slot for it. */
static __always_inline bool insert_new(struct hoist_device *device, struct hoist_core *core, struct request *rq,
				    const struct hoist_attributes *attributes, u64 now)
{
	s64 answer = core->entries->insert(core, attributes, now);

	if (unlikely(answer < 0)) {
		answer = attend_slow(device, answer);
		if (answer == HOIST_NONE)
			return false;
	}
	hoist_set_id(device, rq, answer);
	return true;
}

/*
 * Inserts a request whose tag was charged to its group, that must precede all others, or that was
 * requeued; and any request of a policy that searches merge candidates by itself.
 */
static bool insert_other(struct hoist_device *device, struct request *rq, bool at_head, u64 now)
{
	struct hoist_ask ask = hoist_ask_of_request(device, rq);
	u32 id = hoist_insert(device->core, hoist_id_of(rq), &ask, at_head, now);

	hoist_attend(device);
	if (id != HOIST_NONE)
		hoist_set_id(device, rq, id);
	return id != HOIST_NONE;
}

/*
 * What all requests that are inserted together share, such as the time and the hardware queue;
 * computed once for the list.
 */
struct insert_ctx {
	u64 now;
	bool at_head;
	/* The policy chooses the position, not the caller. */
	bool is_sorted;
	/* There are groups besides the root. */
	bool has_groups;
	struct list_head free;
	struct hoist_attributes attributes;
};

static inline void set_owners(struct request *rq, struct insert_ctx *insert_ctx)
{
	insert_ctx->attributes.context = (u32)(unsigned long)rq->elv.priv[1];
	if (unlikely(insert_ctx->has_groups))
		insert_ctx->attributes.group = rq->bio ? hoist_group_of_blkg(rq->bio->bi_blkg) : 0;
}

/*
 * Inserts a request for which hoist_is_plain_new() is false, or that the policy does not sort: it
 * is inserted at the head, or the policy searches merge candidates by itself.
 */
static noinline void insert_unusual(struct hoist_device *device, struct request *rq, struct insert_ctx *insert_ctx)
{
	bool may_merge = hoist_is_mergeable(rq), is_known;

	if (may_merge && hoist_may_try_merge(device->q, rq) && try_merge(device, rq, &insert_ctx->free))
		return;
	trace_block_rq_insert(rq);
	if (!hoist_is_prepared(rq)) {
		is_known = false;
	} else if (insert_ctx->is_sorted && hoist_id_of(rq) == HOIST_NONE) {
		hoist_describe(rq, &insert_ctx->attributes);
		if (device->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS))
			set_owners(rq, insert_ctx);
		is_known = insert_new(device, device->core, rq, &insert_ctx->attributes, insert_ctx->now);
	} else {
		is_known = insert_other(device, rq, insert_ctx->at_head, insert_ctx->now);
	}
	if (!is_known)
		overflow(device, rq, insert_ctx->at_head);
	else if (may_merge && insert_ctx->is_sorted)
		hoist_add_merge_candidate(device->q, rq);
}

/* Inserts a request that the policy sorts, if it is new. */
static __always_inline void insert_one(struct hoist_device *device, struct hoist_core *core, struct request_queue *q, struct request *rq,
			      struct insert_ctx *insert_ctx, bool has_owners)
{
	if (unlikely(!hoist_is_plain_new(rq))) {
		insert_unusual(device, rq, insert_ctx);
		return;
	}
	if (hoist_may_try_merge(q, rq) && try_merge(device, rq, &insert_ctx->free))
		return;
	trace_block_rq_insert(rq);
	hoist_describe_plain(rq, &insert_ctx->attributes);
	if (has_owners)
		set_owners(rq, insert_ctx);
	/*
	 * From now on blk-mq finds the request by its hash. q->last_merge, which blk-mq tries
	 * first, is not set here: blk-mq sets it itself when a bio was merged.
	 */
	if (likely(insert_new(device, core, rq, &insert_ctx->attributes, insert_ctx->now)))
		hoist_add_merge_candidate(q, rq);
	else
		overflow(device, rq, false);
}

static __always_inline void insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, hoist_insert_t how, bool has_owners)
{
	bool at_head = hoist_is_at_head(how);
	struct request_queue *q = hctx->queue;
	struct hoist_device *device = hoist_device_at(hctx);
	struct hoist_core *core = device->core;
	struct list_head *at, *next;
	struct request *rq;
	struct insert_ctx insert_ctx = {
		.at_head = at_head, .is_sorted = !at_head && core->search != HOIST_OWN,
		.has_groups = has_owners && READ_ONCE(device->group_count), .attributes = { .hardware_queue = hctx->queue_num },
	};

	INIT_LIST_HEAD(&insert_ctx.free);
	update_trace(device);
	spin_lock_irq(&device->lock);
	insert_ctx.now = hoist_now(device);
	/*
	 * The list is emptied by one reinitialisation after the loop. The links of the inserted
	 * requests are left as they are, because these requests are on no other list.
	 */
	if (likely(insert_ctx.is_sorted)) {
		list_for_each_safe(at, next, list)
			insert_one(device, core, q, list_entry(at, struct request, queuelist), &insert_ctx, has_owners);
	} else {
		list_for_each_safe(at, next, list)
			insert_unusual(device, list_entry(at, struct request, queuelist), &insert_ctx);
	}
	INIT_LIST_HEAD(list);
	spin_unlock_irq(&device->lock);
	while (!list_empty(&insert_ctx.free)) {
		rq = list_first_entry(&insert_ctx.free, struct request, queuelist);
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	if (unlikely(device->unusual & HOIST_TRACED))
		hoist_emit_messages(device);
}

void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, hoist_insert_t how)
{
	insert_requests(hctx, list, how, false);
}

/* For policies that use issuers or groups. */
void hoist_insert_with_owners(struct blk_mq_hw_ctx *hctx, struct list_head *list, hoist_insert_t how)
{
	insert_requests(hctx, list, how, true);
}

static struct request *next_overflowed(struct hoist_device *device)
{
	struct request *rq = list_first_entry(&device->overflow, struct request, queuelist);

	list_del_init(&rq->queuelist);
	hoist_set_condition(device, HOIST_OVERFLOWED, !list_empty(&device->overflow));
	hoist_remove_merge_candidate(device->q, rq);
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

/* Dispatches the request that the policy chooses. */
static __always_inline struct request *choose(struct hoist_device *device, u16 queue, bool tick_resolution)
{
	u64 now = hoist_now_for_dispatch(device, tick_resolution);
	struct hoist_core *core = device->core;
	s64 answer = core->entries->dispatch(core, queue, now);
	struct request *rq;

	if (unlikely(answer < 0)) {
		answer = attend_slow(device, answer);
		if (answer == HOIST_NONE)
			return NULL;
	}
	/* The core found the id in its table, which has as many slots as ours. */
	rq = device->slots[HOIST_SLOT(answer)];
	hoist_remove_merge_candidate(device->q, rq);
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

static noinline struct request *dispatch_unusual(struct hoist_device *device, u16 queue, bool tick_resolution)
{
	struct request *rq;

	spin_lock_irq(&device->lock);
	rq = device->unusual & HOIST_OVERFLOWED ? next_overflowed(device) : choose(device, queue, tick_resolution);
	spin_unlock_irq(&device->lock);
	if (device->unusual & HOIST_TRACED)
		hoist_emit_messages(device);
	return rq;
}

/*
 * The conditions in `unusual` are read without the lock, so one that was just set may take effect
 * one request later.
 */
static __always_inline struct request *dispatch(struct blk_mq_hw_ctx *hctx, u16 queue, bool tick_resolution)
{
	struct hoist_device *device = hoist_device_at(hctx);
	struct request *rq;

	if (unlikely(READ_ONCE(device->unusual)))
		return dispatch_unusual(device, queue, tick_resolution);
	spin_lock_irq(&device->lock);
	rq = choose(device, queue, tick_resolution);
	spin_unlock_irq(&device->lock);
	return rq;
}

/* For policies that choose for all hardware queues alike. */
struct request *hoist_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	return dispatch(hctx, 0, false);
}

/* For policies that choose for all hardware queues alike and need times only to the tick. */
struct request *hoist_dispatch_in_ticks(struct blk_mq_hw_ctx *hctx)
{
	return dispatch(hctx, 0, true);
}

/* For policies that have separate queues for each hardware queue. */
struct request *hoist_dispatch_per_hctx(struct blk_mq_hw_ctx *hctx)
{
	return dispatch(hctx, hctx->queue_num, false);
}

/*
 * This is read without the lock. A wrong answer costs one useless or one late run of the queue,
 * because the queue is run after every change of the answer.
 */
bool hoist_has_work_for(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_at(hctx);

	return likely(READ_ONCE(device->core->has_work)) || READ_ONCE(device->unusual) & HOIST_OVERFLOWED;
}

/* For policies that have separate queues for each hardware queue. */
bool hoist_has_work_per_hctx(struct blk_mq_hw_ctx *hctx)
{
	struct hoist_device *device = hoist_device_at(hctx);
	unsigned long flags;
	bool has;

	if (unlikely(READ_ONCE(device->unusual) & HOIST_OVERFLOWED))
		return true;
	if (!READ_ONCE(device->core->queued) || READ_ONCE(device->core->stalled) & HOIST_THROTTLED)
		return false;
	spin_lock_irqsave(&device->lock, flags);
	has = hoist_has_work(device->core, hctx->queue_num);
	spin_unlock_irqrestore(&device->lock, flags);
	return has;
}

/* Called under the lock, and releases it. */
static noinline void attend_end(struct hoist_device *device, struct blk_mq_hw_ctx *hctx, u32 effect, unsigned long flags)
{
	hoist_attend(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (!(effect & HOIST_RUN_QUEUE))
		return;
	/*
	 * The restart mark makes blk-mq run the hardware queue when it frees the request, which it
	 * does right after this.
	 */
	if (device->wants & HOIST_PER_QUEUE)
		hoist_run_all(device);
	else
		blk_mq_sched_mark_restart_hctx(hctx);
}

/* Ends a request that the core knows, at a given time. */
static __always_inline void end_request(struct hoist_device *device, struct request *rq, u64 now)
{
	unsigned long flags;
	u32 effect, id;

	spin_lock_irqsave(&device->lock, flags);
	id = hoist_id_of(rq);
	rq->elv.priv[0] = NULL;
	effect = device->core->entries->finish(device->core, id, hoist_at(device, now));
	if (unlikely(effect))
		attend_end(device, rq->mq_hctx, effect, flags);
	else
		spin_unlock_irqrestore(&device->lock, flags);
}

/*
 * Called before finish_request, with the time that blk-mq has already read. Nothing is left for
 * finish_request, so this clears the mark that the request was prepared (HOIST_PREPARED): blk-mq
 * calls finish_request only for requests with this mark.
 */
void hoist_completed_request(struct request *rq, u64 now)
{
	if (unlikely(!hoist_is_prepared_if_completed(rq) || hoist_id_of(rq) == HOIST_NONE))
		return;
	rq->rq_flags &= ~HOIST_PREPARED;
	end_request(hoist_device_at(rq->mq_hctx), rq, now);
}

/* For policies that limit reads. */
void hoist_completed_counted(struct request *rq, u64 now)
{
	struct hoist_device *device = hoist_device_at(rq->mq_hctx);

	if (unlikely(!hoist_is_prepared_if_completed(rq) || hoist_id_of(rq) == HOIST_NONE))
		return;
	rq->rq_flags &= ~HOIST_PREPARED;
	atomic_dec(&device->tags_held);
	end_request(device, rq, now);
}

/*
 * Ends a request that was never completed, because it was merged into another or never sent, or
 * that the core does not know and of which only the tag is counted.
 */
static noinline void end_uncompleted(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);

	if (device->wants & HOIST_LIMITS_READS)
		atomic_dec(&device->tags_held);
	if (hoist_id_of(rq) != HOIST_NONE)
		end_request(device, rq, ktime_get_ns());
}

void hoist_finish_request(struct request *rq)
{
	if (unlikely(rq->elv.priv[0]))
		end_uncompleted(rq);
}

/*
 * The driver gave the request back. The request keeps its id: it is inserted again, or sent to the
 * driver without insertion, and the core is told of its end in both cases.
 */
void hoist_requeue_request(struct request *rq)
{
	struct hoist_device *device = hoist_device_of(rq->q);
	u32 effect, id = hoist_id_of(rq);
	unsigned long flags;

	if (id == HOIST_NONE)
		return;
	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_requeue(device->core, id, hoist_now(device));
	hoist_arm_timer(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
}

enum hrtimer_restart hoist_timer_fired(struct hrtimer *timer)
{
	struct hoist_device *device = container_of(timer, struct hoist_device, timer);
	unsigned long flags;
	u32 effect;
	u64 now;

	spin_lock_irqsave(&device->lock, flags);
	now = hoist_now(device);
	device->core->armed_at_ns = HOIST_NEVER;
	effect = hoist_timer(device->core, now);
	hoist_arm_timer(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
	return HRTIMER_NORESTART;
}
