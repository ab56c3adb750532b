// The simulation in WebAssembly as an object; src/lib.rs has its functions.

export class Simulator {
  #wasm;

  constructor(exports) {
    this.#wasm = exports;
  }

  // `now` tells the wall time in milliseconds.
  static async load(address, now) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address} cannot be loaded: ${answer.status}`);
    // Compiled from its bytes: many web hosts do not send the type that streaming asks for.
    const { instance } = await WebAssembly.instantiate(await answer.arrayBuffer(), { page: { now_ms: now } });
    return new Simulator(instance.exports);
  }

  #output() {
    // Addresses above 2 GiB come as negative numbers.
    const [at, length] = [this.#wasm.lab_output() >>> 0, this.#wasm.lab_output_bytes() >>> 0];
    return new TextDecoder().decode(new Uint8Array(this.#wasm.memory.buffer, at, length));
  }

  // The answer to a question; a refusal has `error` and `help`.
  ask(name, question) {
    const bytes = new TextEncoder().encode(question === undefined ? "" : JSON.stringify(question));
    const at = this.#wasm.lab_input(bytes.length) >>> 0;
    new Uint8Array(this.#wasm.memory.buffer, at, bytes.length).set(bytes);
    this.#wasm[`lab_${name}`]();
    return JSON.parse(this.#output());
  }

  // The text of the next frame, or null if nothing has happened.
  advance(elapsedMs) {
    return this.#wasm.lab_advance(elapsedMs) ? this.#output() : null;
  }
}
