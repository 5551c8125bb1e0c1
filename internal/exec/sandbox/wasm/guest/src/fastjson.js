// JSON.parse and JSON.stringify for long texts and plain values. The host does the work, much faster
// than the engine, or declines: then the engine does it, and makes all errors.

import { ArrayPrototype, JSONParse, JSONStringify, ObjectPrototype, repeat, slice } from "./primordials.js";
import { hostParse, hostStringify } from "./host.js";

const minText = 256; // length from which on asking the host pays

/** JSON.parse, without a change that a program can see. */
export function parseJSON(text, reviver) {
  if (reviver === undefined && typeof text === "string" && text.length >= minText) {
    const value = hostParse(text);
    if (value !== undefined) return value;
  }
  return JSONParse(text, reviver);
}

function gapOf(space) {
  if (space === undefined || space === null) return "";
  if (typeof space === "number") return space >= 1 ? repeat(" ", space < 10 ? space : 10) : "";
  return typeof space === "string" ? slice(space, 0, 10) : undefined;
}

/** JSON.stringify, without a change that a program can see. */
export function stringifyJSON(value, replacer, space) {
  if (value !== null && typeof value === "object" && (replacer === undefined || replacer === null)) {
    const gap = gapOf(space);
    if (gap !== undefined && !("toJSON" in ObjectPrototype) && !("toJSON" in ArrayPrototype)) {
      const text = hostStringify(value, gap);
      if (text !== undefined) return text;
    }
  }
  return JSONStringify(value, replacer, space);
}
