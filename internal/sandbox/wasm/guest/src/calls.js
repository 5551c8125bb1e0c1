// Calls of tools and requests for files: each is a promise in the guest's heap until the host answers.

import {
  ErrorCtor, MapCtor, PromiseCtor, TypeErrorCtor, define, defineProperty, exec, hasOwn, isArray, list, mapDelete, mapForEach, mapGet, mapSet, mapSize,
  push, record, setPrototypeOf, slice, startsWith, then,
} from "./primordials.js";
import { callerStack, makeToolError } from "./errors.js";
import { ask, clock, fileLine, sendCall, sendFile } from "./host.js";
import { parse, serialize } from "./json.js";

let nextID = 1;
let calls = new MapCtor(); // by id: {id, path, stack, resolve, reject, pending, observed, failure}
let files = new MapCtor(); // by id: {ok, bad, stack, fields}
let outstanding = 0;       // calls that the host has not answered

let earlier = 0;           // of those, how many are of earlier programs of the session

/** How many calls and file requests the host has not answered. */
export const waiting = () => outstanding + mapSize(files);
/** How many calls of this program the host has not answered. */
export const waitingCalls = () => outstanding - earlier;

/** Forgets all calls, or in a session those that are over; at the start of a run. */
export function reset(session) {
  const before = calls;
  calls = new MapCtor();
  outstanding = earlier = 0;
  if (!session) { files = new MapCtor(); return; }
  mapForEach(before, (c) => {
    if (!c.pending) return;
    c.earlier = true;
    mapSet(calls, c.id, c);
    outstanding++;
    earlier++;
  });
}

function argumentsJSON(path, args, count) {
  if (count > 1) throw new TypeErrorCtor(path + " takes one object with named arguments, got " + count + " arguments");
  if (args === undefined || args === null) return undefined;
  if (typeof args !== "object" || isArray(args)) {
    throw new TypeErrorCtor(path + " takes one object with named arguments, got " + (isArray(args) ? "an array" : "a " + typeof args));
  }
  return serialize(args);
}

/**
 * Calls a tool. The promise says when it is looked at (await, then, Promise.all and async return all read its
 * constructor), so that calls which the program forgot can be told at the end.
 */
export function callTool(path, args, count) {
  const stack = callerStack();
  let json;
  try {
    if (typeof path !== "string" || path === "") throw new TypeErrorCtor("callTool takes the path of a tool, for example \"github.list_issues\"");
    json = argumentsJSON(path, args, count);
  } catch (e) {
    return new PromiseCtor((resolve, reject) => { reject(e); }); // as an async function does
  }
  const call = record({ id: nextID++, path, stack, resolve: undefined, reject: undefined, pending: true, observed: false, failure: undefined, earlier: false });
  const promise = new PromiseCtor((resolve, reject) => { call.resolve = resolve; call.reject = reject; });
  ignore(promise);
  defineProperty(promise, "constructor", record({ get() { observe(call); return PromiseCtor; }, configurable: true }));
  mapSet(calls, call.id, call);
  outstanding++;
  sendCall(call.id, path, json, stack);
  return promise;
}

// What is known of a call is dropped when it has an answer and was looked at.
function observe(call) {
  call.observed = true;
  if (!call.pending) mapDelete(calls, call.id);
}

const hidden = record({ value: undefined, configurable: true });
const nothing = () => {};

// Marks a promise of ours as handled, so that the engine does not report it: the runtime does. What then() gives is of the
// engine's own class, since the promise shows no constructor to it.
function ignore(p) {
  defineProperty(p, "constructor", hidden);
  then(p, undefined, nothing);
}

/**
 * Asks for something of the virtual file system; fields is what the protocol's File holds. One of ok and bad is called later.
 */
export function askFile(fields, stack, ok, bad) {
  const id = nextID++;
  mapSet(files, id, record({ ok, bad, stack, fields }));
  sendFile(id, fields);
}

/** The same, standing still until the host answers. */
export function askFileNow(fields, stack) {
  const line = ask(fileLine(nextID++, fields));
  if (line === undefined) throw new ErrorCtor("the synchronous functions of node:fs are not available here: use those of node:fs/promises");
  const m = setPrototypeOf(parse(line), null);
  if (m.at !== undefined) clock(m.at);
  const a = setPrototypeOf(m.answer, null);
  if (hasOwn(a, "error") && a.error !== null) throw fileError(setPrototypeOf(a.error, null), fields, stack);
  return a.value;
}

/** Takes the host's answer to a call or a file request; an answer to nothing is ignored. */
export function answer(a) {
  const failed = hasOwn(a, "error") && a.error !== null;
  const value = hasOwn(a, "value") ? a.value : undefined;
  const call = mapGet(calls, a.id);
  if (call !== undefined) {
    if (!call.pending) return;
    call.pending = false;
    outstanding--;
    if (call.earlier) earlier--;
    if (call.observed) mapDelete(calls, call.id);
    if (!failed) { call.resolve(value); return; }
    call.failure = makeToolError(setPrototypeOf(a.error, null), call.stack);
    call.reject(call.failure);
    return;
  }
  const file = mapGet(files, a.id);
  if (file === undefined) return;
  mapDelete(files, a.id);
  if (failed) file.bad(fileError(setPrototypeOf(a.error, null), file.fields, file.stack));
  else file.ok(value);
}

const codes = record({ not_found: "ENOENT", denied: "EACCES", invalid: "EINVAL", conflict: "EEXIST", limit: "ENOSPC" });
const numbers = record({
  EPERM: -1, ENOENT: -2, EIO: -5, EBADF: -9, EACCES: -13, EBUSY: -16, EEXIST: -17, ENOTDIR: -20, EISDIR: -21, EINVAL: -22, EFBIG: -27, ENOSPC: -28, EROFS: -30,
  ENAMETOOLONG: -36, ENOTEMPTY: -39, EILSEQ: -84, EDQUOT: -122,
});
const systemCall = /^([A-Z0-9]+: [^,]*, )([a-z]+)/;

// The host's text in Node's words: the system call as Node names it, and both paths where there are two.
function wording(message, fields) {
  const m = exec(systemCall, message);
  if (m === null) return message;
  let rest = slice(message, m[0].length);
  if (fields.to !== undefined) {
    const p = startsWith(rest, " '" + fields.path + "'") ? fields.path : fields.to;
    if (startsWith(rest, " '" + p + "'")) rest = " '" + fields.path + "' -> '" + fields.to + "'" + slice(rest, p.length + 3);
  }
  return m[1] + (fields.call || m[2]) + rest;
}

/** An error of a file as Node has it. */
export function fileError(error, fields, stack) {
  const code = error.code || codes[error.kind] || "EIO", message = wording(error.message, fields), called = exec(systemCall, message);
  const out = new ErrorCtor(message);
  define(out, "stack", "Error: " + message + (stack === "" ? "" : "\n" + stack));
  define(out, "errno", numbers[code], true);
  define(out, "code", code, true);
  define(out, "syscall", called === null ? fields.call || fields.op : called[2], true);
  define(out, "path", fields.path, true);
  if (fields.to !== undefined) define(out, "dest", fields.to, true);
  return out;
}

/** The ids of the calls that the program left alone: never looked at, or not answered; and the failures among them. */
export function forgotten() {
  const ids = list(), failures = list();
  let unseen = 0;
  mapForEach(calls, (c) => {
    if (c.earlier || c.observed && !c.pending) return;
    push(ids, c.id);
    if (c.pending && !c.observed) unseen++;
    if (!c.observed && c.failure !== undefined) push(failures, c);
  });
  return record({ ids, failures, unseen });
}
