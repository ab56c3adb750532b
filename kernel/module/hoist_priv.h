/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Functions that the block layer exports but declares only in its own directory. The types come
 * from the kernel's BTF (hoist_btf.h).
 */
#ifndef HOIST_PRIV_H
#define HOIST_PRIV_H

#include <linux/blk-cgroup.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#include <linux/iocontext.h>
#include <linux/radix-tree.h>
#include <linux/sbitmap.h>
#include <linux/seq_file.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "hoist_btf.h"
#include "versions.h"

int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
bool elv_bio_merge_ok(struct request *rq, struct bio *bio);
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs, struct request **merged);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq, struct list_head *free);
void blk_mq_sched_mark_restart_hctx(struct blk_mq_hw_ctx *hctx);
struct io_cq *ioc_find_get_icq(struct request_queue *q);
struct io_cq *ioc_lookup_icq(struct request_queue *q);

int blkcg_policy_register(struct blkcg_policy *policy);
void blkcg_policy_unregister(struct blkcg_policy *policy);
void blkcg_print_blkgs(struct seq_file *file, struct blkcg *blkcg,
		       u64 (*show)(struct seq_file *file, struct blkg_policy_data *data, int what),
		       const struct blkcg_policy *policy, int what, bool show_total);
u64 __blkg_prfill_u64(struct seq_file *file, struct blkg_policy_data *data, u64 value);
extern struct blkcg blkcg_root;

/* A read or a write without special flags. */
static inline bool hoist_is_plain(const struct request *rq)
{
	return likely(!(rq->cmd_flags & ~(REQ_OP_WRITE | REQ_SYNC | REQ_IDLE | REQ_ALLOC_CACHE)));
}

static inline bool hoist_is_mergeable(struct request *rq)
{
	if (blk_rq_is_passthrough(rq) || req_op(rq) == REQ_OP_FLUSH || req_op(rq) == REQ_OP_WRITE_ZEROES ||
	    req_op(rq) == REQ_OP_ZONE_APPEND)
		return false;
	return !(rq->cmd_flags & REQ_NOMERGE_FLAGS) && !(rq->rq_flags & RQF_NOMERGE_FLAGS);
}

/* A discard of several ranges: such requests merge without being adjacent. */
static inline bool hoist_is_multi_range_discard(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

static inline struct blkcg *hoist_blkcg_of(struct cgroup_subsys_state *css)
{
	return css ? container_of(css, struct blkcg, css) : NULL;
}

/*
 * The entry of a cgroup for a device; NULL if the cgroup has done no I/O on it yet. Must be called
 * under RCU.
 */
static inline struct blkcg_gq *hoist_blkg_of(struct blkcg *blkcg, struct request_queue *q)
{
	struct blkcg_gq *blkg;

	if (!blkcg || blkcg == &blkcg_root)
		return q->root_blkg;
	blkg = radix_tree_lookup(&blkcg->blkg_tree, q->id);
	return blkg && blkg->q == q ? blkg : NULL;
}

#endif
