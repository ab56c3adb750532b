// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Weights that others set: systemd, runc, crun and Kubernetes write io.weight and io.bfq.weight.
 * These files belong to io.cost and to bfq, which do not say when a number changes. So this reads
 * them as any program does, through a mount of the hierarchy of its own: at once for a new group,
 * and once a second while groups use a device of ours. cgroup.c chooses among the numbers.
 */
#define pr_fmt(fmt) "hoistway: " fmt

#include <linux/cgroup.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "hoist.h"

#define CGROUPS "/sys/fs/cgroup"
/* A line has at most 26 characters, so this is 150 devices; the lines of further ones are not heard. */
#define TEXT_BYTES 4096

/* What the files of one group say. */
struct heard {
	char path[PATH_MAX];
	char weight[TEXT_BYTES];
	char bfq_weight[TEXT_BYTES];
};

/* Our mount of the hierarchy: NULL until it is found. */
static struct vfsmount *cgroups;
static DEFINE_MUTEX(cgroups_mutex);

static struct workqueue_struct *queue;
static void listen(struct work_struct *unused);
/* An idle processor is not woken for it. */
static DECLARE_DEFERRABLE_WORK(work, listen);
static unsigned long next_round;

/*
 * Called by a process, whose mounts show where the hierarchy is; kernel threads of Linux 7.3 have
 * none. A mount by type would set the mount options of the whole hierarchy anew.
 */
void hoist_find_cgroups(void)
{
	/* A switch of the elevator has frozen the queue: nothing may wait for I/O. */
	unsigned int noio = memalloc_noio_save();
	struct vfsmount *found;
	struct path path;

	mutex_lock(&cgroups_mutex);
	if (!cgroups && !kern_path(CGROUPS, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path)) {
		if (path.mnt->mnt_sb->s_magic == CGROUP2_SUPER_MAGIC && path.dentry == path.mnt->mnt_sb->s_root) {
			found = clone_private_mount(&path);
			if (!IS_ERR(found))
				smp_store_release(&cgroups, found);
		}
		path_put(&path);
	}
	mutex_unlock(&cgroups_mutex);
	memalloc_noio_restore(noio);
}

/* Reads a file of the group at `path`; without one the text is empty. */
static void read_file(struct vfsmount *mount, char *path, const char *name, char *text)
{
	struct path root = { .mnt = mount, .dentry = mount->mnt_root };
	size_t bytes = strlen(path);
	struct file *file;
	ssize_t count = 0;
	loff_t at = 0;

	snprintf(path + bytes, PATH_MAX - bytes, "/%s", name);
	file = file_open_root(&root, path, O_RDONLY, 0);
	path[bytes] = 0;
	if (!IS_ERR(file)) {
		count = kernel_read(file, text, TEXT_BYTES - 1, &at);
		filp_close(file, NULL);
	}
	text[max_t(ssize_t, count, 0)] = 0;
}

static void listen(struct work_struct *unused)
{
	struct vfsmount *mount = smp_load_acquire(&cgroups);
	struct heard *heard;
	struct blkcg *blkcg;

	heard = mount ? kmalloc(sizeof(*heard), GFP_KERNEL) : NULL;
	/* A new group is read at once, the others when the second is over. */
	if (time_after_eq(jiffies, next_round)) {
		hoist_begin_round();
		next_round = jiffies + HZ;
	}
	while (heard && (blkcg = hoist_next_in_round())) {
		if (cgroup_path(blkcg->css.cgroup, heard->path, PATH_MAX) > 0) {
			read_file(mount, heard->path, "io.weight", heard->weight);
			read_file(mount, heard->path, "io.bfq.weight", heard->bfq_weight);
			hoist_hear(blkcg, heard->weight, heard->bfq_weight);
		}
		css_put(&blkcg->css);
		cond_resched();
	}
	kfree(heard);
	if (hoist_has_groups())
		queue_delayed_work(queue, &work, max_t(long, next_round - jiffies, 1));
}

/* May be called under spinlocks. */
void hoist_listen_soon(void)
{
	mod_delayed_work(queue, &work, 0);
}

int hoist_listen_init(void)
{
	queue = alloc_workqueue("hoistway", WQ_UNBOUND, 1);
	next_round = jiffies;
	hoist_find_cgroups();
	return queue ? 0 : -ENOMEM;
}

/* Called when no device uses our elevators any more, or after hoist_listen_init has failed. */
void hoist_listen_exit(void)
{
	if (queue) {
		cancel_delayed_work_sync(&work);
		destroy_workqueue(queue);
	}
	if (cgroups)
		kern_unmount(cgroups);
	cgroups = NULL;
}
