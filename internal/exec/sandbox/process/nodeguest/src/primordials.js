// The builtins of the shared runtime, with substitutes for those that V8 lacks or has elsewhere.

import { randomBytes } from "node:crypto";
import * as shared from "shared:primordials.js";
import { poke } from "./turn.js";

export * from "shared:primordials.js";

const bufferFrom = Buffer.from, toString = shared.uncurry(Buffer.prototype.toString);
const { typedArrayBuffer, typedArrayBytes, typedArrayOffset } = shared;
const view = (b) => bufferFrom(typedArrayBuffer(b), typedArrayOffset(b), typedArrayBytes(b));

export const base64 = (bytes) => toString(view(bytes), "base64");

/** Does the same as the shared function, and lets the agent look at the program afterwards. */
export function settled(v, ok, bad) {
  shared.settled(v, (x) => { ok(x); poke(); }, (e) => { bad(e); poke(); });
}

// JSON with exact integers, which versions of Node before 22 lack. There an integer is a text with
// a random mark while a value is encoded or decoded.
const native = typeof JSON.rawJSON === "function";
const { parse, stringify } = JSON;
const mark = toString(randomBytes(16), "hex") + ":";
const replace = shared.uncurry(String.prototype.replace);
const marked = new RegExp('"' + mark + '(-?\\d+)"', "g");
const tokens = /"(?:[^"\\]|\\.)*"|(-?\d{16,})(?![\d.eE])/g;

export const rawJSON = native ? JSON.rawJSON : (digits) => mark + digits;

export const JSONStringify = native ? stringify : (v) => {
  const s = stringify(v);
  return s !== undefined && shared.indexOf(s, mark) >= 0 ? replace(s, marked, "$1") : s;
};

export const JSONParse = native ? parse : (text, reviver) => {
  if (typeof reviver !== "function") return parse(text, reviver);
  let found = false;
  const changed = replace(`${text}`, tokens, (token, digits) => {
    if (digits === undefined) return token;
    found = true;
    return '"' + mark + digits + '"';
  });
  if (!found) return parse(text, reviver);
  return parse(changed, function (key, value) {
    const isInteger = typeof value === "string" && shared.startsWith(value, mark);
    const source = isInteger ? shared.slice(value, mark.length) : "";
    return shared.apply(reviver, this, [key, isInteger ? +source : value, { source }]);
  });
};
