// What a lane has done lately: its frames, reduced to what the figures and strips need.

// Points of a strip, and requests of a picture.
const POINTS = 240;
const DISPATCHES = 1500;
const SAMPLES = 1200;
// Points before the latest whose latencies count for its percentile.
const SMOOTHED = 7;

export class LaneHistory {
  constructor(tenants, bucketStarts, windowNs) {
    this.tenants = tenants;
    this.bucketStarts = bucketStarts;
    this.windowNs = windowNs;
    this.points = [];
    this.dispatches = [];
    this.byNumber = new Map();
    this.samples = [];
    this.last = null;
    this.result = null;
    this.reasons = [];
  }

  take(nowNs, lane) {
    this.last = lane;
    if (lane.result) this.result = lane.result;
    if (lane.reasons.length) this.reasons = lane.reasons;
    const before = this.points.at(-1);
    if (!before || nowNs > before.at) this.#addPoint(nowNs, lane);
    // Where requests are missing between two frames the picture begins anew, so that it has no gaps.
    const latest = this.dispatches.at(-1);
    if (latest && lane.dispatches.length && lane.dispatches[0][0] > latest.number + 1) {
      this.dispatches = [];
      this.byNumber.clear();
    }
    for (const [number, at, sector, sectors, kind, tenant, reason] of lane.dispatches) {
      const dispatch = { number, at, sector, sectors, kind, tenant, reason, took: null };
      this.dispatches.push(dispatch);
      this.byNumber.set(number, dispatch);
    }
    for (const [number, took] of lane.served) {
      const dispatch = this.byNumber.get(number);
      if (dispatch) dispatch.took = took;
    }
    while (this.dispatches.length > DISPATCHES) this.byNumber.delete(this.dispatches.shift().number);
    this.samples.push(...lane.device);
    if (this.samples.length > SAMPLES) this.samples.splice(0, this.samples.length - SAMPLES);
  }

  #addPoint(at, lane) {
    const point = {
      at,
      bytes: lane.groups.map((group) => group.bytes),
      ios: lane.groups.map((group) => group.ios),
      latencies: lane.groups.map((group) => group.latencies),
      outstanding: lane.groups.map((group) => group.outstanding),
      waiting: lane.groups.map((group) => Math.max(0, group.outstanding - group.in_device)),
      reasons: this.reasons,
      // For the strips: rate and 99th percentile of the last few points, because one point may have too
      // few I/Os.
      rates: lane.groups.map(() => 0),
      p99: [],
    };
    const few = this.points.slice(-SMOOTHED).concat(point);
    point.p99 = lane.groups.map((_, tenant) => this.#percentile(few.map((it) => it.latencies[tenant]), 0.99));
    if (few.length > 1) {
      const span = (at - few[0].at) / 1e9;
      point.rates = point.bytes.map((bytes, tenant) => (bytes - few[0].bytes[tenant]) / span);
    }
    this.points.push(point);
    // Old points are needed for the strip, or for the window.
    const windowStart = at - this.windowNs;
    while (this.points.length > POINTS && this.points[1].at < windowStart) this.points.shift();
    // A slow run keeps many points in its window: every second one is enough.
    if (this.points.length > 8 * POINTS) this.#thin();
  }

  #thin() {
    const kept = [];
    for (let index = 0; index + 1 < this.points.length; index += 2) {
      const [a, b] = [this.points[index], this.points[index + 1]];
      kept.push({
        ...b,
        latencies: b.latencies.map((latencies, tenant) => [...a.latencies[tenant], ...latencies]),
        rates: b.rates.map((rate, tenant) => (rate + a.rates[tenant]) / 2),
        p99: b.p99.map((p99, tenant) => Math.max(p99, a.p99[tenant])),
      });
    }
    this.points = kept;
  }

  #percentile(lists, part) {
    const counts = new Map();
    let all = 0;
    for (const list of lists) {
      for (const [bucket, count] of list) {
        counts.set(bucket, (counts.get(bucket) ?? 0) + count);
        all += count;
      }
    }
    if (all === 0) return 0;
    let running = 0;
    for (const bucket of [...counts.keys()].sort((a, b) => a - b)) {
      running += counts.get(bucket);
      if (running >= part * all) {
        const [low, high] = [this.bucketStarts[bucket], this.bucketStarts[bucket + 1] ?? this.bucketStarts[bucket]];
        return (low + high) / 2;
      }
    }
    return 0;
  }

  // The figures of the last window: for each tenant its rate, share and percentiles.
  window() {
    const last = this.points.at(-1);
    const none = this.tenants.map(() => ({ rate: 0, ios: 0, share: 0, p50: 0, p99: 0, outstanding: 0, waiting: 0 }));
    if (!last || this.points.length < 2) return { spanNs: 0, rate: 0, tenants: none, reasons: [] };
    let first = this.points.length - 2;
    while (first > 0 && this.points[first].at > last.at - this.windowNs) first -= 1;
    const before = this.points[first];
    const span = (last.at - before.at) / 1e9;
    const bytes = last.bytes.map((now, tenant) => now - before.bytes[tenant]);
    const all = bytes.reduce((sum, it) => sum + it, 0);
    const recent = this.points.slice(first + 1);
    const tenants = bytes.map((got, tenant) => {
      const lists = recent.map((point) => point.latencies[tenant]);
      return {
        rate: got / span,
        ios: (last.ios[tenant] - before.ios[tenant]) / span,
        share: all > 0 ? got / all : 0,
        p50: this.#percentile(lists, 0.5),
        p99: this.#percentile(lists, 0.99),
        outstanding: mean(recent.map((point) => point.outstanding[tenant])),
        waiting: mean(recent.map((point) => point.waiting[tenant])),
      };
    });
    return { spanNs: last.at - before.at, rate: all / span, tenants, reasons: this.#choices(before, last) };
  }

  // How often each reason was given for a choice between two points; those for holding requests back are left out.
  #choices(before, last) {
    const given = new Set(this.dispatches.map((dispatch) => dispatch.reason));
    return last.reasons.map((count, reason) => (given.has(reason) ? count - (before.reasons[reason] ?? 0) : 0));
  }

  // The points of the strips.
  strip() {
    return this.points.slice(-POINTS);
  }
}

const mean = (values) => values.reduce((sum, it) => sum + it, 0) / Math.max(1, values.length);
