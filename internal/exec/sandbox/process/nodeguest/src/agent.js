// The agent: the first process of a sandbox for programs on Node.js. It passes the host's lines to
// the runtime, and copies the program's files in and out.

import { Socket } from "node:net";
import { Writable } from "node:stream";
import api from "./main.js";
import * as calls from "./calls.js";
import { loadFiles } from "./copies.js";
import { show } from "./console.js";
import { isCall, program, sendConsole, sendFail } from "./host.js";
import * as link from "./link.js";
import { JSONStringify, define, exec, list, push, uncurry } from "./primordials.js";
import { describeModules } from "./modules.js";
import "program:fetch.js";
import * as timers from "./timers.js";
import { isPoked, onTurn, poke } from "./turn.js";

const leave = process.reallyExit.bind(process);
const oldest = 20; // version of Node
if (+process.versions.node.split(".")[0] < oldest) {
  process._rawDebug("programs need Node.js " + oldest + " or newer, and " + process.execPath + " is " + process.versions.node);
  leave(1);
}

// These would end the agent without a word.
process.exit = globalThis.exit;
process.reallyExit = globalThis.exit;

// Node's own streams hold what the driver has not read yet, without a limit.
for (const [name, fd] of [["stdout", 1], ["stderr", 2]]) {
  const stream = new Writable({ write(data, encoding, done) { link.writeOutput(fd, data); done(); } });
  Object.defineProperty(process, name, { value: Object.assign(stream, { fd }), writable: true, enumerable: true, configurable: true });
}

const socket = new Socket({ fd: 3, readable: true, writable: false });
const isRun = /^\{(?:"at":-?\d+,)?"run":\{/;
const { concat } = Buffer, { nativeImmediate } = timers;
const find = uncurry(Buffer.prototype.indexOf), cut = uncurry(Buffer.prototype.subarray), decode = uncurry(Buffer.prototype.toString);

let frames = list(), next = 0; // frames[next:] are not handled yet
let handling = false;

const waiting = () => next < frames.length;

/** Handles frames in order. Files are copied before a program runs. */
async function handleFrames() {
  if (handling) return;
  handling = true;
  try {
    while (waiting() && !program.stores) {
      const { kind, text } = frames[next++];
      if (!waiting()) { frames = list(); next = 0; }
      if (kind === "L") await handleLine(text);
      else if (kind === "E") await handleEnd();
      else if (kind === "M") link.send("M", JSONStringify({ version: process.versions.node, modules: describeModules() }));
    }
  } catch (e) { fall(e); }
  handling = false;
}

async function handleLine(text) {
  if (!program.runs && exec(isRun, text) !== null) {
    try { await loadFiles(); } catch (e) {
      sendFail({ name: "Error", message: "copy the program's files: " + e.message });
      return;
    }
  }
  api.deliver(text);
  poke();
}

async function handleEnd() {
  do {
    await new Promise((resolve) => { nativeImmediate(resolve); }); // the program's jobs have run
    api.idle();
  } while (program.stores || isPoked());
  link.send("O", "");
  link.send("I", "");
}

// Ends the agent because of an error in it, which a program that changes Node's prototypes can cause.
function fall(e) {
  process._rawDebug(e);
  leave(1);
}

let parts = list(); // of a frame that is not complete

function receive(data) {
  try {
    for (let from = 0; ;) {
      const end = find(data, 10, from);
      push(parts, cut(data, from, end < 0 ? data.length : end));
      if (end < 0) break;
      from = end + 1;
      const frame = parts.length === 1 ? parts[0] : joined();
      parts = list();
      const kind = decode(frame, "latin1", 0, 1), text = decode(frame, "utf8", 1);
      if (kind === "A" || kind === "N") link.answered(kind === "A" ? text : undefined);
      else push(frames, { kind, text });
    }
  } catch (e) { fall(e); }
  handleFrames();
}

function joined() {
  const all = [];
  for (let i = 0; i < parts.length; i++) define(all, i, parts[i], true);
  return concat(all);
}

// While a program runs and waits for nothing of the host, the connection doesn't keep Node alive.
// So Node says when nothing can happen any more.
onTurn(() => {
  api.idle();
  if (program.runs && !program.stores && calls.waiting() === 0 && !waiting()) socket.unref();
  else socket.ref();
  if (waiting()) handleFrames();
});

process.on("beforeExit", () => {
  socket.ref();
  if (!program.runs || program.stores) return;
  timers.exhaust();
  api.idle();
});
process.on("uncaughtException", (e) => {
  if (program.runs) timers.failed(e);
  else sendConsole("error", "after the program's end: " + show(e));
});
process.on("unhandledRejection", (reason, promise) => { if (!isCall(promise)) api.unhandled(reason); });

socket.on("data", receive);
socket.on("end", () => { leave(0); });
socket.on("error", () => { leave(0); });
link.send("R", "");
