// One lane: its scheduler, its pictures and its figures.

import { explain } from "./explain.js";
import { drawDevice, drawStrip, hasParts, signOf, words } from "./pictures.js";
import { inMib, nameOf, rate, time } from "./state.js";

// The tunables that have a slider of their own, with their largest value there.
const SLIDERS = { give: 100, slice_idle: 20, fifo_batch: 32, low_latency: 1, quantum: 32 };

export class LaneView {
  constructor(place, index, app) {
    this.index = index;
    this.app = app;
    this.selected = null;
    this.places = [];
    this.node = document.getElementById("lane-template").content.firstElementChild.cloneNode(true);
    place.append(this.node);
    this.get = (selector) => this.node.querySelector(selector);
    this.#chooseScheduler();
    this.#point();
  }

  get spec() {
    return this.app.state.schedulers[this.index];
  }

  #chooseScheduler() {
    const { choices, state } = this.app;
    const select = this.get(".scheduler");
    for (const entry of choices.schedulers) select.add(new Option(entry.name, entry.name));
    select.value = nameOf(this.spec);
    this.node.setAttribute("aria-label", `Lane ${this.index + 1}: ${this.spec}`);
    const choose = (spec) => this.app.restart((next) => { next.schedulers[this.index] = spec; });
    select.addEventListener("change", () => choose(select.value));
    this.get(".spec").value = this.spec;
    this.get(".spec").addEventListener("change", (event) => choose(event.target.value.trim()));
    this.get(".remove").disabled = state.schedulers.length === 1;
    this.get(".remove").addEventListener("click", () => this.app.restart((next) => { next.schedulers.splice(this.index, 1); }));
    this.entry = choices.schedulers.find((entry) => entry.name === nameOf(this.spec));
    this.get(".summary").textContent = this.entry ? `${this.entry.has_shares ? "" : "knows no weights; "}${this.entry.summary}` : "";
    this.get(".summary").title = this.get(".summary").textContent;
  }

  // The lane has been started.
  begin(facts, history) {
    this.facts = facts;
    this.history = history;
    this.#drawTunables();
    this.#drawTable();
    this.get(".result").hidden = true;
    this.get(".failed").hidden = true;
    this.selected = null;
  }

  #drawTunables() {
    const place = this.get(".tunables");
    place.replaceChildren();
    for (const { name, value } of this.facts.tunables) {
      const row = this.entry?.tunables.find((it) => it.name === name);
      if (!row || !(name in SLIDERS)) continue;
      const label = document.createElement("label");
      const output = document.createElement("span");
      output.className = "value";
      const input = document.createElement("input");
      Object.assign(input, { type: "range", min: row.min, max: Math.min(row.max, SLIDERS[name]), step: 1, value, name });
      const show = (now) => { output.textContent = `${now} ${row.unit}`; };
      show(value);
      input.addEventListener("input", () => {
        show(input.value);
        this.app.live({ what: "tunable", lane: this.index, name, value: input.value });
      });
      label.title = row.doc;
      label.append(name, output, input);
      place.append(label);
    }
  }

  // The rows of the shares, one for each tenant; their cells are filled with each frame.
  #drawTable() {
    const names = this.app.state.tenants.map((tenant) => tenant.name);
    this.rows = names.map((name, index) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      const sign = document.createElement("span");
      sign.textContent = `${signOf(index)} `;
      sign.style.color = `var(--t${index})`;
      sign.setAttribute("aria-hidden", "true");
      head.append(sign, name);
      const pair = document.createElement("div");
      pair.className = "pair";
      pair.setAttribute("role", "img");
      const [got, mark] = [document.createElement("i"), document.createElement("b")];
      got.style.background = `var(--t${index})`;
      pair.append(got, mark);
      const cells = Array.from({ length: 6 }, () => document.createElement("td"));
      for (const cell of cells.slice(1, 5)) cell.className = "number";
      cells[0].append(pair);
      const queue = document.createElement("div");
      queue.className = "queue";
      const [device, waits, text] = [document.createElement("i"), document.createElement("i"), document.createElement("span")];
      waits.className = "waits";
      for (const part of [device, waits]) part.style.background = `var(--t${index})`;
      queue.append(waits, device, text);
      cells[5].append(queue);
      row.append(head, ...cells);
      return { row, pair, got, mark, cells, waits, device, text };
    });
    this.get(".shares tbody").replaceChildren(...this.rows.map((it) => it.row));
  }

  // Shows the pictures of the last frame, with the axes of all lanes.
  draw(nowNs, axes) {
    const { history } = this;
    if (!history?.last) return;
    const lane = history.last;
    const names = this.app.state.tenants.map((tenant) => tenant.name);
    if (lane.failed) {
      this.get(".failed").textContent = lane.failed;
      this.get(".failed").hidden = false;
    }
    const held = lane.held === null ? null : this.facts.reasons[lane.held];
    this.get(".held").textContent = held ? `holds its requests: ${held.name}` : "";
    this.node.classList.toggle("has-parts", hasParts(history.samples));
    this.places = drawDevice(this.get(".device"), history, this.facts, axes, this.selected);
    this.get(".device").setAttribute("aria-label", `${this.places.length} requests of ${names.join(", ")} over time and sector.`);
    const points = history.strip();
    drawStrip(this.get(".throughput"), points, { values: (point) => point.rates, range: axes.rates, names, isLog: false, label: inMib });
    drawStrip(this.get(".latency"), points, { values: (point) => point.p99, range: axes.latencies, names, isLog: true, label: time });
    if (history.result) this.#drawResult(history.result, names);
  }

  // Shows the figures of the last window, and says what they mean. `most` is the largest rate of all lanes, and `best` the
  // other lane that does most.
  tell(window, most, best) {
    const { history } = this;
    if (!history?.last) return;
    const lane = history.last;
    const names = this.app.state.tenants.map((tenant) => tenant.name);
    this.rows.forEach((row, tenant) => {
      const group = lane.groups[tenant];
      const due = group.due_bytes_per_s;
      const { share, rate: got, p50, p99 } = window.tenants[tenant];
      row.got.style.width = `${(100 * got) / most}%`;
      row.mark.style.left = `${(100 * (due ?? 0)) / most}%`;
      row.mark.hidden = !due;
      row.pair.setAttribute("aria-label", `${names[tenant]}: due ${due === null ? "not known" : rate(due)}, got ${rate(got)}`);
      Object.assign(row.row.dataset, { due: due ?? "", got, share });
      const texts = [due === null ? "–" : inMib(due), inMib(got), p50 ? time(p50) : "–", p99 ? time(p99) : "–"];
      texts.forEach((text, at) => { row.cells[at + 1].textContent = text; });
      const depth = Math.max(1, ...lane.groups.map((it) => it.outstanding));
      const waits = Math.max(0, group.outstanding - group.in_device);
      row.waits.style.width = `${(40 * waits) / depth}px`;
      row.device.style.width = `${(40 * Math.min(group.outstanding, group.in_device)) / depth}px`;
      row.text.textContent = group.rests ? "rests" : `${waits} + ${group.in_device}`;
    });
    const list = (of) => window.tenants.map((it, tenant) => `${names[tenant]} ${of(it)}`).join(", ");
    this.get(".throughput").setAttribute("aria-label", `Throughput in MiB per second: ${list((it) => rate(it.rate))}`);
    this.get(".latency").setAttribute("aria-label", `99th percentile of latency: ${list((it) => time(it.p99))}`);
    this.get(".total").textContent = window.spanNs > 0 ? `in MiB/s; all together ${rate(window.rate)} in the last ${time(window.spanNs)}` : "";
    this.get(".words").textContent = explain({
      state: this.app.state, spec: this.spec, entry: this.entry, facts: this.facts, lane, window, best,
    });
  }

  #drawResult(result, names) {
    const seconds = result.window_ns / 1e9;
    this.get(".figures tbody").replaceChildren(...result.groups.map((group, tenant) => {
      const row = document.createElement("tr");
      const texts = [names[tenant], group.bytes, group.ios, (group.bytes / seconds / 1048576).toFixed(2), time(group.latency_ns_p50), time(group.latency_ns_p99)];
      row.append(...texts.map((text, at) => {
        const cell = document.createElement(at === 0 ? "th" : "td");
        cell.className = at === 0 ? "" : "number";
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
    this.get(".result").hidden = false;
  }

  // Pointer and keys over the picture: the reason of a dispatch.
  #point() {
    const canvas = this.get(".device");
    const tell = (place, x, y) => {
      this.selected = place ? place.row.number : null;
      if (!place) return this.app.hint(null);
      const names = this.app.state.tenants.map((tenant) => tenant.name);
      return this.app.hint(words(place.row, names, this.facts.reasons), x, y);
    };
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = [event.offsetX, event.offsetY];
      let nearest = null;
      let least = 14 ** 2;
      for (const place of this.places) {
        const distance = (place.x - x) ** 2 + (place.y - y) ** 2;
        if (distance < least) [least, nearest] = [distance, place];
      }
      tell(nearest, event.clientX, event.clientY);
      this.app.redraw();
    });
    canvas.addEventListener("pointerleave", () => { tell(null); this.app.redraw(); });
    canvas.addEventListener("blur", () => tell(null));
    canvas.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      const at = this.places.findIndex((place) => place.row.number === this.selected);
      const next = at < 0 ? this.places.length - 1 : at + (event.key === "ArrowRight" ? 1 : -1);
      const place = this.places[Math.max(0, Math.min(this.places.length - 1, next))];
      const frame = canvas.getBoundingClientRect();
      if (place) tell(place, frame.left + place.x, frame.top + place.y);
      this.app.redraw();
    });
  }
}

