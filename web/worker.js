// Runs the simulation beside the page, which asks by messages {id, name, question} and gets {id, answer},
// and frames {run, frame} meanwhile. See WorkerTransport in transport.js.

import { Simulator } from "./simulator.js";

const FRAME_MS = 1000 / 60;
// A page that is busy must not be sent more and more.
const UNREAD_FRAMES = 4;

const loading = Simulator.load(new URL("hoistway.wasm", import.meta.url), () => performance.now());
let run = 0;
let unread = 0;
let advanced = 0;
let timer = null;

// After an error the state of the simulation is unknown: the page starts another worker.
function fail(error) {
  clearTimeout(timer);
  postMessage({ failed: error.message });
}

function go(simulator) {
  const began = performance.now();
  try {
    if (unread < UNREAD_FRAMES) {
      const frame = simulator.advance(began - advanced);
      advanced = began;
      if (frame !== null) {
        unread += 1;
        postMessage({ run, frame });
      }
    }
  } catch (error) {
    return fail(error);
  }
  timer = setTimeout(go, Math.max(0, FRAME_MS - (performance.now() - began)), simulator);
  return undefined;
}

onmessage = async ({ data: { id, name, question, of, read } }) => {
  if (read) {
    if (read === run) unread -= 1;
    return;
  }
  try {
    const simulator = await loading;
    const answer = simulator.ask(name, question);
    postMessage({ id, answer });
    if (name === "open") {
      clearTimeout(timer);
      [run, unread, advanced] = [of, 0, performance.now()];
      if (!answer.error) go(simulator);
    }
  } catch (error) {
    fail(error);
  }
};
