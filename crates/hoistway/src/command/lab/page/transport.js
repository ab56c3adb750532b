// The one way from the page to a simulation. A simulation that runs inside the browser would take the
// place of this class with the same methods:
//   choices()                     what can be chosen: devices, schedulers, the state to begin with
//   open(state, onFrame, onEnd)   starts a run, frozen at time 0; answers with facts about its lanes
//   order(order)                  {pace: n}, "step" or {change: {...}}; fails with the reason
//   command(state)                the equivalent command line, and whether it repeats the run exactly
//   close()                       ends the run

export class ServerTransport {
  #id = null;
  #frames = null;
  #opened = 0;

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
    if (!answer.ok) throw new Error(value.help ? `${value.error} (${value.help})` : value.error);
    return value;
  }

  choices() {
    return this.#ask("/choices");
  }

  async open(state, onFrame, onEnd) {
    const before = this.#id;
    this.close();
    this.#opened += 1;
    const opened = this.#opened;
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
    return this.#ask(`/do?id=${this.#id}`, order);
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
