/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The attributes of a bio or request in the form of the core (kernel/core, Rust), with the ids of
 * its issuer and group.
 */
#ifndef HOIST_ASK_H
#define HOIST_ASK_H

#include "hoist.h"

static inline u16 hoist_flags_of(blk_opf_t opf)
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

static inline u8 hoist_operation_of(blk_opf_t opf)
{
	/* Reads and writes have the same numbers in the kernel and in the core. */
	if (likely((__force u32)(opf & REQ_OP_MASK) <= 1))
		return (__force u32)(opf & REQ_OP_MASK);
	switch ((__force u32)(opf & REQ_OP_MASK)) {
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

/*
 * The core's id of a request, plus 1, in the lower half of the first private word: 0 = the core
 * does not know it. HOIST_COUNTED alone means that the request's tag is counted in tags_held, and
 * that the core does not know the request. The second word contains the issuer's id, for policies
 * that use issuers.
 */
#define HOIST_COUNTED ((void *)(1ul << 32))

static inline u32 hoist_id_of(const struct request *rq)
{
	return (u32)(unsigned long)rq->elv.priv[0] - 1;
}

static inline void hoist_set_id(struct hoist_device *device, struct request *rq, u32 id)
{
	rq->elv.priv[0] = (void *)((unsigned long)id + 1);
	device->slots[HOIST_SLOT(id)] = rq;
}

static inline struct request *hoist_request_of(struct hoist_device *device, u32 id)
{
	u32 slot = HOIST_SLOT(id);

	return id != HOIST_NONE && slot < device->slot_count ? device->slots[slot] : NULL;
}

static inline u32 hoist_issuer_of(const struct hoist_device *device, const struct request *rq)
{
	return device->wants & HOIST_WANTS_CONTEXTS ? (u32)(unsigned long)rq->elv.priv[1] : 0;
}

/*
 * Whether a request has no special flags, is unknown to the core, and blk-mq will notify us of its
 * end. Nearly all requests are like this when they are inserted.
 */
static inline bool hoist_is_plain_new(const struct request *rq)
{
	return hoist_is_plain(rq) && (rq->rq_flags & (RQF_NOMERGE_FLAGS | HOIST_PREPARED)) == HOIST_PREPARED &&
	       hoist_id_of(rq) == HOIST_NONE;
}

/*
 * The issuer's id according to the hint (icq_hint) of the current I/O context; 0 if the hint is for
 * another device. Does not need queue_lock: an issuer's entry for a queue is freed only with the
 * issuer, or with the elevator, which waits until no request is in flight.
 */
static inline u32 hoist_issuer_hinted(struct hoist_device *device)
{
	struct io_context *ioc = current->io_context;
	struct io_cq *icq;
	u32 id = 0;

	if (unlikely(!ioc))
		return 0;
	/*
	 * The hint may belong to another queue, and may be freed at any time, so RCU is needed. Its
	 * variant for the scheduler only disables preemption, which needs no function call.
	 */
	rcu_read_lock_sched();
	icq = rcu_dereference_sched(ioc->icq_hint);
	if (likely(icq && icq->q == device->q))
		id = container_of(icq, struct hoist_icq, icq)->id;
	rcu_read_unlock_sched();
	return id;
}

/*
 * The issuer's id, found by a search in the I/O context; 0 if the context has no entry for the
 * device yet. The hint is set to the entry, which is safe: when the entry is removed, the hint is
 * cleared.
 */
static inline u32 hoist_issuer_searched(struct hoist_device *device)
{
	struct io_context *ioc = current->io_context;
	struct io_cq *icq;
	u32 id = 0;

	if (!ioc)
		return 0;
	rcu_read_lock_sched();
	icq = radix_tree_lookup(&ioc->icq_tree, device->q->id);
	if (icq && icq->q == device->q) {
		rcu_assign_pointer(ioc->icq_hint, icq);
		id = container_of(icq, struct hoist_icq, icq)->id;
	}
	rcu_read_unlock_sched();
	return id;
}

static inline u32 hoist_issuer_now(struct hoist_device *device)
{
	u32 id = hoist_issuer_hinted(device);

	return likely(id) ? id : hoist_issuer_searched(device);
}

static inline u32 hoist_issuer_if_wanted(struct hoist_device *device)
{
	return device->wants & HOIST_WANTS_CONTEXTS ? hoist_issuer_now(device) : 0;
}

static inline struct hoist_ask hoist_ask_of_request(struct hoist_device *device, struct request *rq)
{
	return (struct hoist_ask) {
		.sector = blk_rq_pos(rq), .sectors = blk_rq_sectors(rq), .context = hoist_issuer_of(device, rq),
		.group = hoist_group_of_bio(device, rq->bio), .flags = hoist_flags_of(rq->cmd_flags),
		.priority = req_get_ioprio(rq), .segments = rq->nr_phys_segments, .hardware_queue = rq->mq_hctx->queue_num,
		.operation = hoist_operation_of(rq->cmd_flags),
	};
}

/*
 * Sets the attributes that differ between requests, except operation and flags. The caller has set
 * the others to 0, and sets hardware queue, issuer and group.
 */
static inline void hoist_describe_rest(struct request *rq, struct hoist_attributes *attributes)
{
	attributes->sector = blk_rq_pos(rq);
	attributes->sectors = blk_rq_sectors(rq);
	attributes->priority = req_get_ioprio(rq);
	attributes->segments = rq->nr_phys_segments;
}

static inline void hoist_describe(struct request *rq, struct hoist_attributes *attributes)
{
	hoist_describe_rest(rq, attributes);
	attributes->operation = hoist_operation_of(rq->cmd_flags);
	attributes->flags = hoist_flags_of(rq->cmd_flags);
}

/*
 * Operation and flags of a plain request: three bits move to other positions. One multiplication
 * copies each bit to its new position and to others; no two copies meet, and the mask selects those
 * at the new positions.
 */
#define HOIST_PLAIN_BITS (1u | 1u << __REQ_SYNC | 1u << __REQ_IDLE)
#define HOIST_PLAIN_COPIES (1u | 1u << (16 - __REQ_SYNC) | 1u << (29 - __REQ_IDLE))
#define HOIST_PLAIN_WORD(bits) (((bits) & HOIST_PLAIN_BITS) * HOIST_PLAIN_COPIES & (1u | HOIST_SYNC << 16 | HOIST_IDLE << 16))
_Static_assert(HOIST_SYNC == 1 && HOIST_IDLE == 1u << 13, "the flags have moved");
#define HOIST_PLAIN_HOLDS(op, sync, idle)                                                                             \
	_Static_assert(HOIST_PLAIN_WORD((op) | (sync) << __REQ_SYNC | (idle) << __REQ_IDLE) ==                        \
		       ((op) | (sync) * (HOIST_SYNC << 16) | (idle) * (HOIST_IDLE << 16)), "a plain request's bits")
HOIST_PLAIN_HOLDS(0u, 0u, 0u);
HOIST_PLAIN_HOLDS(0u, 0u, 1u);
HOIST_PLAIN_HOLDS(0u, 1u, 0u);
HOIST_PLAIN_HOLDS(0u, 1u, 1u);
HOIST_PLAIN_HOLDS(1u, 0u, 0u);
HOIST_PLAIN_HOLDS(1u, 0u, 1u);
HOIST_PLAIN_HOLDS(1u, 1u, 0u);
HOIST_PLAIN_HOLDS(1u, 1u, 1u);

static inline void hoist_describe_plain(struct request *rq, struct hoist_attributes *attributes)
{
	hoist_describe_rest(rq, attributes);
	attributes->operation_and_flags = HOIST_PLAIN_WORD((__force u32)rq->cmd_flags);
}

static inline struct hoist_ask hoist_ask_of_bio(struct hoist_device *device, struct bio *bio)
{
	return (struct hoist_ask) {
		.sector = bio->bi_iter.bi_sector, .sectors = bio_sectors(bio), .context = hoist_issuer_if_wanted(device),
		.group = hoist_group_of_bio(device, bio), .flags = hoist_flags_of(bio->bi_opf), .priority = bio->bi_ioprio,
		.segments = 1, .operation = hoist_operation_of(bio->bi_opf),
	};
}

#endif
