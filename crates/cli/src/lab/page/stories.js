// Eleven guided stories. Each step starts a state, or changes the running one, and lets it run for a while.
// `pace` is the place on the slider of speeds; the loads are those of the shipped scenarios.

import { tenant } from "./state.js";

const on = (device, tenants, schedulers, more = {}) => ({ device: `model:${device}`, seed: 1, length_ms: 60000, tenants, schedulers, ...more });
const given = (name, weight, workload, more = {}) => tenant(name, weight, 1, { workload, ...more });
const load = (index, depth, block = 4096, read = 100, random = true) => ({ what: "load", tenant: index, depth, block, read, random });

const writeBomb = (schedulers) => on("sata,queue_depth=1,write_cache=0", [
  given("bomb", 100, "bsw:bs=1m,size=1000m"),
  given("reader", 100, "brr:bs=4k,size=20g,thinktime=100ms"),
], schedulers, { machine: "era=2.4,memory_mib=128" });

const groupReaders = (schedulers) => on("raid5x12", [100, 200, 300, 400].map((weight, index) => given(`g${index + 1}`, weight, "bsr:size=512M", { more: "threads=4" })),
  schedulers, { machine: "era=2.6,read_ahead_kib=128,copy_mb_per_s=1800,complete_ns=15000,memory_mib=1024" });

const interleaved = (schedulers) => on("sata", [
  given("readers", 100, "drr:rw=read:32k,bs=16k,iodepth=1,offset_increment=16k,size=8G", { more: "threads=3" }),
], schedulers, { machine: "era=2.6" });

const levels = (depth, schedulers) => on("ssd-lsi", [
  tenant("a", 60, depth, { more: "cgroup=root,ioprio=be/2" }),
  tenant("b", 20, depth, { more: "cgroup=root,ioprio=be/6" }),
], schedulers, { machine: "era=3" });

const fourGroups = (schedulers) => on("ssd-lsi", [
  tenant("turns", 100, 4),
  given("cycles", 100, "read:bs=64k,iodepth=4,percentage_random=10"),
  given("film", 100, "read:bs=64k,thinktime=40ms,size=500m"),
], schedulers, { machine: "era=3" });

export const STORIES = [
  {
    title: "The write bomb of 2003",
    steps: [
      {
        text: "One process writes the same gigabyte again and again through the page cache; another reads a page now and then and waits for it. This is Linux 2.4 on a disk that takes one command at a time. In the left lane the elevator of that time sorts everything into one list.",
        state: writeBomb(["linus@2.4.20", "deadline@2.6.0"]), pace: 11, run_ms: 12000,
      },
      {
        text: "Look at the reader's latency: in one sorted list a read can stand behind hundreds of writes, and the reader gets a fraction of what it could have. In the right lane the deadline scheduler of 2.6 prefers reads, and lets writes through before they starve.",
        pace: 11, run_ms: 8000,
      },
      {
        text: "Another answer of 2003 was nas: a read overtakes as many writes as there are more writes than reads, so that neither direction starves. Compare the reader's median latency (p50) in the three lanes, and what the writer gets: about the same in each.",
        state: writeBomb(["linus@2.4.20", "deadline@2.6.0", "nas"]), pace: 12, run_ms: 20000,
      },
    ],
  },
  {
    title: "CFQ's idling on an array, 2010",
    steps: [
      {
        text: "Four groups with weights 100 to 400, of four readers each, read files through the page cache from an array of twelve disks. CFQ gives one reader at a time its slice, and waits for it at the end of each request. The array then works like a single disk: see how few of its rows are busy.",
        state: groupReaders(["cfq@2.7:slice_idle=8,quantum=8,group_isolation=1"]), pace: 9, run_ms: 3000,
      },
      {
        text: "In the right lane slice_idle is 0. CFQ no longer waits for single readers, so that several disks work at once. The total is four times as high, and since the patches of 2010 it is still divided about by weight, because CFQ waits for groups. (Nobody gets all of what is due: between readers the heads have to move.)",
        state: groupReaders(["cfq@2.7:slice_idle=8,quantum=8,group_isolation=1", "cfq@2.7:slice_idle=0,quantum=8,group_isolation=1"]), pace: 9, run_ms: 4000,
      },
    ],
  },
  {
    title: "BFQ's queue merging",
    steps: [
      {
        text: "Three processes read a file together: the first reads blocks 1, 4, 7 ..., the second 2, 5, 8 ..., the third the rest. Alone, each of them skips; together they read in sequence. CFQ of 2.6.26 gives each process a turn of its own: in each turn the disk passes over two blocks out of three.",
        state: interleaved(["cfq@2.6.26"]), pace: 9, run_ms: 3000,
      },
      {
        text: "bfq, in the right lane, sees that the requests of the three are neighbours and puts them into one queue. The disk reads on, more than three times as fast. CFQ learned the same in 2.6.35. Point at the marks to see the reasons.",
        state: interleaved(["cfq@2.6.26", "bfq"]), pace: 9, run_ms: 4000,
      },
    ],
  },
  {
    title: "2:6 on flash, 2016",
    steps: [
      {
        text: "The question of 2016: does a proportional share on flash need idling? Two readers of 4 KiB with the I/O priorities 2 and 6, which stand for 3:1, with one request at a time each. CFQ does not wait on flash, and both get the same: there is never anything to choose from. Nobody misses anything, either: each has what it would have alone.",
        state: levels(1, ["cfq"]), pace: 7, run_ms: 1000,
      },
      {
        text: "bfq waits for the reader whose turn it is, with small budgets, and makes it 3:1 exactly. The price is half of the throughput, and b pays it: it gets a quarter of what it would have alone.",
        state: levels(1, ["cfq", "bfq@4.12:low_latency=0,max_budget=8"]), pace: 8, run_ms: 2000,
      },
      {
        text: "Now each has eight outstanding. bfq keeps 3:1, and the price is smaller: about a third, because in its turn a reader keeps more of the device busy.",
        changes: [load(0, 8), load(1, 8)], pace: 8, run_ms: 2500,
      },
      {
        text: "With 32 outstanding there is always something to choose from. wfq and paternoster serve both at the same time, choose only the order, and have 3:1 at full throughput, without idling. (They divide groups, so here the two are groups of weight 60 and 20.)",
        state: on("ssd-lsi", [tenant("a", 60, 32), tenant("b", 20, 32)], ["bfq:low_latency=0", "wfq", "paternoster"]), pace: 8, run_ms: 1500,
      },
    ],
  },
  {
    title: "Four groups, one of them a film, 2016",
    steps: [
      {
        text: "The experiment that both sides of 2016 agreed on, in short: one group reads at random, one nearly in sequence, one plays a film (64 KiB every 40 ms), all with the same weight. CFQ gives a group the device for a turn, and the film waits a tenth of a second for its own: it stutters. BFQ, in the right lane, has it served in a few milliseconds.",
        state: fourGroups(["cfq@4.7", "bfq@v8r3"]), pace: 8, run_ms: 2500,
      },
      {
        text: "Both pay with throughput, as only one group at a time is served. paternoster keeps requests of all three in the drive: the film waits less than a millisecond, and all together get more than twice as much. Throttling, the third proposal of 2016, is in the scenario four-groups-2016, with the starts of an application.",
        state: fourGroups(["cfq@4.7", "bfq@v8r3", "paternoster"]), pace: 8, run_ms: 2500,
      },
    ],
  },
  {
    title: "Why two readers of depth 1 cannot have 3:1 for free",
    steps: [
      {
        text: "Two readers, each with one request at a time; their weights are 3:1. Without a scheduler both are served at once, as fast as the device can: 1:1. There is never a choice, since no request ever waits, and each has what it would have alone: that is all that is due to it.",
        state: on("ssd", [tenant("a", 300, 1), tenant("b", 100, 1)], ["none"]), pace: 6, run_ms: 600,
      },
      {
        text: "The only way to give b less is to let it wait while the device could serve it. paternoster with give=0 never does that. With give=100 it may give up any throughput for the weights: 3:1 to the letter, a third less together, and b has a third of what it could have.",
        state: on("ssd", [tenant("a", 300, 1), tenant("b", 100, 1)], ["paternoster:give=0", "paternoster:give=100"]), pace: 8, run_ms: 3000,
      },
      {
        text: "With 32 outstanding each there is always something to choose from. Now 3:1 is due, and costs nothing: the choice of the order is enough.",
        changes: [load(0, 32), load(1, 32)], pace: 8, run_ms: 2500,
      },
    ],
  },
  {
    title: "What give buys",
    steps: [
      {
        text: "shallow has the larger weight and only 4 requests outstanding; deep has 32. What shallow does alone is due to it, and the rest to deep. All of shallow's requests are in the device already, so it can only get more if deep's are held back, and the device is left emptier. give says how much throughput that may cost, in percent.",
        state: on("ssd-lsi", [tenant("deep", 100, 32), tenant("shallow", 800, 4)], ["paternoster:give=0", "paternoster:give=10", "paternoster:give=100"]), pace: 8, run_ms: 1500,
      },
      {
        text: "From left to right shallow gets more and the total falls. At 100 the weights hold to the letter, 8:1, and deep gets next to nothing of what shallow leaves: a little give is enough for what is due. Move the slider of give in one of the lanes while it runs.",
        pace: 8, run_ms: 1000,
      },
      {
        text: "With 32 outstanding for shallow as well there is always something to choose from. The promise costs nothing, and the three lanes do the same.",
        state: on("ssd-lsi", [tenant("deep", 100, 32), tenant("shallow", 800, 32)], ["paternoster:give=0", "paternoster:give=10", "paternoster:give=100"]), pace: 8, run_ms: 1500,
      },
    ],
  },
  {
    title: "A noisy neighbour, and its cure",
    steps: [
      {
        text: "A database reads 4 KiB at a time with 32 outstanding, alone on an SSD. Remember its throughput and its latency.",
        state: on("ssd", [tenant("db", 400, 32), tenant("batch", 100, 128, { on: false })], ["none", "paternoster"]), pace: 7, run_ms: 1000,
      },
      {
        text: "Now batch begins, with 128 outstanding. In the left lane, without a scheduler, each tenant gets as much as it asks for: the database keeps a fifth, and waits five times as long. In the right lane paternoster knows the weights 400 and 100: the database keeps four fifths.",
        changes: [{ what: "on", tenant: 1, on: true }], pace: 7, run_ms: 2500,
      },
      {
        text: "If that is not enough, change the promise: the database's weight goes to 3000 while everything runs. The left lane does not care.",
        changes: [{ what: "weight", tenant: 0, weight: 3000 }], pace: 7, run_ms: 2000,
      },
    ],
  },
  {
    title: "To and fro, or one after the other: a disk",
    steps: [
      {
        text: "Three readers read in sequence, each in its own part of a disk. Look at the picture: mq-deadline sorts what waits and goes to and fro between the three, with a seek for nearly every request.",
        state: on("sata", ["a", "b", "c"].map((name) => tenant(name, 100, 1, { block: 32768, random: false })), ["mq-deadline"]), pace: 8, run_ms: 2000,
      },
      {
        text: "bfq stays with one reader for its turn and waits a moment for its next request: long lines instead of a zigzag, and twenty times as much for each. On a disk, waiting is much cheaper than a seek.",
        state: on("sata", ["a", "b", "c"].map((name) => tenant(name, 100, 1, { block: 32768, random: false })), ["mq-deadline", "bfq:low_latency=0"]), pace: 9, run_ms: 4000,
      },
      {
        text: "With weights the turns have different lengths: c is due four times as much as a now.",
        changes: [{ what: "weight", tenant: 2, weight: 400 }], pace: 9, run_ms: 6000,
      },
    ],
  },
  {
    title: "Unclaimed shares",
    steps: [
      {
        text: "Three tenants with weights 400, 200 and 100, all with much to do. Each gets its part of the whole, which is what is due to it.",
        state: on("ssd", [tenant("db", 400, 32), tenant("web", 200, 32), tenant("batch", 100, 32)], ["paternoster"]), pace: 7, run_ms: 1200,
      },
      {
        text: "The database stops. A share is not a limit: what it leaves goes to the others, 2:1, and the device stays full.",
        changes: [{ what: "on", tenant: 0, on: false }], pace: 7, run_ms: 1500,
      },
      {
        text: "It comes back and has its part at once. It gets no credit for the time in which it asked for nothing: the others need not pay it back.",
        changes: [{ what: "on", tenant: 0, on: true }], pace: 7, run_ms: 1500,
      },
    ],
  },
  {
    title: "Readers beside a writer on flash",
    steps: [
      {
        text: "A reader with 8 outstanding beside a writer with 64. The SSD takes writes into its buffer quickly and programs its dies later: orange in the picture below. A read that meets a program on its die waits for it.",
        state: on("ssd", [tenant("reader", 300, 8), tenant("writer", 100, 64, { read: 0, block: 65536 })], ["none", "kyber"]), pace: 7, run_ms: 1500,
      },
      {
        text: "kyber, in the right lane, limits how many writes are in the device at once, so that reads meet their goal for latency. It knows no weights.",
        pace: 7, run_ms: 1500,
      },
      {
        text: "paternoster looks at the weights, whatever the direction: the reader gets most of what is due to it, though not all, since some programs are still in its way. Compare the reader's 99th percentile in the three lanes.",
        state: on("ssd", [tenant("reader", 300, 8), tenant("writer", 100, 64, { read: 0, block: 65536 })], ["none", "kyber", "paternoster"]), pace: 7, run_ms: 2000,
      },
    ],
  },
];
