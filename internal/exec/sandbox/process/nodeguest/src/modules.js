// import, import() and require: tools as modules, modules of the host, Node's modules and npm
// packages of the sandbox.

import { existsSync, readdirSync } from "node:fs";
import { builtinModules, createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import {
  ErrorCtor, JSONStringify, MapCtor, ProxyCtor, StringCtor, create, define, endsWith, exec, global, keys, lastIndexOf, mapGet, mapSet, record,
  slice, startsWith, toUpperCase,
} from "./primordials.js";
import { readText } from "./files.js";
import { parse } from "./json.js";
import { allTools, namespaceOf, toolOf } from "./tools.js";

const searched = ["/workspace/node_modules", "/node_modules", ...(process.env.NODE_PATH || "").split(":")];
const nodeRequire = createRequire("/workspace/program.js");

function moduleOf(o) {
  const m = create(null);
  if (o !== null && (typeof o === "object" || typeof o === "function")) {
    const own = keys(o);
    for (let i = 0; i < own.length; i++) define(m, own[i], o[own[i]], true);
  }
  define(m, "default", o, true);
  return m;
}

function withDefault(ns, rename) {
  return new ProxyCtor(create(null), record({
    get: (t, k) => (k === "default" ? ns : typeof k === "symbol" || k === "then" ? undefined : ns[rename ? safe(k) : k]),
    has: (t, k) => k === "default" || k in ns,
    ownKeys: () => keys(ns),
    getOwnPropertyDescriptor: (t, k) => ({ __proto__: null, value: ns[k], enumerable: true, configurable: true }),
    getPrototypeOf: () => null,
  }));
}

// Returns the identifier for a tool or upstream whose exact name is a file name.
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

function toolModule(specifier) {
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

// Resolves the specifier of a module in the directory dir to a path below the root; undefined if it
// is not a path.
function located(dir, specifier) {
  if (startsWith(specifier, "./") || startsWith(specifier, "../")) return slice(path.normalize("/" + dir + "/" + specifier), 1);
  if (startsWith(specifier, "/")) return slice(path.normalize(specifier), 1);
  return startsWith(specifier, "skills/") || startsWith(specifier, "workspace/") ? path.normalize(specifier) : undefined;
}

const endings = ["", ".ts", ".js", ".mts", ".mjs", "/index.ts", "/index.js"];

function moduleAt(at) {
  for (let i = 0; i < endings.length; i++) {
    const m = mapGet(given, at + endings[i]);
    if (m === undefined) continue;
    if (m.module !== undefined) return m.module.exports; // may be incomplete while modules import each other
    m.module = { exports: {} };
    const dir = slice(at + endings[i], 0, lastIndexOf(at + endings[i], "/"));
    try { m.run(m.module, m.module.exports, (specifier) => loadNow(StringCtor(specifier), dir)); } catch (e) { m.module = undefined; throw e; }
    return m.module.exports;
  }
  return undefined;
}

// Returns a module of the program, or a tool; undefined if the specifier names neither.
function ownModule(specifier, dir) {
  const at = located(dir, specifier);
  return (at === undefined ? undefined : moduleAt(at)) ?? toolModule(at === undefined ? specifier : "/" + at);
}

// Returns the file of a path that the program imports; a path of ./workspace counts from there.
function fileOf(at) {
  for (const base of ["/", "/workspace/"]) {
    for (const ending of ["", ".js", ".mjs", ".cjs", "/index.js"]) {
      if (existsSync(base + at + ending) && (ending !== "" || path.extname(at) !== "")) return base + at + ending;
    }
  }
  return "/" + at;
}

// Loads a module at once, as require does.
function loadNow(specifier, dir) {
  const own = ownModule(specifier, dir);
  if (own !== undefined) return own;
  const at = located(dir, specifier);
  try {
    return nodeRequire(at === undefined ? specifier : fileOf(at));
  } catch (e) { throw explained(e, specifier); }
}

// Returns the error for a module that can't be found.
function explained(e, specifier) {
  if (e === null || typeof e !== "object" || e.code !== "MODULE_NOT_FOUND" && e.code !== "ERR_MODULE_NOT_FOUND") return e;
  if (startsWith(specifier, ".") || startsWith(specifier, "/")) return new ErrorCtor("cannot import " + JSONStringify(specifier) + ": there is no such file in the sandbox");
  const name = packageOf(specifier);
  if (packages().includes(name)) return e; // one of its own imports is missing
  return new ErrorCtor("cannot import " + JSONStringify(specifier) + ": this sandbox has no package " + JSONStringify(name));
}

const packageOf = (specifier) => specifier.split("/").slice(0, specifier[0] === "@" ? 2 : 1).join("/");

// Returns import() as code in a folder has it.
function importerIn(folder) {
  const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  if (loader === undefined) return undefined;
  return new vm.Script("(s) => import(s)", { filename: folder + "/program.js", importModuleDynamically: loader }).runInThisContext();
}

// Loads a module of Node, a package or a file.
async function loadForeign(specifier, at) {
  try {
    if (at !== undefined) return await import(pathToFileURL(fileOf(at)).href);
    const name = startsWith(specifier, "node:") ? slice(specifier, 5) : specifier;
    if (builtinModules.includes(name) || startsWith(specifier, "node:")) return moduleOf(nodeRequire(specifier));
    for (const folder of searched) {
      if (!endsWith(folder, "/node_modules") || !existsSync(folder + "/" + packageOf(specifier))) continue;
      const load = importerIn(path.dirname(folder));
      if (load !== undefined) return await load(specifier);
    }
    return moduleOf(nodeRequire(specifier));
  } catch (e) { throw explained(e, specifier); }
}

async function loadJSON(at) {
  const value = parse(await readText("/" + at)), out = create(null);
  if (value !== null && typeof value === "object") {
    const own = keys(value);
    for (let i = 0; i < own.length; i++) define(out, own[i], value[own[i]], true);
  }
  define(out, "default", value, true);
  return out;
}

define(globalThis, "__import", async function __import(specifier) {
  specifier = StringCtor(specifier);
  const own = ownModule(specifier, "");
  if (own !== undefined) return own;
  const at = located("", specifier);
  return at !== undefined && endsWith(at, ".json") ? loadJSON(at) : loadForeign(specifier, at);
});

function require(specifier) { return loadNow(StringCtor(specifier), ""); }
require.resolve = nodeRequire.resolve;
require.cache = nodeRequire.cache;
global("require", require);
global("__dirname", "/workspace");
global("__filename", "/workspace/program.js");

function packages() {
  const out = new Set();
  for (const folder of searched) {
    let names = [];
    try { names = readdirSync(folder); } catch { /* this host doesn't have it */ }
    for (const name of names) {
      if (name[0] === "@") for (const n of readdirSync(folder + "/" + name)) out.add(name + "/" + n);
      else if (name[0] !== ".") out.add(name);
    }
  }
  return [...out];
}

/** Returns the modules that programs can import here: Node's, and packages. */
export const describeModules = () => [...builtinModules.filter((n) => n[0] !== "_"), ...packages()].sort();
