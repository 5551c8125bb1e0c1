// JSON.parse of what a tool returned, which is decoded already: programs are written for tools that answer with text.

import { JSONParse, WeakMapCtor, define, named, weakGet, weakSet } from "./primordials.js";
import { sendConsole } from "./host.js";

const results = new WeakMapCtor(); // the objects that tools returned
let noted = false;                 // in this run

/** At the start of a run. */
export function begin() { if (noted) noted = false; }

/** Remembers that a tool returned a value. */
export function remember(value) {
  if (value !== null && typeof value === "object") weakSet(results, value, true);
}

define(JSON, "parse", named((text, reviver) => {
  if (text === null || typeof text !== "object" || weakGet(results, text) !== true) return JSONParse(text, reviver);
  if (!noted) {
    noted = true;
    sendConsole("note", "JSON.parse received a tool's result, which is already decoded, and returned it unchanged: omit JSON.parse");
  }
  return text;
}, "parse"));
