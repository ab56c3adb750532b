// Memory of the laboratory over a long run: eight tenants in two lanes, a weight moved every half minute.
//
//   node memory.mjs MINUTES HOISTWAY     the server `HOISTWAY lab`, and its page
//   node memory.mjs MINUTES FOLDER       the folder of web/build, from python3 -m http.server
//
// Prints a line per minute: virtual seconds, changes, frames since the last line, resident MiB of the server and
// of the page's process, MiB of the page's JavaScript heap after a collection, errors in the console.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [minutes, what] = [Number(process.argv[2]), process.argv[3]];
const isFolder = statSync(what).isDirectory();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const server = isFolder
  ? spawn("python3", ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", what], { stdio: ["ignore", "pipe", "ignore"] })
  : spawn(what, ["lab", "--port", "0", "--no-browser", "--quiet"], { stdio: ["ignore", "pipe", "ignore"] });
const said = await new Promise((done) => server.stdout.once("data", (bytes) => done(String(bytes))));
const address = isFolder ? `http://127.0.0.1:${/ port (\d+) /.exec(said)[1]}/` : said.trim();

const profile = mkdtempSync(join(tmpdir(), "lab-memory-"));
const browser = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
  "--no-first-run", `--user-data-dir=${profile}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const [calls, errors] = [new Map(), []];
let [text, last, session] = ["", 0, undefined];
browser.stdio[4].on("data", (bytes) => {
  text += bytes;
  const messages = text.split("\0");
  text = messages.pop();
  for (const message of messages.map((it) => JSON.parse(it))) {
    if (message.id) calls.get(message.id)(message.result);
    const { method, params } = message;
    if (method === "Runtime.exceptionThrown" || (method === "Log.entryAdded" && params.entry.level === "error")) errors.push(params);
  }
});
const call = (method, params = {}) => new Promise((done) => {
  last += 1;
  calls.set(last, done);
  browser.stdio[3].write(`${JSON.stringify({ id: last, method, params, sessionId: session })}\0`);
});
const value = async (expression) => (await call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true })).result.value;

const { targetId } = await call("Target.createTarget", { url: "about:blank" });
({ sessionId: session } = await call("Target.attachToTarget", { targetId, flatten: true }));
for (const domain of ["Page", "Runtime", "Log", "HeapProfiler"]) await call(`${domain}.enable`);
await call("Emulation.setDeviceMetricsOverride", { width: 1400, height: 1000, deviceScaleFactor: 1, mobile: false });
await call("Page.navigate", { url: address });
while (!(await value("typeof laboratory === 'object' && laboratory.isOpen"))) await pause(100);
await value(`laboratory.restart((it) => { it.length_ms = 3600000;
  it.tenants = [...Array(8).keys()].map((n) => ({ ...it.tenants[0], name: "t" + n, weight: 100 * (n + 1), depth: 16, read: 80 })); })`);
await value(`(() => { window.frames_taken = 0; const { history } = laboratory.views[0]; const take = history.take.bind(history);
  history.take = (...all) => { window.frames_taken += 1; return take(...all); };
  laboratory.setPace(6); document.getElementById("run").click(); })()`);

const residentMib = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`))[1]) / 1024;
// The largest of this browser's processes for pages.
const pageMib = () => Math.max(...readdirSync("/proc").filter((it) => /^\d+$/.test(it)).flatMap((pid) => {
  try {
    // The command line of a page's process names no profile: its parent's parent does.
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("--type=renderer") && ancestors(pid).includes(browser.pid) ? [residentMib(pid)] : [];
  } catch {
    return [];
  }
}));
function ancestors(pid) {
  const all = [];
  for (let at = Number(pid); at > 1; at = Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${at}/status`))[1])) all.push(at);
  return all;
}

console.log("minute virtual_s changes frames server_mib page_mib heap_mib errors");
for (let minute = 0; minute <= minutes; minute += 1) {
  await call("HeapProfiler.collectGarbage");
  const { usedSize } = await call("Runtime.getHeapUsage");
  const [virtual, changes, frames] = await value("[laboratory.nowNs / 1e9, laboratory.made.length, window.frames_taken]");
  await value("window.frames_taken = 0");
  const server_mib = isFolder ? "-" : residentMib(server.pid).toFixed(1);
  console.log(minute, virtual.toFixed(1), changes, frames, server_mib, pageMib().toFixed(0), (usedSize / 2 ** 20).toFixed(2), errors.length);
  for (let half = 0; half < 2 && minute < minutes; half += 1) {
    await pause(30_000);
    const n = 2 * minute + half;
    await value(`laboratory.live({ what: "weight", tenant: ${n % 8}, weight: ${100 + 37 * (n % 20)} })`);
  }
}
browser.kill();
server.kill("SIGINT");
await pause(1000);
rmSync(profile, { recursive: true, force: true });
