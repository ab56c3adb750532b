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
#include <linux/iocontext.h>
#include <linux/radix-tree.h>
#include <linux/sbitmap.h>
#include <linux/seq_file.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "hoist_btf.h"

int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
#ifndef HOIST_EQ_INIT
struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);
#endif
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
#ifdef HOIST_PD_ALLOC_DISK
int blkcg_activate_policy(struct gendisk *disk, const struct blkcg_policy *policy);
void blkcg_deactivate_policy(struct gendisk *disk, const struct blkcg_policy *policy);
#else
int blkcg_activate_policy(struct request_queue *q, const struct blkcg_policy *policy);
void blkcg_deactivate_policy(struct request_queue *q, const struct blkcg_policy *policy);
#endif
void blkcg_print_blkgs(struct seq_file *file, struct blkcg *blkcg,
		       u64 (*show)(struct seq_file *file, struct blkg_policy_data *data, int what),
		       const struct blkcg_policy *policy, int what, bool show_total);
u64 __blkg_prfill_u64(struct seq_file *file, struct blkg_policy_data *data, u64 value);
#ifdef HOIST_CONF_INIT
void blkg_conf_init(struct blkg_conf_ctx *context, char *input);
int blkg_conf_prep(struct blkcg *blkcg, const struct blkcg_policy *policy, struct blkg_conf_ctx *context);
void blkg_conf_exit(struct blkg_conf_ctx *context);
#else
int blkg_conf_prep(struct blkcg *blkcg, const struct blkcg_policy *policy, char *input, struct blkg_conf_ctx *context);
void blkg_conf_finish(struct blkg_conf_ctx *context);
#endif
extern struct blkcg blkcg_root;

/*
 * blk-mq's writeback throttling, if configured: disabled while an elevator schedules writeback
 * itself.
 */
#if !IS_ENABLED(CONFIG_BLK_WBT)
static inline void hoist_disable_wbt(struct request_queue *q, struct elevator_queue *eq) {}
static inline void hoist_enable_wbt(struct request_queue *q, struct elevator_queue *eq) {}
#elif defined(HOIST_EQ_FLAGS)
void wbt_disable_default(struct gendisk *disk);
void wbt_enable_default(struct gendisk *disk);

/* In these kernels, bit 1 of the elevator's flags disables writeback throttling. */
static inline void hoist_disable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	set_bit(1, &eq->flags);
	wbt_disable_default(q->disk);
}

static inline void hoist_enable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	clear_bit(1, &eq->flags);
	wbt_enable_default(q->disk);
}
#else
void wbt_disable_default(struct request_queue *q);
void wbt_enable_default(struct request_queue *q);

static inline void hoist_disable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	wbt_disable_default(q);
}

static inline void hoist_enable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	wbt_enable_default(q);
}
#endif

/* Bit 0 of the flags that insert_requests takes since 6.4. */
#define HOIST_INSERT_AT_HEAD 1u

#ifdef RQF_USE_SCHED
#define HOIST_PREPARED RQF_USE_SCHED
#else
#define HOIST_PREPARED RQF_ELVPRIV
#endif

/* Whether prepare_request was called for the request, so that finish_request will be. */
static inline bool hoist_is_prepared(const struct request *rq)
{
	return rq->rq_flags & HOIST_PREPARED;
}

/*
 * As hoist_is_prepared, for a request for which completed_request was called: kernels with
 * RQF_USE_SCHED call that only for prepared requests.
 */
static inline bool hoist_is_prepared_if_completed(const struct request *rq)
{
#ifdef RQF_USE_SCHED
	return true;
#else
	return hoist_is_prepared(rq);
#endif
}

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
