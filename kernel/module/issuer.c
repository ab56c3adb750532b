// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Issuers: the kernel keeps an icq per I/O context (usually a process) and device; ours contains
 * the policy's id of the issuer.
 */
#include "hoist.h"

void hoist_init_icq(struct io_cq *icq)
{
	struct hoist_device *device = hoist_device_of(icq->q);
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	container_of(icq, struct hoist_icq, icq)->id = hoist_context_added(device->core);
	spin_unlock_irqrestore(&device->lock, flags);
}

void hoist_exit_icq(struct io_cq *icq)
{
	struct hoist_device *device = hoist_device_of(icq->q);
	unsigned long flags;
	u32 effect;

	spin_lock_irqsave(&device->lock, flags);
	effect = hoist_context_exited(device->core, container_of(icq, struct hoist_icq, icq)->id, hoist_now(device));
	hoist_arm_timer(device);
	spin_unlock_irqrestore(&device->lock, flags);
	if (effect & HOIST_RUN_QUEUE)
		hoist_run_all(device);
}
