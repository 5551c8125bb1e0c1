// Running programs, and stack traces with the program's frames.

import { Script } from "node:vm";
import {
  ErrorCtor, apply, indexOf, join, list, push, slice, split, startsWith,
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
