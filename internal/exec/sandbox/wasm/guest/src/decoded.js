// Makes JSON.parse accept a tool's result, which is already decoded: many programs are written for
// tools that return text.

import { define, named, privateWeakMap } from "./primordials.js";
import { parseJSON, stringifyJSON } from "./fastjson.js";
import { sendConsole } from "./host.js";
import { runs } from "./timers.js";

/** The objects that tools returned, each with the value true. */
export const results = privateWeakMap();
let noted = -1; // the run in which the note was written last

/** Records that a tool returned value. */
export function remember(value) {
  if (value !== null && typeof value === "object") results.set(value, true);
}

define(JSON, "parse", named((text, reviver) => {
  if (text === null || typeof text !== "object" || results.get(text) !== true) return parseJSON(text, reviver);
  if (noted !== runs) {
    noted = runs;
    sendConsole("note", "JSON.parse received a tool's result, which is already decoded, and returned it unchanged: omit JSON.parse");
  }
  return text;
}, "parse"));

define(JSON, "stringify", named((value, replacer, space) => stringifyJSON(value, replacer, space), "stringify"));
