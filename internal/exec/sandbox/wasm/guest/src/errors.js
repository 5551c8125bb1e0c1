// Stack traces that show the program and nothing of the runtime, and ToolError.

import {
  ErrorCtor, apply, define, defineProperty, endsWith, engineCaptureStackTrace, engineStack, getOwnPropertyDescriptor, global, indexOf, join, lastIndexOf,
  list, mapSize, named, privateMap, push, record, slice, split, startsWith, uncurry,
} from "./primordials.js";
import { evalAs, stackPart } from "./host.js";

// Under this name the engine knows programs, and what they compile with eval.
const evalName = "<input>";
const maxFrames = 24;
const maxStack = 8192;

let programName = "program"; // what the stack traces of the running program call it
let serial = 0;              // how many programs have run here
let running = evalName;      // under which the engine knows it

/** Runs the script of a program. Each of a session has a name of its own for the engine. */
export function evaluate(code, name) {
  programName = name;
  serial++;
  running = serial === 1 ? evalName : evalName + serial;
  if (mapSize(cleaned) > 0) cleaned = privateMap();
  return evalAs(code, running);
}

// The place in a frame of a program: its own, by its name; one of an earlier program, whose text is not at hand, in words.
function placed(line, at) {
  const rest = slice(line, at + running.length);
  if (slice(line, at, at + running.length) === running && startsWith(rest, ":")) return slice(line, 0, at) + programName + rest;
  return slice(line, 0, at) + "earlier program" + (endsWith(line, ")") ? ")" : "");
}

/** Keeps the frames of the program and of builtins that it called, under the program's name. */
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
    } else if (indexOf(line, "(native)") >= 0 && kept.length > 0) {
      push(kept, line);
    }
  }
  kept.length = end;
  const out = join(kept, "\n");
  return out.length > maxStack ? slice(out, 0, maxStack) : out;
}

// What placeOf made of stacks, for the running program: it calls tools from a few places, many times.
const maxCleaned = 32;
let cleaned = privateMap(); // by the engine's text
const rawStack = uncurry(engineStack.get);

/** The program's frames of an error that was made just now: as text, and as a call tells them. */
export function placeOf(e) {
  const raw = rawStack(e);
  let place = cleaned.get(raw);
  if (place === undefined) {
    if (mapSize(cleaned) >= maxCleaned) cleaned = privateMap();
    const stack = cleanStack(raw);
    cleaned.set(raw, place = { __proto__: null, stack, part: stackPart(stack) });
  }
  return place;
}

/** The program's frames of whoever called. */
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

/** The program's frames of an error; "" for anything else. */
export function framesOf(e) {
  try {
    const own = getOwnPropertyDescriptor(e, "stack");
    if (own === undefined) return cleanStack(apply(engineStack.get, e, []));
    return typeof own.value === "string" ? ownFrames(own.value) : "";
  } catch { return ""; }
}

// The frames of a stack that was made into a string before, by captureStackTrace or makeToolError: it bears the
// program's name already.
function ownFrames(text) {
  const kept = list(), lines = split(text.length > 65536 ? slice(text, 0, 65536) : text, "\n");
  for (let i = 0; i < lines.length && kept.length < maxFrames; i++) if (startsWith(lines[i], "    at ")) push(kept, lines[i]);
  const out = join(kept, "\n");
  return out.length > maxStack ? slice(out, 0, maxStack) : out;
}

// error.stack reads as in other engines: the error in the first line, then the frames.
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

// A hook here would be handed the runtime's own functions, frame by frame.
defineProperty(ErrorCtor, "prepareStackTrace", record({ get: () => undefined, set: () => {}, enumerable: false, configurable: false }));
ErrorCtor.stackTraceLimit = 50;

/** What a tool's failure is inside a program. */
export class ToolError extends ErrorCtor {
  constructor(message, fields) {
    super(message);
    if (fields !== null && typeof fields === "object") {
      define(this, "kind", fields.kind, true);
      define(this, "upstream", fields.upstream, true);
      define(this, "tool", fields.tool, true);
    }
  }
}
define(ToolError.prototype, "name", "ToolError");
global("ToolError", ToolError);

/** A ToolError of what the host sent, with the stack of the call that it ends. */
export function makeToolError(error, stack) {
  const e = new ToolError(error.message, record({ kind: error.kind || "internal", upstream: error.upstream || "", tool: error.tool || "" }));
  define(e, "stack", "ToolError: " + error.message + (stack === "" ? "" : "\n" + stack));
  return e;
}
