// Stack traces that show the program's frames and hide the runtime's.

import {
  ErrorCtor, apply, define, defineProperty, endsWith, engineCaptureStackTrace, engineStack, getOwnPropertyDescriptor, indexOf, join, lastIndexOf,
  list, mapSize, named, privateMap, push, record, slice, split, startsWith,
} from "./primordials.js";
import { evalAs, stackPart } from "./host.js";

// The engine's file name for programs and for code that they compile with eval.
const evalName = "<input>";
const maxFrames = 24;
const maxStack = 8192;

let programName = "program"; // the running program's name in stack traces
let serial = 0;              // number of programs run in this guest
let running = evalName;      // the engine's file name for the running program

/**
 * Runs the script of a program. In a session, the engine knows each program under its own file
 * name.
 */
export function evaluate(code, name) {
  programName = name;
  serial++;
  running = serial === 1 ? evalName : evalName + serial;
  if (mapSize(cleaned) > 0) cleaned = privateMap();
  return evalAs(code, running);
}

// Rewrites the location in a program's frame. The running program's location is named after it; for
// an earlier program, whose source is unavailable, it becomes "earlier program".
function placed(line, at) {
  const rest = slice(line, at + running.length);
  if (slice(line, at, at + running.length) === running && startsWith(rest, ":")) return slice(line, 0, at) + programName + rest;
  return slice(line, 0, at) + "earlier program" + (endsWith(line, ")") ? ")" : "");
}

const isNative = (line) => indexOf(line, "(native)") >= 0;

// Tells whether the runtime called a builtin by its copy (see primordials.js), from the next frame.
function isByRuntime(line, next) {
  return endsWith(line, "at call (native)") && next !== undefined && !isNative(next) && indexOf(next, evalName) < 0;
}

/**
 * Returns the frames of the program and of builtins that it called, renamed to the program's name.
 */
export function cleanStack(raw) {
  if (typeof raw !== "string") return "";
  const lines = split(raw.length > 65536 ? slice(raw, 0, 65536) : raw, "\n");
  const kept = list();
  let end = 0;
  for (let i = 0; i < lines.length && kept.length < maxFrames; i++) {
    const line = lines[i];
    const at = lastIndexOf(line, evalName);
    if (at >= 0) {
      push(kept, placed(line, at));
      end = kept.length;
    } else if (isNative(line) && kept.length > 0 && !isByRuntime(line, lines[i + 1])) {
      push(kept, line);
    }
  }
  kept.length = end;
  const out = join(kept, "\n");
  return out.length > maxStack ? slice(out, 0, maxStack) : out;
}

// Cache of placeOf for the running program, which usually calls tools from few places, many times.
const maxCleaned = 32;
let cleaned = privateMap(); // engine's stack text to place
const rawStack = engineStack.get, noArguments = list();

/** Returns the program's frames of an error just created, as text and as encoded for a call. */
export function placeOf(e) {
  const raw = apply(rawStack, e, noArguments);
  let place = cleaned.get(raw);
  if (place === undefined) {
    if (mapSize(cleaned) >= maxCleaned) cleaned = privateMap();
    const stack = cleanStack(raw);
    cleaned.set(raw, place = { __proto__: null, stack, part: stackPart(stack) });
  }
  return place;
}

/** Returns the program's frames of the current call stack. */
export const callerStack = () => placeOf(new ErrorCtor()).stack;

function header(e) {
  let name = "Error", message = "";
  try {
    const n = e.name, m = e.message;
    if (typeof n === "string") name = n;
    if (typeof m === "string") message = m;
  } catch { /* the program's own getters */ }
  return message === "" ? name : name === "" ? message : name + ": " + message;
}

/** Returns the program's frames of an error; "" for any other value. */
export function framesOf(e) {
  try {
    const own = getOwnPropertyDescriptor(e, "stack");
    if (own === undefined) return cleanStack(apply(engineStack.get, e, []));
    return typeof own.value === "string" ? ownFrames(own.value) : "";
  } catch { return ""; }
}

// Returns the frames of a stack that is already a string, from captureStackTrace or makeToolError.
// It already has the program's name.
function ownFrames(text) {
  const kept = list(), lines = split(text.length > 65536 ? slice(text, 0, 65536) : text, "\n");
  for (let i = 0; i < lines.length && kept.length < maxFrames; i++) if (startsWith(lines[i], "    at ")) push(kept, lines[i]);
  const out = join(kept, "\n");
  return out.length > maxStack ? slice(out, 0, maxStack) : out;
}

// error.stack reads as in other engines: the error on the first line, then the frames.
const accessors = record({
  get() {
    const raw = apply(engineStack.get, this, []);
    if (typeof raw !== "string") return raw;
    const frames = cleanStack(raw);
    return frames === "" ? header(this) : header(this) + "\n" + frames;
  },
  set(v) { apply(engineStack.set, this, [v]); },
});
defineProperty(ErrorCtor.prototype, "stack", record({ get: accessors.get, set: accessors.set, enumerable: false, configurable: true }));

define(ErrorCtor, "captureStackTrace", named((o, f) => {
  apply(engineCaptureStackTrace, ErrorCtor, f === undefined ? [o] : [o, f]);
  const frames = cleanStack(o.stack);
  define(o, "stack", frames === "" ? header(o) : header(o) + "\n" + frames);
}, "captureStackTrace"));

// A hook set here would receive the runtime's own functions with each frame.
defineProperty(ErrorCtor, "prepareStackTrace", record({ get: () => undefined, set: () => {}, enumerable: false, configurable: false }));
ErrorCtor.stackTraceLimit = 50;
