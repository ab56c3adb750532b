// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Merging bios and requests into queued ones: blk-mq searches first, then the policy. All
 * operations but the first one (hoist_bio_merge) are called under the device's lock.
 */
#include <linux/kernel.h>

#include "ask.h"

static noinline bool join(struct request_queue *q, struct hoist_device *device, struct bio *bio, unsigned int nr_segs)
{
	struct request *gone = NULL;
	bool is_merged;

	spin_lock_irq(&device->lock);
	is_merged = blk_mq_sched_try_merge(q, bio, nr_segs, &gone);
	hoist_arm_timer(device);
	spin_unlock_irq(&device->lock);
	if (gone)
		blk_mq_free_request(gone);
	return is_merged;
}

bool hoist_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct hoist_device *device = hoist_device_of(q);

	/*
	 * If nothing is queued there is no merge candidate; a request that is inserted by another
	 * processor at this moment is missed, which only costs a merge.
	 */
	return READ_ONCE(device->core->queued) && join(q, device, bio, nr_segs);
}

bool hoist_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct hoist_device *device = hoist_device_of(q);
	struct hoist_ask ask = hoist_ask_of_bio(device, bio);
	u32 id = hoist_id_of(rq);

	if (!(device->wants & (HOIST_WANTS_CONTEXTS | HOIST_WANTS_GROUPS)) || id == HOIST_NONE)
		return true;
	return hoist_may_merge(device->core, id, &ask);
}

int hoist_request_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct hoist_device *device = hoist_device_of(q);
	struct hoist_ask ask = hoist_ask_of_bio(device, bio);
	struct request *rq;
	u32 side;

	if (device->core->search == HOIST_PIPELINE)
		return ELEVATOR_NO_MERGE;
	rq = hoist_request_of(device, hoist_find_merge(device->core, &ask, hoist_now(device), &side));
	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	if (hoist_is_multi_range_discard(rq))
		return ELEVATOR_DISCARD_MERGE;
	return side == HOIST_BACK ? ELEVATOR_BACK_MERGE : ELEVATOR_FRONT_MERGE;
}

void hoist_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 side = type == ELEVATOR_FRONT_MERGE ? HOIST_FRONT_SIDE :
		   type == ELEVATOR_BACK_MERGE ? HOIST_BACK : HOIST_DISCARD;
	u32 id = hoist_id_of(rq);

	if (id != HOIST_NONE)
		hoist_bio_merged(device->core, id, side, blk_rq_pos(rq), blk_rq_sectors(rq), hoist_now(device));
}

/*
 * `gone` may not have been inserted yet; then the core knows it only if the policy is informed when
 * a tag is taken.
 */
void hoist_requests_merged(struct request_queue *q, struct request *rq, struct request *gone)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = hoist_id_of(rq), gone_id = hoist_id_of(gone);

	if (id != HOIST_NONE && gone_id != HOIST_NONE)
		hoist_absorbed(device->core, id, blk_rq_sectors(rq), gone_id, hoist_now(device));
	else if (id != HOIST_NONE)
		hoist_bio_merged(device->core, id, HOIST_BACK, blk_rq_pos(rq), blk_rq_sectors(rq), hoist_now(device));
	else
		list_del_init(&gone->queuelist);
	hoist_remove_merge_candidate(q, gone);
}

struct request *hoist_former_request(struct request_queue *q, struct request *rq)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = hoist_id_of(rq);

	return id == HOIST_NONE ? NULL : hoist_request_of(device, hoist_neighbour(device->core, id, false));
}

struct request *hoist_next_request(struct request_queue *q, struct request *rq)
{
	struct hoist_device *device = hoist_device_of(q);
	u32 id = hoist_id_of(rq);

	return id == HOIST_NONE ? NULL : hoist_request_of(device, hoist_neighbour(device->core, id, true));
}
