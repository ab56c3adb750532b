// Drawings on canvas. Colours come from the style sheet, so that they follow light and dark; each
// tenant also has a shape of its own.

import { size, time } from "./state.js";

export const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "plus", "ring", "bar"];
const SHAPE_SIGNS = ["●", "■", "▲", "◆", "✕", "✚", "○", "▬"];
export const signOf = (tenant) => SHAPE_SIGNS[tenant % SHAPE_SIGNS.length];

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"), faint: value("--faint"), grid: value("--grid"), card: value("--card"), idle: value("--idle"),
    reads: value("--reads"), programs: value("--programs"), accent: value("--accent"),
    tenants: Array.from({ length: 8 }, (_, index) => value(`--t${index}`)),
  };
}

// Fits a canvas to its place, and returns its context in CSS pixels.
export function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  return { context, width, height };
}

function mark(context, shape, x, y, r, isHollow = false) {
  context.beginPath();
  if (shape === "circle" || shape === "ring") context.arc(x, y, r, 0, 2 * Math.PI);
  if (shape === "square") context.rect(x - r, y - r, 2 * r, 2 * r);
  if (shape === "bar") context.rect(x - 1.5 * r, y - r / 2, 3 * r, r);
  if (shape === "triangle") {
    context.moveTo(x, y - r);
    context.lineTo(x + r, y + r);
    context.lineTo(x - r, y + r);
    context.closePath();
  }
  if (shape === "diamond") {
    context.moveTo(x, y - 1.3 * r);
    context.lineTo(x + 1.3 * r, y);
    context.lineTo(x, y + 1.3 * r);
    context.lineTo(x - 1.3 * r, y);
    context.closePath();
  }
  if (shape === "cross" || shape === "plus") {
    const [a, b] = shape === "cross" ? [r, r] : [1.3 * r, 0];
    context.moveTo(x - a, y - b);
    context.lineTo(x + a, y + b);
    context.moveTo(x + b, y - a);
    context.lineTo(x - b, y + a);
  }
  const isLine = shape === "cross" || shape === "plus" || shape === "ring";
  if (isLine || isHollow) context.stroke();
  else context.fill();
}

const LEFT = 58;
const PARTS_HEIGHT = 74;
// The radius of a mark alone, and of one in a crowd.
const [MARK, MARK_DENSE] = [2.6, 1.3];

// Whether the device has parts that are drawn: disks of an array, channels and dies.
export const hasParts = (samples) => samples.length > 0 && !(samples[0].disks && samples[0].disks.length === 1);

// The sectors of the requests over time, and below what the parts of the device do. Returns where the
// requests were drawn, for the pointer.
export function drawDevice(canvas, history, facts, axes, selected) {
  const { context, width, height } = fitted(canvas);
  const colour = colours();
  const { from, to } = axes;
  const rows = history.dispatches.filter((row) => row.at >= from);
  const samples = history.samples.filter((sample) => sample.at_ns >= from);
  const withParts = hasParts(samples);
  const plotHeight = height - 16 - (withParts ? PARTS_HEIGHT : 0);
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - 8);
  // The part of the device in which the requests are.
  const [lowest, highest] = axes.highest >= axes.lowest ? [axes.lowest, axes.highest] : [0, facts.device.capacity_sectors];
  const y = (sector) => 8 + (1 - (sector - lowest) / Math.max(1, highest - lowest)) * (plotHeight - 16);
  context.strokeStyle = colour.grid;
  context.strokeRect(LEFT, 2.5, width - LEFT - 4, plotHeight - 5);
  context.fillStyle = colour.faint;
  context.textAlign = "right";
  context.fillText(position(highest), LEFT - 3, 13);
  context.fillText(position(lowest), LEFT - 3, plotHeight - 5);
  context.fillText("place", LEFT - 3, plotHeight / 2 + 4);
  if (samples.length && !withParts) drawHead(context, samples, x, y, from, colour);
  // Half of the mean distance between marks, so that a crowd keeps its colours.
  const distance = Math.sqrt(((width - LEFT) * plotHeight) / Math.max(1, rows.length));
  const radius = Math.min(MARK, Math.max(MARK_DENSE, distance / 4));
  const places = [];
  for (const row of rows) {
    const [px, py] = [x(row.at), y(row.sector)];
    const tone = row.tenant === null ? colour.faint : colour.tenants[row.tenant];
    context.fillStyle = tone;
    context.strokeStyle = tone;
    // Writes are hollow: only their outline is drawn, which covers no other mark.
    mark(context, SHAPES[(row.tenant ?? 6) % SHAPES.length], px, py, row.kind === "R" ? radius : radius + 0.6, row.kind !== "R");
    places.push({ x: px, y: py, row });
  }
  const chosen = places.find((place) => place.row.number === selected);
  if (chosen) {
    context.strokeStyle = colour.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(chosen.x, chosen.y, 7, 0, 2 * Math.PI);
    context.stroke();
    context.lineWidth = 1;
  }
  if (withParts) drawParts(context, samples, { top: plotHeight + 2, height: PARTS_HEIGHT - 6, left: x(samples[0].at_ns), right: x(to) }, colour);
  context.fillStyle = colour.faint;
  context.textAlign = "left";
  context.fillText(rows.length ? time(from) : "no request yet", LEFT, height - 3);
  context.textAlign = "center";
  context.fillText(`time: ${time(to - from)}`, LEFT + (width - LEFT) / 2, height - 3);
  context.textAlign = "right";
  context.fillText(time(to), width - 6, height - 3);
  return places;
}

// A place on the device.
const position = (sector) => (sector >= 2 ** 21 * 10 ? `${Math.round(sector / 2 ** 21)} GiB` : `${Math.round(sector / 2048)} MiB`);

// The head of a single disk: where it reads or writes.
function drawHead(context, samples, x, y, from, colour) {
  context.strokeStyle = colour.faint;
  context.beginPath();
  let drawn = false;
  for (const sample of samples) {
    const sector = sample.disks[0][1];
    if (sample.at_ns < from || sector === null) continue;
    if (drawn) context.lineTo(x(sample.at_ns), y(sector));
    else context.moveTo(x(sample.at_ns), y(sector));
    drawn = true;
  }
  context.stroke();
}

// One row for each disk, or for the channels and dies: a column for each sample. It is drawn as a small
// picture, one pixel for each, and enlarged.
function drawParts(context, samples, place, colour) {
  const isFlash = Boolean(samples[0].dies);
  const codesOf = (sample) => (isFlash ? [...sample.channels, ...sample.dies].map(Number) : sample.disks.map((disk) => disk[0]));
  const lanes = codesOf(samples[0]).length;
  const columns = samples.length;
  small.width = columns;
  small.height = lanes;
  const inner = small.getContext("2d");
  const pixels = inner.createImageData(columns, lanes);
  const tones = [colour.idle, colour.reads, colour.programs].map(rgb);
  samples.forEach((sample, column) => {
    codesOf(sample).forEach((code, lane) => {
      pixels.data.set([...tones[code], 255], 4 * (lane * columns + column));
    });
  });
  inner.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  const width = Math.max(1, place.right - place.left);
  context.drawImage(small, place.left, place.top, width, place.height);
  // Lines between the rows, where there is room for them.
  const rowHeight = place.height / lanes;
  const channels = isFlash ? samples[0].channels.length : 0;
  context.fillStyle = colour.card;
  for (let lane = 1; lane < lanes; lane += 1) {
    if (rowHeight > 4 || lane === channels) context.fillRect(place.left, place.top + lane * rowHeight - 0.5, width, 1);
  }
  context.fillStyle = colour.faint;
  context.textAlign = "right";
  context.fillText(isFlash ? "chan." : "disks", LEFT - 3, place.top + 10);
  if (isFlash) context.fillText("dies", LEFT - 3, place.top + channels * rowHeight + 14);
}

const small = document.createElement("canvas");

const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

// Lines of all tenants over time. `values` picks them from a point; `range` is that of all lanes; `isLog` has decades.
export function drawStrip(canvas, points, { values, range, isLog, label, names }) {
  const { context, width, height } = fitted(canvas);
  const colour = colours();
  if (range === null || points.length < 2) {
    context.fillStyle = colour.faint;
    context.fillText("nothing yet", LEFT, height / 2);
    return;
  }
  let [low, high] = [0, range[1] * 1.08];
  if (isLog) [low, high] = [10 ** Math.floor(Math.log10(range[0])), 10 ** Math.ceil(Math.log10(range[1]) + 1e-9)];
  const [place, bottom] = [LEFT, height - 16];
  const [from, to] = [points[0].at, points.at(-1).at];
  const x = (at) => place + ((at - from) / (to - from)) * (width - place - 6);
  const part = (value) => (isLog ? Math.log10(Math.max(value, low) / low) / Math.log10(high / low) : value / high);
  const y = (value) => bottom - part(value) * (bottom - 8);
  context.fillStyle = colour.faint;
  context.textAlign = "left";
  context.fillText(time(from), place, height - 3);
  context.textAlign = "right";
  context.fillText(time(to), width - 6, height - 3);
  context.textAlign = "right";
  for (const value of isLog ? decades(low, high) : [0, high / 2, high]) {
    context.strokeStyle = colour.grid;
    context.beginPath();
    context.moveTo(place, y(value));
    context.lineTo(width - 6, y(value));
    context.stroke();
    context.fillStyle = colour.faint;
    context.fillText(label(value), place - 4, Math.max(10, y(value) + 4));
  }
  names.forEach((_, tenant) => {
    context.strokeStyle = colour.tenants[tenant];
    context.fillStyle = colour.tenants[tenant];
    context.lineWidth = 1.8;
    context.setLineDash(DASHES[tenant % DASHES.length]);
    context.beginPath();
    let drawn = false;
    for (const point of points) {
      const value = values(point)[tenant];
      if (isLog && value <= 0) continue;
      if (drawn) context.lineTo(x(point.at), y(value));
      else context.moveTo(x(point.at), y(value));
      drawn = true;
    }
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  });
}

const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [1, 3], [4, 1], [10, 2, 2, 2, 2, 2]];

function decades(low, high) {
  const values = [];
  for (let value = low; value <= high * 1.001; value *= 10) values.push(value);
  return values;
}

// A dispatch in words.
export function words(row, names, reasons) {
  const does = { R: "reads", W: "writes", D: "discards", N: "flushes" }[row.kind];
  const who = row.tenant === null ? "the system" : names[row.tenant];
  const took = row.took === null ? "still in the device" : `${time(row.took)} in the device`;
  const reason = row.reason === null ? null : reasons[row.reason];
  const why = reason ? `Chosen: ${reason.name}${reason.meaning ? `; ${reason.meaning}` : ""}.` : "No scheduler chose it.";
  return `${who} ${does} ${size(row.sectors * 512)} at sector ${row.sector}, at ${time(row.at)}, ${took}. ${why}`;
}
