// The guest's connection to the host, with the functions of the embedded engine's module.

import { JSONStringify, keys } from "./primordials.js";
import * as link from "./link.js";
import { storeFiles } from "./copies.js";
import { reset } from "./timers.js";
import { poke } from "./turn.js";

const { now: dateNow } = Date;

/** The program runs, or what it left is being stored. */
export const program = { runs: false, stores: false };

const calls = new WeakSet(), addCall = WeakSet.prototype.add.bind(calls);
/** Reports whether a promise is the one of a call: the runtime reports its failure itself. */
export const isCall = WeakSet.prototype.has.bind(calls);

const write = (line) => { link.send("L", line); };

/** Writes the line of a call. */
export function called(promise, line) {
  addCall(promise);
  link.send("L", line[line.length - 1] === "\n" ? line.slice(0, -1) : line);
  poke();
}

export const now = () => dateNow();
export const clock = () => {};
export const timer = () => {};
export const ask = () => undefined;
export const data = () => undefined;

const quote = (s) => JSONStringify(s);

export const pathPart = (path) => ',"path":' + quote(path);
export const stackPart = (stack) => (stack === "" ? "}}" : ',"stack":' + quote(stack) + "}}");

export function fileLine(id, fields) {
  let out = '{"file":{"id":' + id;
  const own = keys(fields);
  for (let i = 0; i < own.length; i++) {
    const v = fields[own[i]];
    if (v === undefined || v === false) continue;
    out += ',"' + own[i] + '":' + (typeof v === "string" ? quote(v) : v);
  }
  return out + "}}";
}

export function sendFile(id, fields) { write(fileLine(id, fields)); }

export function sendConsole(level, text) {
  write('{"console":{"level":' + quote(level) + ',"text":' + quote(text) + "}}");
}

export function sendEmit(handle) { write('{"emit":{"handle":' + quote(handle) + "}}"); }

// Sends the last line of a program, after what it and its processes wrote to standard output.
function sendLast(line) {
  program.runs = program.stores = false;
  reset(); // also in a session
  link.send("O", "");
  write(line);
  poke();
}

/** Stores the program's files, and reports success. */
export function sendDone(value, unawaited) {
  const line = '{"done":{' + (value === undefined ? "" : '"value":' + value + (unawaited ? "," : "")) +
    (unawaited ? '"unawaited":' + unawaited : "") + "}}";
  program.stores = true;
  storeAndEnd(line);
}

async function storeAndEnd(line) {
  try { await storeFiles(); } catch (e) {
    sendFail({ name: "Error", message: "store the program's files: " + e.message });
    return;
  }
  sendLast(line);
}

/** Reports failure; fields is a record of strings. */
export function sendFail(fields) {
  let out = '{"message":' + quote(fields.message);
  if (fields.name) out += ',"name":' + quote(fields.name);
  if (fields.kind) out += ',"kind":' + quote(fields.kind);
  if (fields.upstream) out += ',"upstream":' + quote(fields.upstream);
  if (fields.tool) out += ',"tool":' + quote(fields.tool);
  if (fields.stack) out += ',"stack":' + quote(fields.stack);
  sendLast('{"fail":{"error":' + out + "}}}");
}

/** Node's own JSON is fast: the host doesn't parse or write it. */
export const hostParse = () => undefined;
export const hostStringify = () => undefined;
