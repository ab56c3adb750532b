"""Two tenants with weights share a simulated disk: what does each get, under four schedulers?"""

import matplotlib.pyplot as plt

import hoistway

outcome = hoistway.run(
    "model:ssd",
    groups={"db": 800, "ci": 100},
    workloads="randread:bs=4k,iodepth=32",
    schedulers=["none", "mq-deadline", "bfq", "paternoster"],
    runtime_s=1.0,
)
for row in outcome.rows:
    print(f"{row.scheduler:12} {row.group:3} share {row.share or 0:.2f} of {row.due or 0:.2f} due")
outcome.plot("shares")
plt.savefig("shares.png")
