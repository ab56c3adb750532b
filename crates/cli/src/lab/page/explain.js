// What the figures of a lane mean, in words.

import { due } from "./history.js";
import { nameOf, percent, rate, size, time } from "./state.js";

// `window` are the figures of the last window, `lane` the last frame of the lane, `state` the settings now.
export function explain({ state, spec, entry, facts, lane, window, reasons, best }) {
  const says = [];
  const names = state.tenants.map((tenant) => tenant.name);
  const active = lane.groups.map((group, index) => index).filter((index) => !lane.groups[index].rests);
  if (window.spanNs === 0 || active.length === 0) return active.length === 0 ? "All tenants rest." : "Nothing has happened yet: press Run.";
  const shares = due(lane.groups);
  const span = time(window.spanNs);
  const name = nameOf(spec);
  if (active.length > 1) {
    const worst = active.reduce((a, b) => (gap(b, window, shares) > gap(a, window, shares) ? b : a));
    const told = `in the last ${span} ${names[worst]} got ${percent(window.tenants[worst].share)} of the bytes; by weight ${percent(shares[worst])} are due to it.`;
    if (gap(worst, window, shares) <= 0.02) says.push(`Every tenant gets what its weight promises. The farthest off: ${told}`);
    else if (!entry?.has_shares) says.push(`${name} knows no weights: ${told} What a tenant gets here depends on how much it asks for.`);
    else says.push(`I${told.slice(1)} ${whyNot(worst, { state, shares, window, lane, name })}`);
  } else {
    says.push(`Only ${names[active[0]]} issues requests, and gets all there is: ${rate(window.rate)}.`);
  }
  if (best && window.rate < 0.9 * best.rate) {
    says.push(`The device does ${rate(window.rate)} here, ${percent(1 - window.rate / best.rate)} less than under ${best.name}: ${cost(facts)}`);
  }
  const total = reasons.reduce((sum, count) => sum + count, 0);
  if (total > 0 && facts.reasons.length > 1) {
    const at = reasons.indexOf(Math.max(...reasons));
    const { name: reason, meaning } = facts.reasons[at];
    says.push(`${percent(reasons[at] / total)} of all requests were chosen with the reason "${reason}"${meaning ? `: ${meaning}` : ""}.`);
  }
  return says.join(" ");
}

const gap = (tenant, window, shares) => Math.abs(window.tenants[tenant].share - shares[tenant]);

function whyNot(tenant, { state, shares, window, lane, name }) {
  const { depth, block, workload } = state.tenants[tenant];
  const isBelow = window.tenants[tenant].share < shares[tenant];
  const load = workload ? "its load" : `${depth} outstanding of ${size(block)}`;
  if (isBelow && lane.groups[tenant].outstanding <= lane.groups[tenant].in_device) {
    return `All that it asks for is in the device already (${load}): no order of requests gives it more. ${name} could only hold the others back, and would leave the device idle for that.`;
  }
  if (isBelow) return `It has requests waiting (${load}); ${name} gives turns to the others, or has not yet made up for the past.`;
  const behind = shares.findIndex((share, other) => window.tenants[other].share < share - 0.02 && lane.groups[other].outstanding > lane.groups[other].in_device);
  if (behind >= 0) return `${state.tenants[behind].name} has requests waiting and is behind at the moment; ${name} makes up for that later.`;
  return "The others do not ask for enough to take up their part, and unclaimed capacity goes to the tenants that ask.";
}

function cost(facts) {
  return facts.device.rotational
    ? "the head moves more, or waits for a tenant to come back."
    : "the device is not kept as full, because requests are held back to keep the shares.";
}
