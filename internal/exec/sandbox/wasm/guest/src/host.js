// The guest's only connection to the host. The driver's function is deleted from the global object
// before any program runs and only this closure keeps it.

import { deleteProperty, JSONStringify, keys } from "./primordials.js";

const host = globalThis.__host;
deleteProperty(globalThis, "__host");

/**
 * called(promise, line) writes the line of a call and marks its promise as handled for the engine:
 * the runtime reports unhandled failures itself.
 */
export const called = host("lend", "c");

/** hostParse(text) parses JSON. It returns undefined if the engine must do it. */
export const hostParse = host("lend", "pa");

/**
 * hostStringify(value, gap) writes a plain value as JSON. It returns undefined if the engine must do
 * it.
 */
export const hostStringify = host("lend", "str");

/**
 * hostSort(array, key) sorts a plain array by numbers: the elements for the key "+", their fields
 * for "+name", or their items for "+[index]"; in descending order with "-" instead of "+". It
 * returns undefined if the engine must do it. hostSort(array) only checks the array.
 */
export const hostSort = host("lend", "sort");

/**
 * hostMatch(rx, text) returns all matches of a regular expression in a text, or null. hostSplit(rx,
 * text) splits it, and hostReplace(rx, text, by) replaces all matches. They disregard the flags y and
 * lastIndex. They return undefined if the engine must do it.
 */
export const hostMatch = host("lend", "match");
export const hostSplit = host("lend", "splitting");
export const hostReplace = host("lend", "replace");

const write = (line) => { host("write", line + "\n"); };

/**
 * Returns the time that the host last reported, in milliseconds since the epoch. It advances
 * slightly when read often.
 */
export const now = () => host("now");

/** Sets the clock, which never goes backwards. */
export const clock = (ms) => { host("clock", ms); };

/**
 * Requests a single wake-up in ms from now, replacing any earlier request; a negative number
 * cancels it.
 */
export const timer = (ms) => { write('{"timer":{"ms":' + ms + "}}"); };

/**
 * Sends a question to the host and blocks until it answers; returns undefined if the host doesn't
 * answer. Question and answer are lines.
 */
export const ask = (question) => host("ask", question);

/**
 * Returns a line of the locale and time zone data by its key: the first word as written, "\n", and
 * the rest; undefined if there is none.
 */
export const data = (key) => host("data", key);

/** Evaluates a script under a file name for stack traces. */
export const evalAs = (code, name) => host("eval", code, name);

const quote = (s) => JSONStringify(s);

/**
 * Encode the parts of a call's line that repeat between calls: the path, and the program's call
 * site.
 */
export const pathPart = (path) => ',"path":' + quote(path);
export const stackPart = (stack) => (stack === "" ? "}}\n" : ',"stack":' + quote(stack) + "}}\n");

/**
 * Encodes a file request as a line. fields is a record of the protocol's File without its id; its
 * field call, the system call named in errors, isn't sent.
 */
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

/**
 * Reports success. value is JSON text or undefined; unawaited is the JSON text of an array of ids,
 * or "".
 */
export function sendDone(value, unawaited) {
  write('{"done":{' + (value === undefined ? "" : '"value":' + value + (unawaited ? "," : "")) +
    (unawaited ? '"unawaited":' + unawaited : "") + "}}");
}

/** Reports failure; fields is a record of strings. */
export function sendFail(fields) {
  let out = '{"message":' + quote(fields.message);
  if (fields.name) out += ',"name":' + quote(fields.name);
  if (fields.kind) out += ',"kind":' + quote(fields.kind);
  if (fields.upstream) out += ',"upstream":' + quote(fields.upstream);
  if (fields.tool) out += ',"tool":' + quote(fields.tool);
  if (fields.stack) out += ',"stack":' + quote(fields.stack);
  write('{"fail":{"error":' + out + "}}}");
}
