// The page: its state, its run, and what the buttons do.

import { commonAxes } from "./axes.js";
import { drawTenants } from "./controls.js";
import { LaneHistory } from "./history.js";
import { LaneView } from "./lanes.js";
import { afterChanges, make, ofLink, tenant, time, toLink } from "./state.js";
import { STORIES } from "./stories.js";
import { ServerTransport, WorkerTransport } from "./transport.js";

// Virtual nanoseconds per second; the last is as fast as possible.
const PACES = [1e5, 1e6, 3e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 2e10, -1];
// The story that is offered first.
const FIRST_STORY = 7;
// Milliseconds between two tellings of the figures while it runs, so that they can be read.
const TELL_MS = 300;
const get = (id) => document.getElementById(id);

class Laboratory {
  constructor(transport) {
    this.transport = transport;
    this.views = [];
    this.nowNs = 0;
    this.isRunning = false;
    this.isOver = false;
    this.isOpen = false;
    this.until = null;
    this.story = null;
    this.pending = new Map();
    this.drawn = true;
    this.told = 0;
    this.opening = 0;
  }

  async begin() {
    try {
      this.choices = await this.transport.choices();
    } catch (error) {
      get("device-summary").textContent = "";
      return this.problem(error.message);
    }
    for (const device of this.choices.devices) get("device").add(new Option(device.name, `model:${device.name}`));
    const own = this.choices.first.device;
    if (![...get("device").options].some((option) => option.value === own)) get("device").add(new Option(own, own));
    STORIES.forEach((story, index) => get("story").add(new Option(`${index + 1}. ${story.title}`, String(index))));
    get("story").value = String(FIRST_STORY);
    // Where there is room, the controls are beside the lanes.
    get("controls").open = matchMedia("(min-width: 1700px)").matches;
    this.#listen();
    const isOwn = location.hash.length <= 1;
    await this.#load(location.hash);
    // Something is to be seen at once; a link waits for its reader.
    if (isOwn && !matchMedia("(prefers-reduced-motion: reduce)").matches) await this.run();
  }

  // Opens the state of a link's fragment, or the one to begin with.
  async #load(fragment) {
    let state = this.choices.first;
    let damage = null;
    if (fragment.length > 1) {
      try {
        state = ofLink(fragment);
      } catch (error) {
        damage = error.message;
      }
    }
    const opened = await this.open(state);
    if (!opened && state !== this.choices.first) {
      damage = `This link asks for something that is not possible: ${get("problem").textContent}`;
      await this.open(this.choices.first);
    }
    if (damage) this.problem(damage);
  }

  // Starts a run of a state, frozen at time 0.
  async open(state) {
    state = { ...state, tenants: state.tenants.map((it) => ({ workload: "", more: "", on: true, ...it })) };
    this.opening += 1;
    const opening = this.opening;
    // Nothing is ordered from a run that is being replaced.
    this.isRunning = false;
    this.isOpen = false;
    this.problem(null);
    let lanes;
    try {
      lanes = await this.transport.open(state, (frame) => this.#take(frame), () => this.#lost());
    } catch (error) {
      if (opening === this.opening) this.problem(error.message);
      return false;
    }
    if (opening !== this.opening) return true;
    // What the link will hold; the settings on the page are those after the changes so far.
    this.start = structuredClone({ ...state, changes: [] });
    this.made = [];
    this.wanted = state.changes ?? [];
    this.state = structuredClone(this.start);
    this.nowNs = 0;
    this.isRunning = false;
    this.isOver = false;
    this.isOpen = true;
    this.pending.clear();
    const device = this.choices.devices.find((it) => state.device === `model:${it.name}` || state.device.startsWith(`model:${it.name},`));
    if (![...get("device").options].some((option) => option.value === state.device)) get("device").add(new Option(state.device.replace("model:", ""), state.device));
    get("device").value = state.device;
    get("device-summary").textContent = [device?.summary, state.machine && `machine: ${state.machine}`].filter(Boolean).join("; ");
    get("seed").value = state.seed;
    if (![...get("length-ms").options].some((option) => Number(option.value) === state.length_ms)) get("length-ms").add(new Option(time(state.length_ms * 1e6), state.length_ms));
    get("length-ms").value = String(state.length_ms);
    get("length").textContent = time(state.length_ms * 1e6);
    get("lanes").replaceChildren();
    get("lanes").style.setProperty("--lanes", state.schedulers.length);
    this.views = state.schedulers.map((_, index) => new LaneView(get("lanes"), index, this));
    const isRotational = lanes.some((lane) => lane.device.rotational);
    const windowNs = isRotational ? 1e9 : 5e8;
    this.views.forEach((view, index) => view.begin(lanes[index], new LaneHistory(state.tenants, this.choices.bucket_starts_ns, windowNs)));
    this.#drawTenants();
    if (this.paceAt === undefined) this.paceAt = isRotational ? 9 : 6;
    this.#showPace();
    this.#showLink();
    this.#showRun();
    return true;
  }

  #drawTenants() {
    drawTenants(get("tenants"), this.state, { live: (change) => this.live(change), restart: (edit) => this.restart(edit) });
    const device = this.state.device.replace("model:", "");
    get("load-summary").textContent = `${device}: ${this.state.tenants.map((it) => `${it.name} ${it.weight}${it.on ? "" : " (rests)"}`).join(", ")}`;
    get("add-tenant").disabled = this.state.tenants.length >= 8;
    get("add-lane").disabled = this.state.schedulers.length >= 3;
  }

  // A frame has come.
  #take(frame) {
    this.nowNs = frame.now_ns;
    this.views.forEach((view, index) => view.history.take(frame.now_ns, frame.lanes[index]));
    if (frame.changes) {
      const before = JSON.stringify(this.state);
      this.made = frame.changes;
      this.wanted = frame.planned > 0 ? this.wanted : [];
      this.state = afterChanges({ ...this.start, changes: frame.changes });
      this.#showLink();
      // Changes of a link appear on the controls as well; the user's own are there already.
      if (before !== JSON.stringify(this.state) && !get("tenants").contains(document.activeElement)) this.#drawTenants();
    }
    get("pace-now").textContent = frame.pace > 0 ? `at ${frame.pace >= 0.095 ? frame.pace.toFixed(1) : frame.pace.toPrecision(1)} × real time` : "";
    if (frame.over && !this.isOver) {
      this.isOver = true;
      this.isRunning = false;
      this.#showRun();
    }
    if (this.until !== null && (this.nowNs >= this.until || frame.over)) {
      this.until = null;
      if (!this.isOver) this.pause();
      this.#showStory();
    }
    this.redraw();
  }

  redraw() {
    if (!this.drawn) return;
    this.drawn = false;
    requestAnimationFrame(() => {
      this.drawn = true;
      get("clock").textContent = time(this.nowNs);
      const axes = commonAxes(this.views.map((view) => view.history), this.nowNs);
      for (const view of this.views) view.draw(this.nowNs, axes);
      const now = performance.now();
      if (this.isRunning && now - this.told < TELL_MS) return;
      this.told = now;
      this.#tell();
    });
  }

  // The figures of all lanes in the same window of time.
  #tell() {
    const windows = this.views.map((view) => view.history.window());
    const rates = this.views.flatMap((view, at) => [...windows[at].tenants.map((it) => it.rate), ...(view.history.last?.groups ?? []).map((it) => it.due_bytes_per_s ?? 0)]);
    const most = Math.max(1, ...rates);
    this.views.forEach((view, at) => {
      const others = this.views.map((other, index) => ({ name: other.spec, rate: windows[index].rate })).filter((_, index) => index !== at);
      view.tell(windows[at], most, others.sort((a, b) => b.rate - a.rate)[0]);
    });
  }

  #lost() {
    this.isOpen = false;
    this.isRunning = false;
    this.#showRun();
    this.problem(this.transport.loss);
  }

  async order(order) {
    try {
      await this.transport.order(order);
      return true;
    } catch (error) {
      this.problem(error.message);
      return false;
    }
  }

  async run() {
    if (this.isOver || !this.isOpen) return;
    this.isRunning = true;
    this.#showRun();
    await this.order({ pace: PACES[this.paceAt] });
  }

  async pause() {
    this.isRunning = false;
    this.#showRun();
    await this.order({ pace: 0 });
    this.redraw();
  }

  setPace(at) {
    this.paceAt = at;
    this.#showPace();
    if (this.isRunning) this.order({ pace: PACES[at] });
  }

  #showPace() {
    get("pace").value = this.paceAt;
    const pace = PACES[this.paceAt];
    const text = pace < 0 ? "as fast as it can" : pace >= 1e9 ? `${pace / 1e9} × real time` : `1/${Math.round(1e9 / pace)} of real time`;
    get("pace-is").textContent = text;
    get("pace").setAttribute("aria-valuetext", text);
  }

  #showRun() {
    get("run").textContent = this.isRunning ? "Pause" : "Run";
    get("run").disabled = this.isOver || !this.isOpen;
    get("step").disabled = this.isOver || !this.isOpen;
  }

  // A change at once. Of a slider that moves, only the latest value is sent.
  live(change) {
    if (this.isOver || !this.isOpen || this.nowNs === 0) {
      // Nothing has run yet, or all has: it is a change of the start.
      if (this.isOver) return this.restart((next) => make(next, change));
      return this.restartSoon((next) => make(next, change));
    }
    make(this.state, change);
    const key = [change.what, change.tenant, change.lane, change.name].join();
    const isBusy = this.pending.has(key);
    this.pending.set(key, change);
    if (!isBusy) this.#send(key);
    return undefined;
  }

  async #send(key) {
    const change = this.pending.get(key);
    if (!(await this.order({ change }))) {
      // It was refused: the controls show what is in force.
      this.pending.delete(key);
      this.state = afterChanges({ ...this.start, changes: this.made });
      return this.#drawTenants();
    }
    await new Promise((done) => setTimeout(done, 60));
    if (this.pending.get(key) === change) this.pending.delete(key);
    else if (this.pending.has(key)) this.#send(key);
    return undefined;
  }

  // Edits the start and begins anew.
  async restart(edit) {
    const next = structuredClone({ ...this.state, changes: [] });
    edit(next);
    const before = { ...this.state, changes: [] };
    if (!(await this.open(next))) {
      const reason = get("problem").textContent;
      await this.open(before);
      this.problem(reason);
    }
  }

  // As restart, once a slider rests.
  restartSoon(edit) {
    edit(this.state);
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      const focus = document.activeElement;
      const card = focus?.closest?.("[data-tenant]");
      const at = card && [focus.className, card.dataset.tenant];
      this.restart(() => {}).then(() => {
        if (at) document.querySelector(`[data-tenant="${at[1]}"] .${at[0]}`)?.focus();
      });
    }, 250);
  }

  get link() {
    // The changes of a link that are still to come belong to it.
    const changes = this.wanted.length ? this.wanted : this.made;
    const state = { ...this.start, changes };
    if (!changes.length) delete state.changes;
    return state;
  }

  #showLink() {
    history.replaceState(null, "", toLink(this.link));
  }

  problem(text) {
    get("problem").textContent = text ?? "";
    get("problem").hidden = !text;
  }

  hint(text, x = 0, y = 0) {
    const hint = get("hint");
    hint.textContent = text ?? "";
    hint.classList.toggle("shown", Boolean(text));
    if (!text) return;
    const { offsetWidth: width, offsetHeight: height } = hint;
    hint.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    hint.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
  }

  async #copy(title, text, note) {
    get("copied-title").textContent = title;
    get("copied-text").value = text;
    get("copied-note").textContent = note;
    get("copied").hidden = false;
    get("copied-text").select();
    try {
      await navigator.clipboard.writeText(text);
      get("copied-title").textContent = `${title}: copied`;
    } catch {
      // Without the permission the text is selected, to be copied by hand.
    }
  }

  async copyCommand() {
    try {
      const { command, is_exact: isExact } = await this.transport.command(this.link);
      const note = isExact
        ? "It prints the figures of the whole run exactly as they appear here at its end."
        : "It runs the settings as they are now from the start. The history of your changes is only in the link.";
      await this.#copy("The equivalent command line", command, note);
    } catch (error) {
      this.problem(error.message);
    }
  }

  // ---- stories ----

  tellStory(index) {
    this.story = index === null ? null : { index, step: 0 };
    document.querySelector(".begin").hidden = index !== null;
    get("story-card").hidden = index === null;
    if (index !== null) this.#playStep();
  }

  async #playStep() {
    const { index, step } = this.story;
    const { title, steps } = STORIES[index];
    const { text, state, changes = [], pace, run_ms: runMs } = steps[step];
    get("story-title").textContent = title;
    get("story-text").textContent = text;
    get("story-place").textContent = `Step ${step + 1} of ${steps.length}`;
    get("story-next").textContent = step + 1 < steps.length ? "Next" : "Done";
    get("story-next").disabled = true;
    if (pace !== undefined) this.paceAt = pace;
    if (state && !(await this.open(state))) return this.#showStory();
    this.#showPace();
    if (this.isOver) {
      // The step before went on to the end of the run: this one begins a new run with its changes.
      await this.restart((next) => changes.forEach((change) => make(next, change)));
    } else {
      for (const change of changes) {
        make(this.state, change);
        await this.order({ change });
      }
      if (changes.length) this.#drawTenants();
    }
    this.until = this.nowNs + runMs * 1e6;
    return this.run();
  }

  #showStory() {
    if (this.story) get("story-next").disabled = false;
  }

  #nextStep() {
    this.story.step += 1;
    if (this.story.step < STORIES[this.story.index].steps.length) this.#playStep();
    else this.tellStory(null);
  }

  // ---- what the user does ----

  #listen() {
    const on = (id, event, act) => get(id).addEventListener(event, act);
    on("run", "click", () => (this.isRunning ? this.pause() : this.run()));
    on("step", "click", () => { this.isRunning = false; this.#showRun(); this.order("step"); });
    on("again", "click", () => { this.until = null; this.restart(() => {}); });
    on("pace", "input", (event) => this.setPace(Number(event.target.value)));
    on("device", "change", (event) => { this.paceAt = undefined; this.restart((next) => { next.device = event.target.value; }); });
    on("seed", "change", (event) => this.restart((next) => { next.seed = Math.max(0, Math.floor(Number(event.target.value) || 0)); }));
    on("length-ms", "change", (event) => this.restart((next) => { next.length_ms = Number(event.target.value); }));
    on("add-tenant", "click", () => this.restart((next) => {
      const taken = next.tenants.map((it) => it.name);
      const name = ["db", "web", "batch", "mail", "ci", "logs", "backup", "scan", "guest"].find((it) => !taken.includes(it));
      next.tenants.push(tenant(name, 100, 8));
    }));
    on("add-lane", "click", () => this.restart((next) => {
      const free = ["mq-deadline", "bfq", "paternoster", "none", "kyber"].find((it) => !next.schedulers.includes(it));
      next.schedulers.push(free);
    }));
    on("copy-link", "click", () => this.#copy("The link to this state", location.href, `It holds the whole state: device, tenants, schedulers, seed, and every change with its time. ${this.transport.reach}`));
    on("copy-command", "click", () => this.copyCommand());
    on("copied-close", "click", () => { get("copied").hidden = true; });
    on("story-begin", "click", () => this.tellStory(Number(get("story").value)));
    on("story-next", "click", () => this.#nextStep());
    on("story-leave", "click", () => { this.until = null; this.tellStory(null); });
    // The event's own address: a frame may have come since then, which writes that of the present run.
    addEventListener("hashchange", (event) => this.#load(new URL(event.newURL).hash));
    addEventListener("resize", () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    addEventListener("pagehide", () => this.transport.close());
    addEventListener("keydown", (event) => {
      const isElsewhere = event.target.closest("input, select, textarea, button");
      if (event.key === " " && !isElsewhere) {
        event.preventDefault();
        get("run").click();
      }
    });
  }
}

// `web/build` writes `worker` into the page that it makes.
const isServed = document.documentElement.dataset.simulation === "server";
const laboratory = new Laboratory(isServed ? new ServerTransport() : new WorkerTransport());
// For those who look at it from the browser's console, and for its test.
window.laboratory = laboratory;
laboratory.begin();
