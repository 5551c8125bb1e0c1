// import, import() and require: tools as modules, modules of the host, Node's modules and npm
// packages of the sandbox.

import { existsSync, readdirSync } from "node:fs";
import { builtinModules, createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import { ErrorCtor, JSONStringify, StringCtor, create, define, endsWith, global, keys, slice, startsWith } from "./primordials.js";
import { loadJSON, located, moduleAt, toolModule } from "./given.js";

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

// Returns a module of the program, or a tool; undefined if the specifier names neither.
function ownModule(specifier, dir) {
  const at = located(dir, specifier);
  return (at === undefined ? undefined : moduleAt(at, loadNow)) ?? toolModule(at === undefined ? specifier : "/" + at);
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
