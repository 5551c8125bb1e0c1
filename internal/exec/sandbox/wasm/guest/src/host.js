// The one way out of the guest. The function that the driver lends is taken away from the global object before any
// program can see it, and is held by this closure only.

import { deleteProperty, JSONStringify, keys } from "./primordials.js";

const host = globalThis.__host;
deleteProperty(globalThis, "__host");

/** called(promise, line) writes the line of a call, and has the engine take its promise as one whose rejection is handled: the runtime tells of that. */
export const called = host("lend", "c");

const write = (line) => { host("write", line + "\n"); };

/** Milliseconds since the epoch, as the host said last; it moves on a little when it is read often. */
export const now = () => host("now");

/** Sets the clock, which never goes back. */
export const clock = (ms) => { host("clock", ms); };

/** Asks the host for one wake-up in ms from now, instead of any before; a negative number takes the request back. */
export const timer = (ms) => { write('{"timer":{"ms":' + ms + "}}"); };

/** Asks the host and stands still until it answers; undefined where it doesn't. Question and answer are lines. */
export const ask = (question) => host("ask", question);

/** A line of the data of locales and time zones by its key: its first word as it is written, "\n", and the rest; undefined where there is none. */
export const data = (key) => host("data", key);

/** Runs a script under a name for stack traces. */
export const evalAs = (code, name) => host("eval", code, name);

const quote = (s) => JSONStringify(s);

/** The parts of the line of a call that are the same for many: of its path, and of where the program made it. */
export const pathPart = (path) => ',"path":' + quote(path);
export const stackPart = (stack) => (stack === "" ? "}}\n" : ',"stack":' + quote(stack) + "}}\n");

/** A request for a file as a line; fields is a record of what the protocol's File holds beside the id, and what errors name the system call. */
export function fileLine(id, fields) {
  let out = '{"file":{"id":' + id;
  const own = keys(fields);
  for (let i = 0; i < own.length; i++) {
    const v = fields[own[i]];
    if (v === undefined || v === false || own[i] === "call") continue;
    out += ',"' + own[i] + '":' + (typeof v === "string" ? quote(v) : v);
  }
  return out + "}}";
}

export function sendFile(id, fields) { write(fileLine(id, fields)); }

export function sendConsole(level, text) {
  write('{"console":{"level":' + quote(level) + ',"text":' + quote(text) + "}}");
}

export function sendEmit(handle) { write('{"emit":{"handle":' + quote(handle) + "}}"); }

/** Ends the run well; value is JSON text or undefined, unawaited JSON text of an array of ids or "". */
export function sendDone(value, unawaited) {
  write('{"done":{' + (value === undefined ? "" : '"value":' + value + (unawaited ? "," : "")) +
    (unawaited ? '"unawaited":' + unawaited : "") + "}}");
}

/** Ends the run badly; fields is a record of strings. */
export function sendFail(fields) {
  let out = '{"message":' + quote(fields.message);
  if (fields.name) out += ',"name":' + quote(fields.name);
  if (fields.kind) out += ',"kind":' + quote(fields.kind);
  if (fields.upstream) out += ',"upstream":' + quote(fields.upstream);
  if (fields.tool) out += ',"tool":' + quote(fields.tool);
  if (fields.stack) out += ',"stack":' + quote(fields.stack);
  write('{"fail":{"error":' + out + "}}}");
}
