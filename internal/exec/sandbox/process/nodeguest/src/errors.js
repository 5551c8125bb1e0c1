// Running programs, stack traces with the program's frames, and ToolError.

import { Script } from "node:vm";
import {
  ErrorCtor, apply, define, getOwnPropertyDescriptor, global, indexOf, join, list, push, record, slice, split, startsWith,
} from "./primordials.js";
import { program, stackPart } from "./host.js";
import { poke } from "./turn.js";

const maxFrames = 24;
const maxStack = 8192;

let programName = "program"; // the running program's name in stack traces
let running = "program";     // V8's file name for it
let lines = [];              // its lines, as V8 counts them
let serial = 0;              // number of programs run in this guest

const runHere = Script.prototype.runInThisContext;

/** Runs the script of a program. Each program of a session has its own file name in V8. */
export function evaluate(code, name) {
  programName = name;
  serial++;
  running = serial === 1 ? name : name + "#" + serial;
  lines = code.split(/\r\n|[\n\r\u2028\u2029]/);
  program.runs = true;
  poke();
  return apply(runHere, new Script(code, { filename: running }), [{ displayErrors: false }]);
}

const position = /^:(\d+):(\d+)/;
const byteLength = Buffer.byteLength;

// Converts a position of V8, which counts UTF-16 units, to one in bytes, as the host counts.
function inBytes(rest) {
  const m = position.exec(rest);
  if (m === null) return rest;
  const line = lines[+m[1] - 1], column = +m[2];
  if (line === undefined) return rest;
  return ":" + m[1] + ":" + (byteLength(slice(line, 0, column - 1)) + 1) + slice(rest, m[0].length);
}

// Rewrites the location in a program's frame; undefined if the frame is of another file.
function placed(line) {
  const at = indexOf(line, running + ":");
  if (at >= 0 && (line[at - 1] === "(" || line[at - 1] === " ")) return slice(line, 0, at) + programName + inBytes(slice(line, at + running.length));
  const earlier = indexOf(line, programName);
  if (earlier >= 0 && (line[earlier - 1] === "(" || line[earlier - 1] === " ")) return slice(line, 0, earlier) + "earlier program" + (line[line.length - 1] === ")" ? ")" : "");
  return undefined;
}

const ownFile = "(" + __filename, ownFile2 = " " + __filename;

/** Returns the frames of the program and of what it called, without those of the runtime. */
export function cleanStack(raw) {
  if (typeof raw !== "string") return "";
  const all = split(raw.length > 65536 ? slice(raw, 0, 65536) : raw, "\n"), kept = list();
  let end = 0;
  for (let i = 0; i < all.length && kept.length < maxFrames; i++) {
    const line = all[i];
    if (!startsWith(line, "    at ")) continue;
    const own = placed(line);
    if (own !== undefined) {
      push(kept, own);
      end = kept.length;
    } else if (indexOf(line, ownFile) < 0 && indexOf(line, ownFile2) < 0 && indexOf(line, "node:") < 0) {
      push(kept, line);
    }
  }
  kept.length = end;
  const out = join(kept, "\n");
  return out.length > maxStack ? slice(out, 0, maxStack) : out;
}

/** Returns the program's frames of an error just created, as text and as encoded for a call. */
export function placeOf(e) {
  const stack = framesOf(e);
  return { __proto__: null, stack, part: stackPart(stack) };
}

/** Returns the program's frames of the current call stack. */
export const callerStack = () => framesOf(new ErrorCtor());

/** Returns the program's frames of an error; "" for any other value. */
export function framesOf(e) {
  try { return cleanStack(e.stack); } catch { return ""; }
}

ErrorCtor.stackTraceLimit = 30;

const moreFields = ["status", "retryable", "retryAfter", "data"];

/** The error that a failed tool call throws in a program. */
export class ToolError extends ErrorCtor {
  constructor(message, fields) {
    super(message);
    if (fields !== null && typeof fields === "object") {
      define(this, "kind", fields.kind, true);
      define(this, "upstream", fields.upstream, true);
      define(this, "tool", fields.tool, true);
      for (let i = 0; i < moreFields.length; i++) {
        const name = moreFields[i];
        if (fields[name] !== undefined) define(this, name, fields[name], true);
      }
    }
  }
}
define(ToolError.prototype, "name", "ToolError");
global("ToolError", ToolError);

// Returns a field of an error's data, if it has the given type.
function dataField(data, name, type) {
  if (data === null || typeof data !== "object") return undefined;
  const d = getOwnPropertyDescriptor(data, name);
  return d !== undefined && typeof d.value === type ? d.value : undefined;
}

/** Creates a ToolError from the host's error, with the stack of the failed call. */
export function makeToolError(error, stack) {
  const e = new ToolError(error.message, record({
    kind: error.kind || "internal", upstream: error.upstream || "", tool: error.tool || "", status: dataField(error.data, "status", "number"),
    retryable: dataField(error.data, "retryable", "boolean"), retryAfter: dataField(error.data, "retry_after", "number"), data: error.data,
  }));
  define(e, "stack", "ToolError: " + error.message + (stack === "" ? "" : "\n" + stack));
  return e;
}
