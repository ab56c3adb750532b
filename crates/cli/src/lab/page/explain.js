// What the figures of a lane mean, in words: of the same window as the table above them.

import { nameOf, percent, rate, time } from "./state.js";

// A tenant that got this part of what is due to it is not said to miss anything: `hoistway test` chooses winners
// among schedulers whose isolation differs by less.
const ENOUGH = 0.9;

// Parts of what is due that differ by no more than this are called alike.
const ALIKE = 1.5;

// `window` are the figures of the last window, `lane` the last frame of the lane, `best` the other lane with the
// highest rate.
export function explain({ state, spec, entry, facts, lane, window, best }) {
  const names = state.tenants.map((tenant) => tenant.name);
  const active = names.map((_, index) => index).filter((index) => !lane.groups[index].rests);
  if (active.length === 0) return "All tenants rest.";
  if (window.spanNs === 0) return "Nothing has happened yet: press Run.";
  const says = [];
  const name = nameOf(spec);
  const parts = active.map((index) => ({ index, part: fulfilled(lane.groups[index], window.tenants[index]) })).filter((it) => it.part !== null);
  if (active.length === 1) {
    says.push(`Only ${names[active[0]]} issues requests, and gets all there is: ${rate(window.rate)} in the last ${time(window.spanNs)}.`);
  } else if (parts.length > 0) {
    const { index: worst, part } = parts.reduce((a, b) => (b.part < a.part ? b : a));
    const told = `${names[worst]} got ${rate(window.tenants[worst].rate)} of the ${rate(lane.groups[worst].due_bytes_per_s)} that are due to it`;
    const most = Math.max(...parts.map((it) => it.part));
    if (part >= 0.995) says.push(`In the last ${time(window.spanNs)} every tenant got all that is due to it.`);
    else if (part >= ENOUGH) says.push(`In the last ${time(window.spanNs)} every tenant got what is due to it, or nearly: ${told}.`);
    else if (parts.length > 1 && most <= ALIKE * part) {
      const range = `${percent(part)} to ${percent(most)}`;
      says.push(`In the last ${time(window.spanNs)} the tenants got ${range} of what is due to them: divided about as due, but the device does less than it could. ${told[0].toUpperCase()}${told.slice(1)}.`);
    } else says.push(`In the last ${time(window.spanNs)} ${told} (${percent(part)}). ${whyNot(worst, { entry, window, name })}`);
  }
  if (best && areAlike(state.tenants) && window.rate < ENOUGH * best.rate) {
    says.push(`Together ${rate(window.rate)}, ${percent(1 - window.rate / best.rate)} less than under ${best.name}: ${cost(facts)}`);
  }
  const total = window.reasons.reduce((sum, count) => sum + count, 0);
  if (total > 0 && facts.reasons.length > 1) {
    const at = window.reasons.indexOf(Math.max(...window.reasons));
    const { name: reason, meaning } = facts.reasons[at];
    says.push(`${percent(window.reasons[at] / total)} of the requests were chosen with the reason "${reason}"${meaning ? `: ${meaning}` : ""}.`);
  }
  return says.join(" ");
}

// Got / due; nothing if that is not known, or if nothing is due.
export function fulfilled(group, got) {
  return group.due_bytes_per_s > 0 ? Math.min(1, got.rate / group.due_bytes_per_s) : null;
}

function whyNot(tenant, { entry, window, name }) {
  if (!entry?.has_shares) return `${name} knows no weights: what a tenant gets depends on what it and the others ask for.`;
  // Less than one request in twenty waits for its turn.
  if (window.tenants[tenant].waiting < window.tenants[tenant].outstanding / 20) {
    return `All that it asks for is in the device already, beside the requests of the others: only holding more of those back would help it, and would leave the device emptier.`;
  }
  return `Its requests wait for their turn: ${name} serves the others first, or holds requests back.`;
}

// Whether bytes per second say how much the device does: all tenants have the same kind of request.
function areAlike(tenants) {
  const kind = ({ workload, block, read, random }) => workload || [block, read, random].join();
  return tenants.every((tenant) => kind(tenant) === kind(tenants[0]));
}

function cost(facts) {
  return facts.device.rotational
    ? "the head moves more, or waits for a tenant to come back."
    : "the device is not kept as full, because requests are held back.";
}
