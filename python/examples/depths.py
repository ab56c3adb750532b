"""A sweep: how much of a disk do exact shares cost, at each depth?"""

import hoistway

space = {
    "target": "model:ssd",
    "groups": {"db": 800, "ci": 100},
    "schedulers": ["none", "paternoster"],
    "depth": [1, 4, 16, 64],
    "workloads": "randread:bs=4k,iodepth={depth}",
    "seed": range(1, 4),
    "runtime_s": 0.5,
    "ramp_s": 0.5,
}
sweep = hoistway.sweep(space, path="depths.parquet")
frame = sweep.to_pandas()
print(frame.groupby(["depth", "scheduler", "group"])[["ios_per_s", "share"]].mean())
