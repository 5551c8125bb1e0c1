// console, with Node's formatting.

import util from "../../../../../../third_party/node-inspect-extracted/dist/inspect.js";
import {
  MapCtor, StringCtor, apply, create, define, global, keys, list, mapDelete, mapGet, mapSet, max, named, numberToFixed, objectToString, padEnd,
  push, record, repeat, slice,
} from "./primordials.js";
import { callerStack } from "./errors.js";
import { now, sendConsole } from "./host.js";

const maxLine = 16 * 1024; // characters per call

const inspectValue = util.inspect;
const formatArgs = util.formatWithOptions;
const options = record({ depth: 4, compact: 6, breakLength: 120, maxArrayLength: 100, maxStringLength: 10_000 });

let indent = "", counts = new MapCtor(), times = new MapCtor();

/** Resets groups at the start of a run, and counters outside a session. */
export function reset(session) {
  if (indent.length > 0) indent = "";
  if (session) return;
  counts = new MapCtor();
  times = new MapCtor();
}

/** Formats any value as one line of text; never throws. */
export function show(v) {
  try { return inspectValue(v, options); } catch { return objectToString(v); }
}

/** Writes one console line. The host limits the number of lines. */
export function line(level, text) {
  if (text.length > maxLine) text = slice(text, 0, maxLine) + "… (" + (text.length - maxLine) + " more characters)";
  sendConsole(level, indent + text);
}

function log(level) {
  return (...args) => {
    let text;
    try {
      text = format(args);
    } catch (e) {
      text = "[could not be shown: " + safeMessage(e) + "]";
    }
    line(level, text);
  };
}

function format(args) {
  const all = [];
  define(all, 0, options, true);
  for (let i = 0; i < args.length; i++) define(all, i + 1, args[i], true);
  return apply(formatArgs, undefined, all);
}

function safeMessage(e) {
  try { return StringCtor(e.message); } catch { return "unknown"; }
}

const label = (l) => (l === undefined ? "default" : StringCtor(l));

function table(data) {
  if (data === null || typeof data !== "object") return show(data);
  const rows = keys(data), columns = list(), seen = new MapCtor();
  let values = false;
  const limit = rows.length > 500 ? 500 : rows.length;
  for (let i = 0; i < limit; i++) {
    const row = data[rows[i]];
    if (row === null || typeof row !== "object") { values = true; continue; }
    const own = keys(row);
    for (let j = 0; j < own.length && columns.length < 50; j++) if (!mapGet(seen, own[j])) { mapSet(seen, own[j], true); push(columns, own[j]); }
  }
  const grid = list(), head = list();
  push(head, "(index)");
  for (let j = 0; j < columns.length; j++) push(head, columns[j]);
  if (values) push(head, "Values");
  push(grid, head);
  for (let i = 0; i < limit; i++) {
    const row = data[rows[i]], cells = list(), flat = row === null || typeof row !== "object";
    push(cells, rows[i]);
    for (let j = 0; j < columns.length; j++) push(cells, !flat && columns[j] in row ? show(row[columns[j]]) : "");
    if (values) push(cells, flat ? show(row) : "");
    push(grid, cells);
  }
  return draw(grid) + (limit < rows.length ? "\n… " + (rows.length - limit) + " more rows" : "");
}

function draw(grid) {
  const widths = list();
  for (let i = 0; i < grid.length; i++) for (let j = 0; j < grid[i].length; j++) widths[j] = max(widths[j] || 0, grid[i][j].length + 2);
  const rule = (l, m, r) => {
    let s = l;
    for (let j = 0; j < widths.length; j++) s += repeat("─", widths[j]) + (j + 1 < widths.length ? m : r);
    return s;
  };
  let out = rule("┌", "┬", "┐");
  for (let i = 0; i < grid.length; i++) {
    out += "\n│";
    for (let j = 0; j < widths.length; j++) out += " " + padEnd(grid[i][j] || "", widths[j] - 1) + "│";
    if (i === 0) out += "\n" + rule("├", "┼", "┤");
  }
  return out + "\n" + rule("└", "┴", "┘");
}

function elapsed(l) {
  const t = mapGet(times, l);
  if (t === undefined) return undefined;
  const ms = now() - t;
  return l + ": " + (ms >= 1000 ? numberToFixed(ms / 1000, 3) + "s" : numberToFixed(ms, 0) + "ms");
}

const methods = create(null);
methods.log = log("log");
methods.info = log("info");
methods.warn = log("warn");
methods.error = log("error");
methods.debug = log("debug");
methods.dir = (v) => { line("log", show(v)); };
methods.dirxml = methods.log;
methods.table = (data) => { let t; try { t = table(data); } catch { t = show(data); } line("log", t); };
methods.assert = (ok, ...args) => {
  if (ok) return;
  if (args.length === 0) line("error", "Assertion failed");
  else if (typeof args[0] === "string") methods.error("Assertion failed: " + args[0], ...args.slice(1));
  else methods.error("Assertion failed:", ...args);
};
methods.count = (l) => { const n = (mapGet(counts, label(l)) || 0) + 1; mapSet(counts, label(l), n); line("log", label(l) + ": " + n); };
methods.countReset = (l) => { mapDelete(counts, label(l)); };
methods.time = (l) => { mapSet(times, label(l), now()); };
methods.timeLog = (l, ...args) => { const t = elapsed(label(l)); if (t !== undefined) methods.log(t, ...args); };
methods.timeEnd = (l) => { const t = elapsed(label(l)); mapDelete(times, label(l)); if (t !== undefined) line("log", t); };
methods.group = (...args) => { if (args.length > 0) methods.log(...args); if (indent.length < 40) indent += "  "; };
methods.groupCollapsed = methods.group;
methods.groupEnd = () => { indent = slice(indent, 0, max(0, indent.length - 2)); };
methods.trace = (...args) => {
  line("error", "Trace: " + (args.length > 0 ? format(args) : "") + "\n" + callerStack());
};

const out = {};
const names = keys(methods);
for (let i = 0; i < names.length; i++) define(out, names[i], named(methods[names[i]], names[i]), true);
define(out, Symbol.toStringTag, "console");
global("console", out);

export { util };
