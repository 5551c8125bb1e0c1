// Modules that are the same in every engine: tools, and files that come with a program.

import {
  MapCtor, ProxyCtor, StringCtor, create, define, endsWith, exec, keys, lastIndexOf, mapGet, mapSet, record, slice, startsWith, toUpperCase,
} from "./primordials.js";
import { readText } from "./files.js";
import { parse } from "./json.js";
import path from "./path.js";
import { allTools, namespaceOf, toolOf } from "./tools.js";

function withDefault(ns, rename) {
  return new ProxyCtor(create(null), record({
    get: (t, k) => (k === "default" ? ns : typeof k === "symbol" || k === "then" ? undefined : ns[rename ? safe(k) : k]),
    has: (t, k) => k === "default" || k in ns,
    ownKeys: () => keys(ns),
    getOwnPropertyDescriptor: (t, k) => ({ __proto__: null, value: ns[k], enumerable: true, configurable: true }),
    getPrototypeOf: () => null,
  }));
}

// Returns the identifier for a tool or upstream whose exact name is a file name: '-' and '.' become
// '_'.
function safe(name) {
  let out = "";
  for (let i = 0; i < name.length; i++) out += name[i] === "-" || name[i] === "." ? "_" : name[i];
  return out;
}

// Converts list_issues to listIssues.
function camel(name) {
  let out = "";
  for (let i = 0; i < name.length; i++) out += name[i] === "_" && out !== "" && i + 1 < name.length ? toUpperCase(name[++i]) : name[i];
  return out;
}

const toolPath = /^(?:\.{1,2}\/)*(?:\/)?(?:tools|servers)(?:\/([^/]+))?(?:\/([^/]+?))?(?:\/)?$/;
const suffixes = [".ts", ".js", ".mts", ".mjs", ".d"];

function stem(name) {
  for (let i = 0; i < suffixes.length; i++) if (endsWith(name, suffixes[i])) return slice(name, 0, name.length - suffixes[i].length);
  return name;
}

/** Returns the module of a tool, of an upstream or of all upstreams; undefined for other specifiers. */
export function toolModule(specifier) {
  const m = exec(toolPath, specifier);
  if (m === null) return undefined;
  let upstream = m[1] === undefined ? undefined : stem(m[1]), member = m[2] === undefined ? undefined : stem(m[2]);
  if (upstream === "index") upstream = undefined;
  if (upstream === undefined) return withDefault(allTools());
  const ns = namespaceOf(safe(upstream));
  if (member === undefined || member === "index") return withDefault(ns);
  const f = toolOf(safe(upstream), safe(member)), out = create(null);
  define(out, safe(member), f, true);
  define(out, camel(safe(member)), f, true);
  define(out, "default", f, true);
  return out;
}

// --- skills, and modules in ./workspace: the host compiles them and sends them with the programs
// that import them ---

const given = new MapCtor(); // path below the root to {hash, run, module}

// __module(path, hash, function) registers a module. A loaded module stays until its text changes.
define(globalThis, "__module", function __module(path, hash, run) {
  const before = mapGet(given, path);
  if (before === undefined || before.hash !== hash) mapSet(given, path, record({ hash, run, module: undefined }));
});

/**
 * Resolves the specifier of a module in the directory dir to a path below the root; returns undefined
 * if it is not a path.
 */
export function located(dir, specifier) {
  if (startsWith(specifier, "./") || startsWith(specifier, "../")) return slice(path.normalize("/" + dir + "/" + specifier), 1);
  if (startsWith(specifier, "/")) return slice(path.normalize(specifier), 1);
  return startsWith(specifier, "skills/") || startsWith(specifier, "workspace/") ? path.normalize(specifier) : undefined;
}

const endings = ["", ".ts", ".js", ".mts", ".mjs", "/index.ts", "/index.js"];

/**
 * Returns the exports of a module that came with a program, or undefined. load(specifier, dir) loads
 * what it requires. The exports may be incomplete while modules import each other.
 */
export function moduleAt(at, load) {
  for (let i = 0; i < endings.length; i++) {
    const file = at + endings[i], m = mapGet(given, file);
    if (m === undefined) continue;
    if (m.module !== undefined) return m.module.exports;
    m.module = { exports: {} };
    const dir = slice(file, 0, lastIndexOf(file, "/"));
    try { m.run(m.module, m.module.exports, (specifier) => load(StringCtor(specifier), dir)); } catch (e) { m.module = undefined; throw e; }
    return m.module.exports;
  }
  return undefined;
}

/** Loads a file of JSON as a module. */
export async function loadJSON(at) {
  const value = parse(await readText("/" + at)), out = create(null);
  if (value !== null && typeof value === "object") {
    const own = keys(value);
    for (let i = 0; i < own.length; i++) define(out, own[i], value[own[i]], true);
  }
  define(out, "default", value, true);
  return out;
}
