// Tool calls and file requests. Each is a promise in the guest's heap until the host answers it.

import {
  ErrorCtor, MapCtor, PromiseCtor, TypeErrorCtor, create, define, defineProperty, exec, freeze, hasOwn, isArray, list, mapDelete, mapForEach,
  mapGet, mapSet, mapSize, privateMap, privateWeakMap, push, record, setPrototypeOf, slice, startsWith,
} from "./primordials.js";
import { parseJSON } from "./fastjson.js";
import { placeOf } from "./errors.js";
import { makeToolError } from "./toolerror.js";
import { ask, called, clock, fileLine, pathPart, sendFile } from "./host.js";
import { remember, results } from "./decoded.js";
import { parse, serialize } from "./json.js";

let nextID = 1, firstID = 1; // of the next call or file request, and of the program's first one
let calls = privateMap();  // id to call; removed once answered and observed
let files = new MapCtor(); // by id: {ok, bad, stack, fields}
let outstanding = 0;       // calls not yet answered by the host
let asked = 0;             // file requests not yet answered by the host
let earlier = 0;           // calls among outstanding that earlier programs of the session made
// The error that calls throw after exit or final_answer, in case the program caught it.
let ended;

// A call is an array because that is the cheapest object to create. These are its indexes.
const ID = 0, PATH = 1, STACK = 2, RESOLVE = 3, REJECT = 4, PENDING = 5, OBSERVED = 6, EARLIER = 7, FAILURE = 8;

/** Returns the number of calls and file requests that the host has not answered. */
export const waiting = () => outstanding + asked;
/** Returns the number of this program's calls that the host has not answered. */
export const waitingCalls = () => outstanding - earlier;

/** Discards all calls at the start of a run; in a session, calls that are still pending remain. */
export function reset(session) {
  if (ended !== undefined) ended = undefined;
  if (firstID === nextID && asked === 0 && mapSize(calls) === 0) return; // the last program made none
  firstID = nextID;
  const before = calls;
  calls = privateMap();
  outstanding = earlier = 0;
  if (!session) { files = new MapCtor(); asked = 0; return; }
  mapForEach(before, (c) => {
    if (!c[PENDING]) return;
    c[EARLIER] = true;
    calls.set(c[ID], c);
    outstanding++;
    earlier++;
  });
}

/** Makes every further call of this program throw reason. */
export function refuse(reason) { ended = reason; }

// Encodes the arguments of a call, args[from] onwards: one object of named arguments, or an array
// of positional ones, whose names the host knows.
function argumentsJSON(args, from) {
  let count = args.length;
  while (count > from && args[count - 1] === undefined) count--;
  if (count === from) return undefined;
  const first = args[from];
  if (count === from + 1) {
    if (first === null) return undefined;
    if (typeof first === "object" && !isArray(first)) return serialize(first);
  }
  const all = [];
  for (let i = from; i < count; i++) define(all, i - from, args[i] === undefined ? null : args[i], true);
  return serialize(all);
}

/**
 * Calls a tool by its path with args[from] onwards. at is an error created at the program's call
 * site.
 */
export function callTool(path, args, from, at) {
  if (typeof path !== "string" || path === "") return failed(new TypeErrorCtor("callTool takes the path of a tool, for example \"github.list_issues\""));
  return callPath(path, pathPart(path), args, from, at);
}

let resolving, rejecting;
const grab = (resolve, reject) => { resolving = resolve; rejecting = reject; };

/** Does the same for a valid path; part is the path's encoded part of the line. */
export function callPath(path, part, args, from, at) {
  if (ended !== undefined) throw ended;
  let json;
  try {
    const first = args[from];
    json = args.length === from + 1 && typeof first === "object" && first !== null && !isArray(first) ? serialize(first) : argumentsJSON(args, from);
  } catch (e) {
    return failed(e);
  }
  const place = placeOf(at), id = nextID++, promise = new PromiseCtor(grab);
  setPrototypeOf(promise, watched);
  if (newest !== undefined) older.set(newest, newestCall);
  newest = promise;
  calls.set(id, newestCall = [id, path, place.stack, resolving, rejecting, true, false, false, undefined]);
  resolving = rejecting = undefined;
  outstanding++;
  called(promise, '{"call":{"id":' + id + part + (json === undefined ? "" : ',"args":' + json) + place.part);
  return promise;
}

// Returns a rejected promise, like an async function that throws.
const failed = (e) => new PromiseCtor((resolve, reject) => { reject(e); });

// The promise of a call records when it is observed: await, then, Promise.all and async return all
// read its constructor. At the end of a run, calls that the program forgot are reported.
const watched = create(PromiseCtor.prototype);
defineProperty(watched, "constructor", record({ get: observed }));
freeze(watched);
let newest, newestCall;         // the last promise created and its call, unless observed
const older = privateWeakMap(); // promise to call, for the calls before the newest

// The record of a call is dropped once the call is answered and observed.
function observed() {
  let call = newestCall;
  if (this === newest) newest = newestCall = undefined;
  else if ((call = older.get(this)) === undefined) return PromiseCtor;
  call[OBSERVED] = true;
  if (!call[PENDING]) calls.delete(call[ID]);
  return PromiseCtor;
}

/**
 * Sends a request to the virtual file system. fields holds the fields of the protocol's File.
 * Later, either ok or bad is called.
 */
export function askFile(fields, stack, ok, bad) {
  if (ended !== undefined) throw ended;
  const id = nextID++;
  mapSet(files, id, record({ ok, bad, stack, fields }));
  asked++;
  sendFile(id, fields);
}

/** Does the same synchronously: blocks until the host answers. */
export function askFileNow(fields, stack) {
  if (ended !== undefined) throw ended;
  const line = ask(fileLine(nextID++, fields));
  if (line === undefined) throw new ErrorCtor("the synchronous functions of node:fs are not available here: use those of node:fs/promises");
  const m = setPrototypeOf(parse(line), null);
  if (m.at !== undefined) clock(m.at);
  const a = setPrototypeOf(m.answer, null);
  if (hasOwn(a, "error") && a.error !== null) throw fileError(setPrototypeOf(a.error, null), fields, stack);
  return a.value;
}

// Marks a call as answered.
function over(call) {
  call[PENDING] = false;
  outstanding--;
  if (call[EARLIER]) earlier--;
  if (call[OBSERVED]) calls.delete(call[ID]);
}

const searchPath = "biplane.search";

// The result of a search is a list of objects with a readable text form.
function searchResult(value) {
  if (!isArray(value)) return value;
  const text = () => {
    let out = "";
    for (let i = 0; i < value.length; i++) {
      const t = value[i];
      out += (i > 0 ? "\n\n" : "") + (t.note ? t.note + "\n\n" : "") + t.path + (t.description ? " - " + t.description : "") +
        (t.call ? "\n" + t.call : "") + (t.example ? "\n" + t.example : "");
    }
    return out;
  };
  define(value, "toString", text);
  define(value, inspectCustom, text);
  return value;
}

const inspectCustom = Symbol.for("nodejs.util.inspect.custom");

/**
 * Resolves a call with a value encoded as JSON without long runs of digits. Returns false, and does
 * nothing, if no such call is pending or the text is invalid.
 */
export function give(id, text) {
  const call = calls.get(id);
  if (call === undefined || !call[PENDING]) return false;
  let value;
  try { value = parseJSON(text); } catch { return false; }
  // over and remember, without the cost of calling them
  call[PENDING] = false;
  outstanding--;
  if (call[EARLIER]) earlier--;
  if (call[OBSERVED]) calls.delete(id);
  if (value !== null && typeof value === "object") results.set(value, true);
  call[RESOLVE](call[PATH] === searchPath ? searchResult(value) : value);
  return true;
}

/** Delivers the host's answer to a call or file request. Unknown ids are ignored. */
export function answer(a) {
  const failed = hasOwn(a, "error") && a.error !== null;
  const value = hasOwn(a, "value") ? a.value : undefined;
  const call = calls.get(a.id);
  if (call !== undefined) {
    if (!call[PENDING]) return;
    over(call);
    if (!failed) { remember(value); call[RESOLVE](call[PATH] === searchPath ? searchResult(value) : value); return; }
    call[FAILURE] = makeToolError(setPrototypeOf(a.error, null), call[STACK]);
    call[REJECT](call[FAILURE]);
    return;
  }
  const file = mapGet(files, a.id);
  if (file === undefined) return;
  mapDelete(files, a.id);
  asked--;
  if (failed) file.bad(fileError(setPrototypeOf(a.error, null), file.fields, file.stack));
  else file.ok(value);
}

const codes = record({ not_found: "ENOENT", denied: "EACCES", invalid: "EINVAL", conflict: "EEXIST", limit: "ENOSPC" });
const numbers = record({
  EPERM: -1, ENOENT: -2, EIO: -5, EBADF: -9, EACCES: -13, EBUSY: -16, EEXIST: -17, ENOTDIR: -20, EISDIR: -21, EINVAL: -22, EFBIG: -27, ENOSPC: -28, EROFS: -30,
  ENAMETOOLONG: -36, ENOTEMPTY: -39, EILSEQ: -84, EDQUOT: -122,
});
const systemCall = /^([A-Z0-9]+: [^,]*, )([a-z]+)/;

// Rewrites the host's message as Node words it: with Node's name of the system call, and both paths
// if there are two.
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

/** Builds a file error with the properties that Node's errors have. */
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

const nothing = record({ ids: list(), failures: list(), unseen: 0 });

/**
 * Returns the ids of the calls that the program never observed or that are unanswered, and the
 * failures among them.
 */
export function forgotten() {
  if (mapSize(calls) === 0) return nothing;
  const ids = list(), failures = list();
  let unseen = 0;
  mapForEach(calls, (c) => {
    if (c[EARLIER] || c[OBSERVED] && !c[PENDING]) return;
    push(ids, c[ID]);
    if (c[PENDING] && !c[OBSERVED]) unseen++;
    if (!c[OBSERVED] && c[FAILURE] !== undefined) push(failures, record({ path: c[PATH], failure: c[FAILURE] }));
  });
  return record({ ids, failures, unseen });
}
