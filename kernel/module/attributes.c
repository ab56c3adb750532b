// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The interface to user space: iosched/ files generated from the policies' tunables, iosched/stats,
 * the recorded calls in debugfs, and the policies' messages in blktrace.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/blktrace_api.h>
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "hoist.h"

#define ROWS_MAX 40
#define VALUE_BYTES 32

/* ---- tunables ---- */

static ssize_t show_row(struct elevator_queue *eq, char *page, u32 row)
{
	struct hoist_device *device = eq->elevator_data;
	struct hoist_row desc;
	struct hoist_line word;
	bool has_row, is_word = false;
	s64 value = 0;

	spin_lock_irq(&device->lock);
	has_row = hoist_row(device->core, row, &desc) && hoist_setting(device->core, row, &value);
	if (has_row && desc.words)
		is_word = hoist_word(device->core, row, value, &word);
	spin_unlock_irq(&device->lock);
	if (!has_row)
		return -EINVAL;
	if (is_word)
		return sysfs_emit(page, "%.*s\n", (int)word.bytes, word.text);
	return sysfs_emit(page, "%lld\n", value);
}

/*
 * Parses a value: a word if the tunable has words, else a number in the form of the kernel's own
 * files.
 */
static int parse_row(struct hoist_device *device, u32 row, const struct hoist_row *desc, const char *text, s64 *value)
{
	struct hoist_line word;
	u64 number;
	u32 i;
	int error;

	for (i = 0; i < desc->words; i++) {
		if (hoist_word(device->core, row, i, &word) && strlen(text) == word.bytes &&
		    !memcmp(text, word.text, word.bytes)) {
			*value = i;
			return 0;
		}
	}
	if (!desc->decimal)
		return kstrtoll(text, 0, value);
	error = kstrtou64(text, 10, &number);
	*value = min_t(u64, number, S64_MAX);
	return error;
}

static ssize_t store_row(struct elevator_queue *eq, const char *page, size_t bytes, u32 row)
{
	struct hoist_device *device = eq->elevator_data;
	char text[VALUE_BYTES];
	struct hoist_row desc;
	s64 value = 0;
	int error = -EINVAL;

	if (strscpy(text, page, sizeof(text)) < 0)
		return -EINVAL;
	spin_lock_irq(&device->lock);
	if (hoist_row(device->core, row, &desc))
		error = parse_row(device, row, &desc, strim(text), &value);
	if (!error && !hoist_set(device->core, row, value))
		error = -ERANGE;
	hoist_arm_timer(device);
	spin_unlock_irq(&device->lock);
	/*
	 * With the new value the policy may dispatch requests that it held back, so the queues are
	 * run.
	 */
	if (!error)
		hoist_run_all(device);
	return error ? error : bytes;
}

/*
 * The kernel does not pass the file to show and store, so each tunable needs a pair of functions.
 */
#define ROW(n)                                                                                        \
	static ssize_t show_##n(struct elevator_queue *eq, char *page) { return show_row(eq, page, n); } \
	static ssize_t store_##n(struct elevator_queue *eq, const char *page, size_t bytes)           \
	{                                                                                             \
		return store_row(eq, page, bytes, n);                                                 \
	}
#define EACH_ROW(DO)                                                                                  \
	DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13)       \
	DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) DO(24) DO(25) DO(26)    \
	DO(27) DO(28) DO(29) DO(30) DO(31) DO(32) DO(33) DO(34) DO(35) DO(36) DO(37) DO(38) DO(39)
EACH_ROW(ROW)

#define PAIR(n) { .show = show_##n, .store = store_##n },
static const struct {
	ssize_t (*show)(struct elevator_queue *eq, char *page);
	ssize_t (*store)(struct elevator_queue *eq, const char *page, size_t bytes);
} pairs[] = { EACH_ROW(PAIR) };
static_assert(ARRAY_SIZE(pairs) == ROWS_MAX);

/* ---- counters ---- */

static ssize_t show_stats(struct elevator_queue *eq, char *page)
{
	struct hoist_device *device = eq->elevator_data;
	struct hoist_stats stats;
	struct hoist_line text;
	u64 count, lost, written, overflowed;
	u32 queued, i;
	int at;

	spin_lock_irq(&device->lock);
	hoist_stats(device->core, &stats);
	queued = device->core->queued;
	written = hoist_recorded(device->core, &lost);
	overflowed = device->overflowed;
	spin_unlock_irq(&device->lock);
	at = sysfs_emit(page,
			"inserted %llu\ndispatched %llu\nfinished %llu\nrequeued %llu\nbios_merged %llu\nabsorbed %llu\n"
			"queued %u\nin_driver %llu\ndispatch_calls %llu\nholds %llu\nthrottled %llu\ntimers %llu\n"
			"groups %llu\ncontexts %llu\ngroups_refused %llu\ncontexts_refused %llu\nspilled %llu\n"
			"faults %llu\nrecorded %llu\nunrecorded %llu\n",
			stats.inserted, stats.dispatched, stats.finished, stats.requeued, stats.bios_merged, stats.absorbed,
			queued, stats.in_driver, stats.dispatch_calls, stats.holds, stats.throttled, stats.timers, stats.groups,
			stats.contexts, stats.groups_refused, stats.contexts_refused, overflowed, stats.faults, written, lost);
	for (i = 0; hoist_reason(device->core, i, &text, &count); i++)
		at += sysfs_emit_at(page, at, "reason \"%.*s\" %llu\n", (int)text.bytes, text.text, count);
	return at;
}

static ssize_t show_advice(struct elevator_queue *eq, char *page)
{
	return sysfs_emit(page, "%u\n", hoist_advised_requests(eq->elevator_data));
}

/* ---- the files of an elevator type ---- */

/* Only a policy knows its tunables, so one is built here, for the smallest possible device. */
int hoist_create_files(struct hoist_kind *kind)
{
	struct hoist_config config = { .policy = kind->policy, .slots = 1, .groups = 1, .contexts = 1, .requests = 1,
				       .device = 1, .max_sectors = 8, .hardware_queues = 1, .software_queues = 1 };
	struct hoist_row row;
	struct hoist_core *core;
	u32 error = 0, rows = 0;

	core = hoist_new(&config, &error);
	if (!core)
		return error == 1 ? -ENOMEM : -EINVAL;
	while (hoist_row(core, rows, &row))
		rows++;
	kind->files = rows <= ROWS_MAX ? kcalloc(rows + 3, sizeof(*kind->files), GFP_KERNEL) : NULL;
	if (!kind->files) {
		hoist_delete(core);
		pr_err("%s: %u tunables, at most %u\n", kind->name, rows, ROWS_MAX);
		return rows <= ROWS_MAX ? -ENOMEM : -EINVAL;
	}
	for (kind->rows = 0; kind->rows < rows; kind->rows++) {
		struct elv_fs_entry *file = &kind->files[kind->rows];

		hoist_row(core, kind->rows, &row);
		/* The attributes are not part of the module's data, so lockdep requires a key. */
		sysfs_attr_init(&file->attr);
		file->attr.name = kstrndup(row.name.text, row.name.bytes, GFP_KERNEL);
		file->attr.mode = 0644;
		file->show = pairs[kind->rows].show;
		file->store = pairs[kind->rows].store;
		if (!file->attr.name)
			break;
	}
	hoist_delete(core);
	if (kind->rows < rows) {
		hoist_remove_files(kind);
		return -ENOMEM;
	}
	sysfs_attr_init(&kind->files[rows].attr);
	kind->files[rows].attr.name = "stats";
	kind->files[rows].attr.mode = 0444;
	kind->files[rows].show = show_stats;
	if (kind->wants & HOIST_WANTS_GROUPS) {
		sysfs_attr_init(&kind->files[rows + 1].attr);
		kind->files[rows + 1].attr.name = "nr_requests_advised";
		kind->files[rows + 1].attr.mode = 0444;
		kind->files[rows + 1].show = show_advice;
	}
	return 0;
}

void hoist_remove_files(struct hoist_kind *kind)
{
	u32 i;

	for (i = 0; kind->files && i < kind->rows; i++)
		kfree(kind->files[i].attr.name);
	kfree(kind->files);
	kind->files = NULL;
	kind->rows = 0;
}

/* ---- messages ---- */

/* Formats a message with its numbers: {0} unsigned, {0i} signed. */
static void write_message(const struct hoist_message *message, char *line, size_t room)
{
	const char *text = message->text.text, *end = text + message->text.bytes;
	size_t at = 0;

	if (message->context != HOIST_NONE)
		at += scnprintf(line, room, "%u%c ", message->context, message->is_sync ? 'S' : 'A');
	if (message->group != HOIST_NONE)
		at += scnprintf(line + at, room - at, "g%u ", message->group);
	while (text < end && at + 1 < room) {
		if (*text == '{' && end - text >= 3 && text[1] >= '0' && text[1] <= '7') {
			u64 number = message->numbers[text[1] - '0'];

			if (text[2] == 'i') {
				at += scnprintf(line + at, room - at, "%lld", (s64)number);
				text += 4;
			} else {
				at += scnprintf(line + at, room - at, "%llu", number);
				text += 3;
			}
			continue;
		}
		line[at++] = *text++;
	}
	line[min(at, room - 1)] = 0;
}

/* Called without the lock, in a context that must not sleep. */
void hoist_emit_messages(struct hoist_device *device)
{
	char line[BLK_TN_MAX_MSG];
	struct hoist_message message;
	unsigned long flags;
	bool has_message;

	do {
		spin_lock_irqsave(&device->lock, flags);
		has_message = hoist_take_message(device->core, &message);
		spin_unlock_irqrestore(&device->lock, flags);
		if (!has_message)
			break;
		write_message(&message, line, sizeof(line));
		blk_add_trace_msg(device->q, "%s", line);
	} while (true);
}

/* ---- recorded calls ---- */

static struct dentry *root;

static ssize_t read_calls(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct hoist_device *device = file_inode(file)->i_private;
	u64 written, lost;

	spin_lock_irq(&device->lock);
	written = hoist_recorded(device->core, &lost);
	spin_unlock_irq(&device->lock);
	return simple_read_from_buffer(to, count, at, device->records, written * sizeof(*device->records));
}

static const struct file_operations calls_file = {
	.owner = THIS_MODULE,
	.read = read_calls,
	.llseek = default_llseek,
};

void hoist_show_calls(struct hoist_device *device)
{
	if (!device->records || !device->q->disk)
		return;
	device->folder = debugfs_create_dir(device->q->disk->disk_name, root);
	debugfs_create_file("calls", 0400, device->folder, device, &calls_file);
	debugfs_create_blob("config", 0400, device->folder, &device->config_blob);
}

void hoist_hide_calls(struct hoist_device *device)
{
	debugfs_remove(device->folder);
	device->folder = NULL;
}

void hoist_debugfs_init(void)
{
	root = debugfs_create_dir("hoistway", NULL);
}

void hoist_debugfs_exit(void)
{
	debugfs_remove(root);
}
