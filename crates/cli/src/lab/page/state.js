// The state of the page: one value, which is also the link. See state.rs for its fields.

export function toLink(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return "#" + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// The state of a link; throws an error with its reason if there is none in it.
export function ofLink(fragment) {
  try {
    const text = atob(fragment.replace(/^#/, "").replaceAll("-", "+").replaceAll("_", "/"));
    const state = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    if (typeof state !== "object" || state === null || !Array.isArray(state.tenants) || !Array.isArray(state.schedulers)) {
      throw new Error("it holds no tenants and schedulers");
    }
    return state;
  } catch (error) {
    throw new Error(`This link is damaged: ${error.message}.`);
  }
}

export function tenant(name, weight, depth, more = {}) {
  return { name, weight, depth, block: 4096, read: 100, random: true, workload: "", more: "", on: true, ...more };
}

// The state with all its changes made to the start.
export function afterChanges(state) {
  const now = structuredClone(state);
  for (const change of now.changes ?? []) make(now, change);
  now.changes = [];
  return now;
}

// Makes one change to the tenants and schedulers of a state.
export function make(state, change) {
  if (change.what === "weight") state.tenants[change.tenant].weight = change.weight;
  if (change.what === "on") state.tenants[change.tenant].on = change.on;
  if (change.what === "load") {
    const { depth, block, read, random } = change;
    Object.assign(state.tenants[change.tenant], { depth, block, read, random });
  }
  if (change.what === "tunable") {
    const [name, settings = ""] = splitOnce(state.schedulers[change.lane], ":");
    const others = settings.split(",").filter((it) => it !== "" && it.split("=")[0] !== change.name);
    state.schedulers[change.lane] = `${name}:${[...others, `${change.name}=${change.value}`].join(",")}`;
  }
}

export function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)];
}

// The name of a scheduler without version and settings.
export const nameOf = (spec) => spec.split(/[@:]/)[0];

// Words for quantities.
export function time(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(ns >= 1e10 ? 1 : 2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(ns >= 1e8 ? 0 : ns >= 1e7 ? 1 : 2)} ms`;
  if (ns >= 1e3) return `${(ns / 1e3).toFixed(ns >= 1e5 ? 0 : 1)} µs`;
  return `${Math.round(ns)} ns`;
}

export function rate(bytesPerSecond) {
  if (bytesPerSecond > 0 && bytesPerSecond < 104857) return `${(bytesPerSecond / 1024).toPrecision(2)} KiB/s`;
  return `${inMib(bytesPerSecond)} MiB/s`;
}

// The number of MiB.
export function inMib(bytes) {
  const mib = bytes / 1048576;
  if (mib >= 10) return mib.toFixed(mib >= 100 ? 0 : 1);
  return mib > 0 && mib < 0.1 ? mib.toFixed(4) : mib.toFixed(2);
}

export function size(bytes) {
  if (bytes >= 1048576 && bytes % 1048576 === 0) return `${bytes / 1048576} MiB`;
  return bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} B`;
}

export const percent = (part) => `${(100 * part).toFixed(1)} %`;
