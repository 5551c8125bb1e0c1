// The agent: the first process of a sandbox for programs on Node.js. It passes the host's lines to
// the runtime, and copies the program's files in and out.

import { Socket } from "node:net";
import api from "./main.js";
import * as calls from "./calls.js";
import { loadFiles } from "./copies.js";
import { isCall, program, sendFail } from "./host.js";
import * as link from "./link.js";
import { describeModules } from "./modules.js";
import * as timers from "./timers.js";
import { onTurn, poke } from "./turn.js";

const oldest = 20; // version of Node
if (+process.versions.node.split(".")[0] < oldest) {
  process._rawDebug("programs need Node.js " + oldest + " or newer, and " + process.execPath + " is " + process.versions.node);
  process.reallyExit(1);
}

// There is no network: programs reach hosts through the gateway.
for (const name of ["fetch", "WebSocket", "EventSource"]) delete globalThis[name];

const socket = new Socket({ fd: 3, readable: true, writable: false });
const frames = []; // not handled yet
const isRun = /^\{(?:"at":-?\d+,)?"run":\{/;
let handling = false;

/** Handles frames in order. Files are copied before a program runs. */
async function handleFrames() {
  if (handling) return;
  handling = true;
  while (frames.length > 0 && !program.stores) {
    const { kind, text } = frames.shift();
    if (kind === "L") {
      if (isRun.test(text) && !program.runs) {
        try { await loadFiles(); } catch (e) {
          sendFail({ name: "Error", message: "copy the program's files: " + e.message });
          continue;
        }
      }
      api.deliver(text);
      poke();
    } else if (kind === "E") {
      await new Promise((resolve) => { setImmediate_(resolve); }); // the program's jobs have run
      api.idle();
      link.send("O", "");
      link.send("I", "");
    } else if (kind === "M") {
      link.send("M", JSON.stringify({ version: process.versions.node, modules: describeModules() }));
    }
  }
  handling = false;
}
const setImmediate_ = timers.nativeImmediate;

let parts = []; // of a frame that is not complete

function receive(data) {
  for (let from = 0; ;) {
    const end = data.indexOf(10, from);
    if (end < 0) {
      if (from < data.length) parts.push(data.subarray(from));
      break;
    }
    parts.push(data.subarray(from, end));
    from = end + 1;
    const frame = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    parts = [];
    const kind = frame.toString("latin1", 0, 1), text = frame.toString("utf8", 1);
    if (kind === "A" || kind === "N") link.answered(kind === "A" ? text : undefined);
    else frames.push({ kind, text });
  }
  handleFrames();
}

// While a program runs and waits for nothing of the host, the connection doesn't keep Node alive.
// So Node says when nothing can happen any more.
onTurn(() => {
  api.idle();
  if (program.runs && !program.stores && calls.waiting() === 0 && frames.length === 0) socket.unref();
  else socket.ref();
  if (frames.length > 0) handleFrames();
});

process.on("beforeExit", () => {
  socket.ref();
  if (!program.runs || program.stores) return;
  timers.exhaust();
  api.idle();
});
process.on("uncaughtException", (e) => { timers.failed(e); });
process.on("unhandledRejection", (reason, promise) => { if (!isCall(promise)) api.unhandled(reason); });

socket.on("data", receive);
socket.on("end", () => { process.reallyExit(0); });
socket.on("error", () => { process.reallyExit(0); });
link.send("R", "");
