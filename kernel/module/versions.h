/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Everything that differs between the kernels that the module builds for, 6.1 to 7.3. The other
 * files use the names that are defined here. What is visible in the kernel's types or exports is
 * found by kernel/btfgen, because distributions backport; the rest goes by the version.
 *
 *   what                                      since          found by
 *   insert_requests takes flags, not a bool   6.4            HOIST_INSERT_FLAGS
 *   RQF_ELVPRIV becomes RQF_USE_SCHED         6.5            the macro
 *   policies are activated for a disk         6.3            HOIST_PD_ALLOC_DISK
 *   writeback throttling: of a disk, with a
 *     flag of the elevator                    6.3            HOIST_EQ_FLAGS
 *     with a flag of the queue                by 7.3         HOIST_WBT_QUEUE_FLAG
 *   lines for a device: init, prep, exit      6.4            HOIST_CONF_INIT
 *     open_bdev, prep, unprep, close_bdev     by 7.3         HOIST_CONF_BDEV
 *   init_sched gets the elevator's queue      6.17           HOIST_EQ_INIT
 *   depth_updated gets the queue, and is not
 *     called for a hardware queue             6.17           HOIST_DEPTH_UPDATED_Q
 *   a limit of tags counts in the whole map,
 *     not in each word of it                  6.12.95, 6.18  the version
 *   hrtimer_setup instead of hrtimer_init     6.13           HOIST_HRTIMER_SETUP
 *   blk_queue_rot instead of nonrot           by 7.3         the macro
 *   kernel threads have no mounts             by 7.3         not needed (heard.c)
 */
#ifndef HOIST_VERSIONS_H
#define HOIST_VERSIONS_H

/* ---- the elevator ---- */

#ifndef HOIST_EQ_INIT
struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);
#endif

#ifdef HOIST_INSERT_FLAGS
typedef blk_insert_t hoist_insert_t;
#else
typedef bool hoist_insert_t;
#endif

static inline bool hoist_is_at_head(hoist_insert_t how)
{
#ifdef HOIST_INSERT_FLAGS
	/* Bit 0, BLK_MQ_INSERT_AT_HEAD. */
	return (__force u32)how & 1;
#else
	return how;
#endif
}

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

/* A limit of tags in the unit of this kernel's `shallow_depth`. */
static inline u32 hoist_shallow_depth(struct blk_mq_alloc_data *data, u32 depth)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 95) || \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0))
	if (data->hctx && data->hctx->sched_tags) {
		u32 word = 1u << data->hctx->sched_tags->bitmap_tags.sb.shift;

		return max_t(u32, 1, depth * word / max_t(u32, 1, data->hctx->sched_tags->bitmap_tags.sb.depth));
	}
#endif
	return depth;
}

/* ---- the queue ---- */

static inline bool hoist_is_rotational(struct request_queue *q)
{
#ifdef blk_queue_nonrot
	return !blk_queue_nonrot(q);
#else
	return blk_queue_rot(q);
#endif
}

static inline void hoist_timer_setup(struct hrtimer *timer, enum hrtimer_restart (*fired)(struct hrtimer *))
{
#ifdef HOIST_HRTIMER_SETUP
	hrtimer_setup(timer, fired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer->function = fired;
#endif
}

/*
 * blk-mq's writeback throttling, if configured: disabled while an elevator schedules writeback
 * itself.
 */
#ifdef HOIST_EQ_FLAGS
#define HOIST_WBT_OF(q) ((q)->disk)
void wbt_disable_default(struct gendisk *disk);
void wbt_enable_default(struct gendisk *disk);
#else
#define HOIST_WBT_OF(q) (q)
void wbt_disable_default(struct request_queue *q);
void wbt_enable_default(struct request_queue *q);
#endif

static inline void hoist_set_wbt(struct request_queue *q, struct elevator_queue *eq, bool is_on)
{
#if IS_ENABLED(CONFIG_BLK_WBT)
#if defined(HOIST_WBT_QUEUE_FLAG)
	if (is_on)
		blk_queue_flag_clear(QUEUE_FLAG_DISABLE_WBT_DEF, q);
	else
		blk_queue_flag_set(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#elif defined(HOIST_EQ_FLAGS)
	/* Bit 1, ELEVATOR_FLAG_DISABLE_WBT. */
	assign_bit(1, &eq->flags, !is_on);
#endif
	if (is_on)
		wbt_enable_default(HOIST_WBT_OF(q));
	else
		wbt_disable_default(HOIST_WBT_OF(q));
#endif
}

/* ---- control groups ---- */

#ifdef HOIST_PD_ALLOC_DISK
#define HOIST_POLICY_OF(q) ((q)->disk)
#define HOIST_PD_ALLOC(name) struct blkg_policy_data *name(struct gendisk *on, struct blkcg *blkcg, gfp_t gfp)
#define HOIST_NODE_OF(on) ((on)->node_id)
int blkcg_activate_policy(struct gendisk *disk, const struct blkcg_policy *policy);
void blkcg_deactivate_policy(struct gendisk *disk, const struct blkcg_policy *policy);
#else
#define HOIST_POLICY_OF(q) (q)
#define HOIST_PD_ALLOC(name) struct blkg_policy_data *name(gfp_t gfp, struct request_queue *on, struct blkcg *blkcg)
#define HOIST_NODE_OF(on) ((on)->node)
int blkcg_activate_policy(struct request_queue *q, const struct blkcg_policy *policy);
void blkcg_deactivate_policy(struct request_queue *q, const struct blkcg_policy *policy);
#endif

#ifdef HOIST_CONF_INIT
void blkg_conf_init(struct blkg_conf_ctx *context, char *input);
int blkg_conf_prep(struct blkcg *blkcg, const struct blkcg_policy *policy, struct blkg_conf_ctx *context);
#else
int blkg_conf_prep(struct blkcg *blkcg, const struct blkcg_policy *policy, char *input, struct blkg_conf_ctx *context);
#endif
#ifdef HOIST_CONF_BDEV
int blkg_conf_open_bdev(struct blkg_conf_ctx *context);
void blkg_conf_unprep(struct blkg_conf_ctx *context);
void blkg_conf_close_bdev(struct blkg_conf_ctx *context);
#else
void blkg_conf_exit(struct blkg_conf_ctx *context);
void blkg_conf_finish(struct blkg_conf_ctx *context);
#endif

/*
 * Parses the device of "8:16 300", makes the device's entry for the cgroup if needed, and locks
 * both. Unless it fails, hoist_conf_end must follow.
 */
static inline int hoist_conf_begin(struct blkcg *blkcg, const struct blkcg_policy *policy, char *line, struct blkg_conf_ctx *context)
{
	int error;

#ifdef HOIST_CONF_INIT
	blkg_conf_init(context, line);
#ifdef HOIST_CONF_BDEV
	error = blkg_conf_open_bdev(context);
	if (error)
		return error;
#endif
	error = blkg_conf_prep(blkcg, policy, context);
	if (error)
#ifdef HOIST_CONF_BDEV
		blkg_conf_close_bdev(context);
#else
		blkg_conf_exit(context);
#endif
#else
	error = blkg_conf_prep(blkcg, policy, line, context);
#endif
	return error;
}

static inline void hoist_conf_end(struct blkg_conf_ctx *context)
{
#if defined(HOIST_CONF_BDEV)
	blkg_conf_unprep(context);
	blkg_conf_close_bdev(context);
#elif defined(HOIST_CONF_INIT)
	blkg_conf_exit(context);
#else
	blkg_conf_finish(context);
#endif
}

#endif
