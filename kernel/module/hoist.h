/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Declarations shared by the C files of the module (the glue): an elevator type, a device, the
 * functions of each file. The core is the Rust part (kernel/core).
 */
#ifndef HOIST_H
#define HOIST_H

#include <linux/debugfs.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/spinlock.h>

#include "hoist_core.h"
#include "hoist_priv.h"

#define HOIST_NAME_BYTES 16
#define HOIST_CONTEXTS 4096

/* An elevator type, one per policy. */
struct hoist_kind {
	struct elevator_type type;
	u32 policy;
	u32 wants;
	char name[HOIST_NAME_BYTES];
	struct elv_fs_entry *files;
	u32 rows;
	bool is_registered;
};

/*
 * A device with one of our elevators. Where no comment says otherwise, `lock` protects all fields
 * below it, and the core.
 */
struct hoist_device {
	/* First, so that lock and device have the same address. */
	spinlock_t lock;
	/* HOIST_OVERFLOWED and HOIST_TRACED: conditions that a dispatch must check. */
	u32 unusual;
	struct request_queue *q;
	const struct hoist_kind *kind;
	/* kind->wants, copied because it is read for every request. */
	u32 wants;
	/*
	 * The number of requests that hold a tag, for policies that limit reads. Not protected by
	 * the lock.
	 */
	atomic_t tags_held;
	/* A quarter of the scheduler tags: while fewer are held, three quarters are free. */
	u32 few_tags;
	/*
	 * Groups other than the root with an id of the core. Written under `groups_lock` (cgroup.c),
	 * read without a lock.
	 */
	u32 group_count;
	struct hoist_core *core;
	struct request **slots;
	u32 slot_count;
	/* The latest time passed to the core, which must be monotonic. */
	u64 now_ns;
	/* The tick in which the clock was last read. */
	unsigned long read_at;
	/* The time passed to the core by the last dispatch that read the clock. */
	u64 chosen_ns;
	/*
	 * Requests that the core does not know: it had no slot, or blk-mq will not notify us of
	 * their end. In FIFO order.
	 */
	struct list_head overflow;
	u64 overflowed;
	/* Groups with an id of the core; see cgroup.c. */
	struct list_head groups;
	struct hrtimer timer;
	struct hoist_record *records;
	u64 record_room;
	struct dentry *folder;
	struct hoist_config config;
	struct debugfs_blob_wrapper config_blob;
};

/* Bits of `unusual`: `overflow` is not empty; the device is being traced. */
#define HOIST_OVERFLOWED (1u << 0)
#define HOIST_TRACED (1u << 1)

struct hoist_icq {
	struct io_cq icq;
	u32 id;
};

static inline struct hoist_device *hoist_device_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* The device of a hardware queue: one memory access instead of three. */
static inline struct hoist_device *hoist_device_at(struct blk_mq_hw_ctx *hctx)
{
	return hctx->sched_data;
}

/*
 * Under the lock: returns the time to pass to the core for `now_ns`, which was read before: if it
 * is not later than the last time passed, that one.
 */
static inline u64 hoist_at(struct hoist_device *device, u64 now_ns)
{
	if (likely(now_ns > device->now_ns))
		device->now_ns = now_ns;
	return device->now_ns;
}

static inline u64 hoist_now(struct hoist_device *device)
{
	device->read_at = jiffies;
	return hoist_at(device, ktime_get_ns());
}

/*
 * The time for a dispatch. Within a tick, consecutive dispatches with no other call between them
 * get the same time, because they go to the driver together; with policies that count in ticks, all
 * dispatches of the tick do.
 */
static inline u64 hoist_now_for_dispatch(struct hoist_device *device, bool tick_resolution)
{
	if ((tick_resolution || device->now_ns == device->chosen_ns) && likely(device->read_at == jiffies))
		return device->now_ns;
	device->chosen_ns = hoist_now(device);
	return device->chosen_ns;
}

/* Under the lock: sets or clears a bit of `unusual`. */
static inline void hoist_set_condition(struct hoist_device *device, u32 what, bool is_set)
{
	WRITE_ONCE(device->unusual, is_set ? device->unusual | what : device->unusual & ~what);
}

/* Under the lock, after each call: removes a group without references. */
static inline void hoist_release_dying_group(struct hoist_device *device)
{
	if (unlikely(device->core->dying_group))
		hoist_release_group(device->core, device->now_ns);
}

/*
 * Under the lock, after each call: the timer must not fire later than the core wants. Firing too
 * early is harmless.
 */
static inline void hoist_arm_timer(struct hoist_device *device)
{
	u64 at_ns = device->core->timer_at_ns;

	if (likely(at_ns >= device->core->armed_at_ns))
		return;
	device->core->armed_at_ns = at_ns;
	hrtimer_start(&device->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/*
 * Under the lock, after a call that is made for every request: removes a dying group and sets the
 * timer if the core asks for it (`attention`).
 */
static inline void hoist_attend(struct hoist_device *device)
{
	if (likely(!device->core->attention))
		return;
	device->core->attention = 0;
	hoist_release_dying_group(device);
	hoist_arm_timer(device);
}

/*
 * Under the lock: makes a request a merge candidate; does what elv_rqhash_add does, without a
 * function call.
 */
static inline void hoist_add_merge_candidate(struct request_queue *q, struct request *rq)
{
	hash_add(q->elevator->hash, &rq->hash, blk_rq_pos(rq) + blk_rq_sectors(rq));
	rq->rq_flags |= RQF_HASHED;
}

/*
 * Under the lock: whether blk-mq's search for merge candidates, which is slow, can succeed. That
 * search tries the request into which the last merge was made, and one in the hash that ends where
 * this one begins.
 */
static inline bool hoist_may_try_merge(struct request_queue *q, struct request *rq)
{
	sector_t sector = blk_rq_pos(rq);
	struct hlist_node *node;
	struct request *other;

	if (unlikely(q->last_merge))
		return true;
	hlist_for_each(node, &q->elevator->hash[hash_min(sector, HASH_BITS(q->elevator->hash))]) {
		other = hlist_entry(node, struct request, hash);
		if (blk_rq_pos(other) + blk_rq_sectors(other) == sector)
			return true;
	}
	return false;
}

/*
 * Under the lock: a request that leaves the policy is not a merge candidate any more. Does the
 * necessary part of elv_rqhash_del without a function call. RQF_HASHED says that the request is in
 * the hash. pprev must be cleared too, because blk-mq may try to remove the request again and
 * checks only pprev.
 */
static inline void hoist_remove_merge_candidate(struct request_queue *q, struct request *rq)
{
	if (rq->rq_flags & RQF_HASHED) {
		__hlist_del(&rq->hash);
		rq->hash.pprev = NULL;
		rq->rq_flags &= ~RQF_HASHED;
	}
	if (q->last_merge == rq)
		q->last_merge = NULL;
}

static inline void hoist_run_all(struct hoist_device *device)
{
	blk_mq_run_hw_queues(device->q, true);
}

/* request.c */
void hoist_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
void hoist_limit_writes(blk_opf_t opf, struct blk_mq_alloc_data *data);
void hoist_prepare_request(struct request *rq);
void hoist_prepare_counted(struct request *rq);
void hoist_prepare_plain(struct request *rq);
void hoist_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, hoist_insert_t how);
void hoist_insert_with_owners(struct blk_mq_hw_ctx *hctx, struct list_head *list, hoist_insert_t how);
struct request *hoist_dispatch_request(struct blk_mq_hw_ctx *hctx);
struct request *hoist_dispatch_in_ticks(struct blk_mq_hw_ctx *hctx);
struct request *hoist_dispatch_per_hctx(struct blk_mq_hw_ctx *hctx);
bool hoist_has_work_for(struct blk_mq_hw_ctx *hctx);
bool hoist_has_work_per_hctx(struct blk_mq_hw_ctx *hctx);
void hoist_completed_request(struct request *rq, u64 now);
void hoist_completed_counted(struct request *rq, u64 now);
void hoist_finish_request(struct request *rq);
void hoist_requeue_request(struct request *rq);
enum hrtimer_restart hoist_timer_fired(struct hrtimer *timer);

/* merging.c */
bool hoist_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
bool hoist_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);
int hoist_request_merge(struct request_queue *q, struct request **found, struct bio *bio);
void hoist_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type);
void hoist_requests_merged(struct request_queue *q, struct request *rq, struct request *gone);
struct request *hoist_former_request(struct request_queue *q, struct request *rq);
struct request *hoist_next_request(struct request_queue *q, struct request *rq);

/* issuer.c */
void hoist_init_icq(struct io_cq *icq);
void hoist_exit_icq(struct io_cq *icq);

/* device.c */
void hoist_set_ready(void);
u32 hoist_advised_requests(const struct hoist_device *device);
#ifdef HOIST_EQ_INIT
int hoist_init_sched(struct request_queue *q, struct elevator_queue *eq);
#else
int hoist_init_sched(struct request_queue *q, struct elevator_type *type);
#endif
void hoist_exit_sched(struct elevator_queue *eq);
void hoist_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index);
int hoist_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index);
#ifdef HOIST_DEPTH_UPDATED_Q
void hoist_depth_updated(struct request_queue *q);
#else
void hoist_depth_updated(struct blk_mq_hw_ctx *hctx);
#endif

/* attributes.c */
void hoist_emit_messages(struct hoist_device *device);
int hoist_create_files(struct hoist_kind *kind);
void hoist_remove_files(struct hoist_kind *kind);
void hoist_debugfs_init(void);
void hoist_debugfs_exit(void);
void hoist_show_calls(struct hoist_device *device);
void hoist_hide_calls(struct hoist_device *device);

/* cgroup.c */
int hoist_groups_init(void);
void hoist_groups_exit(void);
int hoist_groups_on(struct hoist_device *device);
void hoist_groups_off(struct hoist_device *device);
u32 hoist_group_of_blkg(struct blkcg_gq *blkg);
u32 hoist_group_of_current(struct hoist_device *device);
void hoist_begin_round(void);
bool hoist_has_groups(void);
struct blkcg *hoist_next_in_round(void);
void hoist_hear(struct blkcg *blkcg, const char *weight, const char *bfq_weight);

/* heard.c */
int hoist_listen_init(void);
void hoist_listen_exit(void);
void hoist_listen_soon(void);
void hoist_find_cgroups(void);

/*
 * The id of a bio's group. While the root is the only group, as always with a policy that needs no
 * groups, the answer is 0 and the bio is not accessed.
 */
static inline u32 hoist_group_of_bio(struct hoist_device *device, struct bio *bio)
{
	return unlikely(READ_ONCE(device->group_count)) && bio ? hoist_group_of_blkg(bio->bi_blkg) : 0;
}

#endif
