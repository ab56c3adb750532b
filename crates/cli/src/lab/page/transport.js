// The one way from the page to a simulation: in the server that has sent the page, or in a worker of
// the browser. Both classes have the same methods:
//   choices()                     what can be chosen: devices, schedulers, the state to begin with
//   open(state, onFrame, onEnd)   starts a run, frozen at time 0; answers with facts about its lanes
//   order(order)                  {pace: n}, "step" or {change: {...}}; fails with the reason
//   command(state)                the equivalent command line, and whether it repeats the run exactly
//   close()                       ends the run
// and words: `reach` (where a link to the page works) and `loss` (what to do when a run has ended by itself).

const refused = ({ error, help }) => new Error(help ? `${error} (${help})` : error);

export class ServerTransport {
  reach = "It works where a laboratory is open on this port.";
  loss = "The connection to the laboratory has ended. If it still runs, press Start again.";
  #id = null;
  #frames = null;
  #opened = 0;
  // Orders that have no answer yet.
  #orders = new Set();

  async #ask(path, body) {
    const options = body === undefined ? {} : {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw new Error("The laboratory does not answer: it may have been closed.");
    }
    const value = await answer.json();
    if (!answer.ok) throw refused(value);
    return value;
  }

  choices() {
    return this.#ask("/choices");
  }

  async open(state, onFrame, onEnd) {
    this.#opened += 1;
    const opened = this.#opened;
    // A run that ends before it has read an order would refuse it.
    while (this.#orders.size) await Promise.allSettled(this.#orders);
    const before = this.#id;
    this.close();
    const { id, lanes } = await this.#ask(before ? `/open?instead=${before}` : "/open", state);
    // Another one was opened meanwhile; the server drops a run without a reader.
    if (opened !== this.#opened) return lanes;
    this.#id = id;
    const frames = new EventSource(`/frames?id=${id}`);
    this.#frames = frames;
    frames.onmessage = (event) => {
      if (this.#frames === frames) onFrame(JSON.parse(event.data));
    };
    // A stream that ended does not go on: its course is gone.
    frames.onerror = () => {
      frames.close();
      if (this.#frames === frames) {
        this.close();
        onEnd();
      }
    };
    return lanes;
  }

  order(order) {
    if (this.#id === null) return Promise.reject(new Error("Nothing runs."));
    const answer = this.#ask(`/do?id=${this.#id}`, order).finally(() => this.#orders.delete(answer));
    this.#orders.add(answer);
    return answer;
  }

  command(state) {
    return this.#ask("/command", state);
  }

  close() {
    if (this.#frames) this.#frames.close();
    this.#frames = null;
    this.#id = null;
  }
}

// The simulation is WebAssembly in a worker (worker.js, which `web/build` puts beside this file).
export class WorkerTransport {
  reach = "It works wherever this page is served.";
  loss = "The simulation has ended by an error. Press Start again.";
  #worker = null;
  #calls = new Map();
  #asked = 0;
  #opened = 0;
  // Its number, and whom it tells of frames and of its end.
  #run = null;

  #start() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { id, answer, run, frame, failed } }) => {
      if (worker !== this.#worker) return undefined;
      if (failed !== undefined) return this.#fail(failed);
      if (frame !== undefined) {
        worker.postMessage({ read: run });
        if (this.#run?.number === run) this.#run.onFrame(JSON.parse(frame));
        return undefined;
      }
      const { done, wrong } = this.#calls.get(id);
      this.#calls.delete(id);
      return answer.error === undefined ? done(answer) : wrong(refused(answer));
    };
    worker.onerror = (event) => {
      if (worker === this.#worker) this.#fail(event.message ?? "its program cannot be loaded");
    };
    return worker;
  }

  // The worker is of no use any more; the next question starts another one.
  #fail(reason) {
    const { onEnd } = this.#run ?? {};
    for (const { wrong } of this.#calls.values()) wrong(new Error(`The simulation has ended: ${reason}`));
    this.close();
    onEnd?.();
  }

  #ask(name, question, of) {
    this.#worker ??= this.#start();
    this.#asked += 1;
    const id = this.#asked;
    this.#worker.postMessage({ id, name, question, of });
    return new Promise((done, wrong) => this.#calls.set(id, { done, wrong }));
  }

  choices() {
    return this.#ask("choices");
  }

  async open(state, onFrame, onEnd) {
    this.#opened += 1;
    const number = this.#opened;
    this.#run = null;
    const lanes = await this.#ask("open", state, number);
    // Another one may have been opened meanwhile, in the place of this one.
    if (number === this.#opened) this.#run = { number, onFrame, onEnd };
    return lanes;
  }

  order(order) {
    if (this.#run === null) return Promise.reject(new Error("Nothing runs."));
    return this.#ask("order", order);
  }

  command(state) {
    return this.#ask("command", state);
  }

  close() {
    this.#worker?.terminate();
    this.#worker = null;
    this.#calls.clear();
    this.#run = null;
  }
}
