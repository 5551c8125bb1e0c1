// Calls of tools and requests for files: each is a promise in the guest's heap until the host answers.

import {
  ErrorCtor, MapCtor, PromiseCtor, StringCtor, TypeErrorCtor, defineProperty, hasOwn, isArray, list, mapDelete, mapForEach, mapGet, mapSet, mapSize,
  push, record, setPrototypeOf, settled,
} from "./primordials.js";
import { callerStack, makeToolError } from "./errors.js";
import { sendCall, sendFile } from "./host.js";
import { serialize } from "./json.js";

let nextID = 1;
let calls = new MapCtor(); // by id: {id, path, stack, resolve, reject, pending, observed, failure}
let files = new MapCtor(); // by id: {resolve, reject, stack}
let outstanding = 0;       // calls that the host has not answered

/** How many calls and file requests the host has not answered. */
export const waiting = () => outstanding + mapSize(files);
export const waitingCalls = () => outstanding;

/** Forgets all calls; at the start of a run. */
export function reset() {
  calls = new MapCtor();
  files = new MapCtor();
  outstanding = 0;
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
  const call = record({ id: nextID++, path, stack, resolve: undefined, reject: undefined, pending: true, observed: false, failure: undefined });
  const promise = new PromiseCtor((resolve, reject) => { call.resolve = resolve; call.reject = reject; });
  ignore(promise);
  defineProperty(promise, "constructor", record({ get() { call.observed = true; return PromiseCtor; }, configurable: true }));
  mapSet(calls, call.id, call);
  outstanding++;
  sendCall(call.id, path, json, stack);
  return promise;
}

// Marks a promise as handled, so that the engine does not report it: the runtime does.
function ignore(p) { settled(p, undefined, () => {}); }

/** Asks for something of the virtual file system. */
export function askFile(op, path) {
  const stack = callerStack();
  return new PromiseCtor((resolve, reject) => {
    const id = nextID++;
    mapSet(files, id, record({ resolve, reject, stack, op, path }));
    sendFile(id, op, StringCtor(path));
  });
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
    if (!failed) { call.resolve(value); return; }
    call.failure = makeToolError(setPrototypeOf(a.error, null), call.stack);
    call.reject(call.failure);
    return;
  }
  const file = mapGet(files, a.id);
  if (file === undefined) return;
  mapDelete(files, a.id);
  if (failed) file.reject(fileError(setPrototypeOf(a.error, null), file));
  else file.resolve(value);
}

const codes = record({ not_found: "ENOENT", denied: "EACCES", invalid: "EINVAL" });

function fileError(error, file) {
  const out = new ErrorCtor(error.message);
  defineProperty(out, "stack", record({ value: "Error: " + error.message + (file.stack === "" ? "" : "\n" + file.stack), writable: true, configurable: true }));
  defineProperty(out, "code", record({ value: codes[error.kind] || "EIO", enumerable: true, writable: true, configurable: true }));
  return out;
}

/** The ids of the calls that the program left alone: never looked at, or not answered; and the failures among them. */
export function forgotten() {
  const ids = list(), failures = list();
  let unseen = 0;
  mapForEach(calls, (c) => {
    if (c.observed && !c.pending) return;
    push(ids, c.id);
    if (c.pending && !c.observed) unseen++;
    if (!c.observed && c.failure !== undefined) push(failures, c);
  });
  return record({ ids, failures, unseen });
}
