/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The C interface of the policies (the core): kernel/core/src/abi/ and values.rs declare the same
 * in Rust.
 */
#ifndef HOIST_CORE_H
#define HOIST_CORE_H

#include <linux/stddef.h>
#include <linux/types.h>

#define HOIST_ABI 5
#define HOIST_NONE 0xffffffffu
#define HOIST_NEVER 0xffffffffffffffffull
/* An id consists of a slot and a generation; tables are indexed by the slot. */
#define HOIST_SLOT(id) ((id) & 0xfffffu)

/* What a policy needs from the glue. */
#define HOIST_WANTS_GROUPS (1u << 0)
#define HOIST_WANTS_CONTEXTS (1u << 1)
#define HOIST_PER_QUEUE (1u << 2)
#define HOIST_CHARGES_GROUPS (1u << 3)
#define HOIST_LIMITS_READS (1u << 4)
#define HOIST_LIMITS_WRITES (1u << 5)
#define HOIST_TICK_RESOLUTION (1u << 6)
#define HOIST_SCHEDULES_WRITES (1u << 7)

enum hoist_search { HOIST_PIPELINE, HOIST_FRONT, HOIST_OWN };
enum hoist_side { HOIST_BACK = 1, HOIST_FRONT_SIDE = 2, HOIST_DISCARD = 3 };
#define HOIST_RUN_QUEUE 1u

/* Flags of struct hoist_ask. */
#define HOIST_SYNC (1u << 0)
#define HOIST_FUA (1u << 1)
#define HOIST_PREFLUSH (1u << 2)
#define HOIST_META (1u << 3)
#define HOIST_PRIO (1u << 4)
#define HOIST_RAHEAD (1u << 5)
#define HOIST_NOMERGE (1u << 6)
#define HOIST_BACKGROUND (1u << 9)
#define HOIST_SWAP (1u << 10)
#define HOIST_NO_UNMAP (1u << 11)
#define HOIST_IDLE (1u << 13)

struct hoist_config {
	u32 policy, slots, groups, contexts, requests, device, max_sectors;
	u16 hardware_queues, software_queues;
	u64 capacity_sectors, seed;
	u32 rotational, queueing;
	u64 version;
};

struct hoist_ask {
	u64 sector;
	u32 sectors, context, group;
	u16 flags, priority, segments, hardware_queue, software_queue;
	u8 operation, unused;
};

/* A new request, in the policies' own form, so that it is written only once. */
struct hoist_attributes {
	u64 sector;
	u32 sectors, unused;
	union {
		struct {
			u8 operation;
			u16 flags;
		};
		/* The operation in the lower half, the flags in the upper half. */
		u32 operation_and_flags;
	};
	u16 priority, segments;
	u32 device, context, group;
	u16 software_queue, hardware_queue;
};

struct hoist_core;

/*
 * The policy's own functions for the calls made for every request. The first two return an id, or a
 * negative value if `attention` must be checked, with the id or HOIST_NONE in the lower half.
 */
struct hoist_entries {
	/*
	 * Inserts a request that the core does not know yet and that the policy sorts; all others
	 * are inserted by hoist_insert.
	 */
	s64 (*insert)(struct hoist_core *core, const struct hoist_attributes *attributes, u64 now);
	s64 (*dispatch)(struct hoist_core *core, u16 queue, u64 now);
	/* Returns 0, or bits: HOIST_RUN_QUEUE, or another if `attention` must be checked. */
	u32 (*finish)(struct hoist_core *core, u32 id, u64 now);
};

/* Bits of `stalled`: nothing is dispatched before a completion or an insertion. */
#define HOIST_THROTTLED (1u << 0)

/*
 * Every handle begins with this. The glue (the C files of the module) only reads it, with two
 * exceptions: it stores the time to which its timer is set, and clears `attention`. The core sets
 * `attention` if the timer must be set earlier or a group must be removed.
 */
struct hoist_core {
	const struct hoist_entries *entries;
	u64 policy_at_bytes;
	u64 timer_at_ns, armed_at_ns;
	u32 queued, has_work, stalled, dying_group, search, attention;
};

struct hoist_stats {
	u64 inserted, dispatched, finished, requeued, bios_merged, absorbed, dispatch_calls, holds, throttled, timers;
	u64 faults, groups, contexts, groups_refused, contexts_refused, in_driver;
};

/* A text that is not terminated. */
struct hoist_line {
	const char *text;
	u64 bytes;
};

struct hoist_row {
	struct hoist_line name;
	s64 min, max;
	u32 refuses, words, decimal, unused;
};

struct hoist_message {
	struct hoist_line text;
	u32 group, context, is_sync, unused;
	u64 numbers[8];
};

struct hoist_record {
	u32 call, id;
	u64 now_ns;
	struct hoist_ask ask;
	u64 answer, answer_more;
};

_Static_assert(sizeof(struct hoist_config) == 64, "config");
_Static_assert(sizeof(struct hoist_ask) == 32, "ask");
_Static_assert(sizeof(struct hoist_core) == 56, "core");
_Static_assert(sizeof(struct hoist_attributes) == 40 && offsetof(struct hoist_attributes, operation) == 16 &&
	       offsetof(struct hoist_attributes, flags) == 18 && offsetof(struct hoist_attributes, device) == 24 &&
	       offsetof(struct hoist_attributes, hardware_queue) == 38, "attributes");
_Static_assert(sizeof(struct hoist_stats) == 16 * 8, "stats");
_Static_assert(sizeof(struct hoist_row) == 48, "row");
_Static_assert(sizeof(struct hoist_message) == 96, "message");
_Static_assert(sizeof(struct hoist_record) == 64, "record");

u32 hoist_core_abi(void);
u32 hoist_elevator_types(void);
bool hoist_elevator_type(u32 index, struct hoist_line *prefix, struct hoist_line *name, u32 *wants);
struct hoist_core *hoist_new(const struct hoist_config *config, u32 *error);
void hoist_delete(struct hoist_core *core);
void hoist_record(struct hoist_core *core, struct hoist_record *into, u64 room);
u64 hoist_recorded(struct hoist_core *core, u64 *lost);

u32 hoist_admit(struct hoist_core *core, const struct hoist_ask *ask, u64 now);
u32 hoist_allocate(struct hoist_core *core, const struct hoist_ask *ask, u64 now);
u32 hoist_insert(struct hoist_core *core, u32 known, const struct hoist_ask *ask, u32 at, u64 now);
u32 hoist_requeue(struct hoist_core *core, u32 id, u64 now);
bool hoist_has_work(struct hoist_core *core, u16 queue);

u32 hoist_find_merge(struct hoist_core *core, const struct hoist_ask *ask, u64 now, u32 *side);
bool hoist_may_merge(struct hoist_core *core, u32 id, const struct hoist_ask *ask);
void hoist_bio_merged(struct hoist_core *core, u32 id, u32 side, u64 sector, u32 sectors, u64 now);
u32 hoist_absorbed(struct hoist_core *core, u32 keep, u32 sectors, u32 gone, u64 now);
u32 hoist_neighbour(struct hoist_core *core, u32 id, bool is_behind);

u32 hoist_timer(struct hoist_core *core, u64 now);
void hoist_depth_changed(struct hoist_core *core, u32 requests, u32 device);
u32 hoist_group_added(struct hoist_core *core, u32 parent, u32 weight, u64 now);
u32 hoist_group_weighed(struct hoist_core *core, u32 group, u32 weight, u64 now);
void hoist_group_offline(struct hoist_core *core, u32 group, u64 now);
void hoist_release_group(struct hoist_core *core, u64 now);
u32 hoist_context_added(struct hoist_core *core);
u32 hoist_context_exited(struct hoist_core *core, u32 context, u64 now);

bool hoist_row(struct hoist_core *core, u32 index, struct hoist_row *row);
bool hoist_word(struct hoist_core *core, u32 index, u32 word, struct hoist_line *text);
bool hoist_setting(struct hoist_core *core, u32 index, s64 *value);
bool hoist_set(struct hoist_core *core, u32 index, s64 value);
void hoist_stats(struct hoist_core *core, struct hoist_stats *stats);
bool hoist_reason(struct hoist_core *core, u32 index, struct hoist_line *text, u64 *count);
void hoist_trace(struct hoist_core *core, bool is_on);
bool hoist_take_message(struct hoist_core *core, struct hoist_message *message);

#endif
