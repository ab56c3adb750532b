/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the glue share: one elevator type, one device, one cgroup on one device. */
#ifndef HOIST_H
#define HOIST_H

#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/spinlock.h>

#include "hoist_core.h"
#include "hoist_priv.h"

#define HOIST_NAME_BYTES 16
#define HOIST_GROUPS 1024
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

/* A device under one of them. `lock` protects everything below it, and the core. */
struct hoist_device {
	struct request_queue *q;
	const struct hoist_kind *kind;
	spinlock_t lock;
	struct hoist_core *core;
	struct request **slots;
	u32 slot_count;
	/* Requests that the core does not know: it had no slot, or blk-mq will not tell of their end. First come, first served. */
	struct list_head spill;
	u64 spilled;
	/* The core said that a completion must come first. */
	bool is_throttled;
	/* Who is merging a bio: looked up before the lock is taken. */
	u32 bio_context;
	u32 bio_group;
	struct hrtimer timer;
	u64 armed_at_ns;
	bool is_traced;
	struct hoist_record *records;
	u64 record_room;
	struct dentry *folder;
	struct hoist_config config;
	struct debugfs_blob_wrapper config_blob;
};

struct hoist_icq {
	struct io_cq icq;
	u32 id;
};

static inline struct hoist_device *hoist_device_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* The core looks at the time once per call. */
static inline u64 hoist_now(void)
{
	return ktime_get_ns();
}

void hoist_timer_follows(struct hoist_device *device);
void hoist_bury(struct hoist_device *device);
void hoist_tell(struct hoist_device *device);

/* attributes.c */
int hoist_files_of(struct hoist_kind *kind);
void hoist_no_files_of(struct hoist_kind *kind);
void hoist_debugfs_init(void);
void hoist_debugfs_exit(void);
void hoist_show_calls(struct hoist_device *device);
void hoist_hide_calls(struct hoist_device *device);

/* cgroup.c */
int hoist_groups_init(void);
void hoist_groups_exit(void);
int hoist_groups_on(struct hoist_device *device);
void hoist_groups_off(struct hoist_device *device);
u32 hoist_group_of_bio(struct hoist_device *device, struct bio *bio);
u32 hoist_group_of_current(struct hoist_device *device);

#endif
