// How programs reach tools: namespaces, callTool, search, readResult, emit.

import {
  ErrorCtor, MapCtor, ObjectPrototype, ProxyCtor, SetCtor, TypeErrorCtor, create, define, deleteProperty, endsWith, getOwnPropertyDescriptor, global, hasOwn, indexOf, isArray,
  join, keys, list, mapForEach, mapGet, mapHas, mapSet, mapSize, named, push, record, setAdd, setForEach, setHas, slice,
  startsWith,
} from "./primordials.js";
import { callPath, callTool } from "./calls.js";
import { fold } from "./names.js";
import { mustBeFile } from "./files.js";
import { pathPart, sendEmit } from "./host.js";

const inspectCustom = Symbol.for("nodejs.util.inspect.custom");

// Names that the language reads on any object; they never name tools.
const silent = new SetCtor();
for (const n of ["then", "catch", "finally", "toJSON", "__proto__", "prototype", "caller", "arguments", "$$typeof", "nodeType", "inspect"]) setAdd(silent, n);

function refuse() { throw new TypeErrorCtor(labelOf(this) + " holds tools: it can't be changed"); }

const labelOf = (l) => (l.name === "" ? "tools" : "tools " + l.name);
const textOf = (l) => "[" + labelOf(l) + ": " + join(l.names, ", ") + "]";

// Reports whether a listing contains k. The set of names is built at first use: most programs use
// few of many tools.
function lists(l, k) {
  if (l.listed === undefined) {
    l.listed = new SetCtor();
    for (let i = 0; i < l.names.length; i++) setAdd(l.listed, l.names[i]);
  }
  return setHas(l.listed, k);
}

function memberOf(l, k) {
  if (l.made === none) l.made = create(null);
  let m = l.made[k];
  if (m === undefined) m = l.made[k] = l.make(k);
  return m;
}

const none = create(null), noNames = list();
const maxName = 1024; // characters of a name compared with tool names

// The proxy traps of all listings; this is the listing.
const traps = record({
  get(t, k) {
    const m = this.made[k];
    if (m !== undefined) return m;
    if (typeof k === "symbol") return k === inspectCustom ? () => textOf(this) : undefined;
    if (lists(this, k)) return memberOf(this, k);
    if (setHas(silent, k)) return k === "toJSON" ? () => textOf(this) : undefined;
    if (k === "toString" || k === "toLocaleString") return () => textOf(this);
    if (hasOwn(ObjectPrototype, k)) return ObjectPrototype[k];
    return this.other(k);
  },
  has(t, k) { return lists(this, k) || typeof k === "string" && !setHas(silent, k) && this.other(k, true) !== undefined; },
  ownKeys() {
    const out = [];
    for (let i = 0; i < this.names.length; i++) define(out, i, this.names[i], true);
    return out;
  },
  getOwnPropertyDescriptor(t, k) {
    return lists(this, k) ? { __proto__: null, value: memberOf(this, k), enumerable: true, configurable: true, writable: false } : undefined;
  },
  set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
  getPrototypeOf: () => null, isExtensible: () => true,
});

// Creates a listing: the data of an object whose members are created by make(key) for the keys in
// names. Any other key resolves to other(key), undefined if there is no such member. other(key,
// true) is undefined also for a tool that may not exist. With partial, names may be incomplete.
function listing(name, names, make, other, partial) {
  return { __proto__: traps, name, names, make, other, partial, listed: undefined, made: none };
}

// Replaces the names of a listing.
function relist(l, names) {
  l.names = names;
  if (l.listed !== undefined) l.listed = undefined;
  if (l.made !== none) l.made = none;
}

const objectOf = (l) => new ProxyCtor(create(null), l);

function toolFunction(path) {
  const part = pathPart(path);
  return named((...args) => callPath(path, part, args, 0, new ErrorCtor()), path);
}

// A namespace is an array, like a call: its listing and its object. Runs of a session share it.
// The listing doesn't refer to the object, because only the collector could free such a cycle.
const LISTING = 0, OBJECT = 1;

let namespaces = new MapCtor(); // by name, for this run
let lent = new MapCtor();       // name to value, for the globals that the run defined

// Defines a global for a run unless a program of the session has set its own value there. It
// doesn't write what is already there: a session stores every page that a run writes to.
function lend(name, value, before, goesOn) {
  const own = goesOn ? getOwnPropertyDescriptor(globalThis, name) : undefined, was = mapGet(before, name);
  if (own !== undefined && !(was !== undefined && own.value === was) && !(own.value === tools && setHas(rootNames, name))) return;
  if (own === undefined || own.value !== value) global(name, value);
  if (before !== lent || was !== value) mapSet(lent, name, value);
}

// Defines a global unless it already has the value.
function restore(name, value) {
  const own = getOwnPropertyDescriptor(globalThis, name);
  if (own === undefined || own.value !== value) global(name, value);
}

// Defines the other global names of tools unless a namespace or a program of the session uses them.
function lendRoots(before, goesOn) {
  setForEach(rootNames, (name) => {
    if (!mapHas(namespaces, name)) lend(name, tools, before, goesOn);
  });
}

// Creates a namespace. With partial, members may be incomplete.
function makeNamespace(name, members, partial) {
  const l = listing(name, members, makeTool, otherTool, partial), space = [l, objectOf(l)];
  mapSet(namespaces, name, space);
  return space;
}

// The methods of the listings of namespaces.
function makeTool(member) { return toolFunction(this.name + "." + member); }
function otherTool(k, known) { return memberByForm(this, this.names, k, known); }

// Finds the tool among the members of a namespace that k spells differently. If several match, or
// an unknown member is allowed and none matches, the result is a function whose call fails with an
// error that lists the choices.
function memberByForm(l, members, k, known) {
  const name = l.name;
  if (k.length > maxName) return known ? undefined : toolFunction(name + "." + k);
  const whole = fold(k), space = fold(name);
  let found, several = false, group = false;
  if (whole === "") return undefined;
  for (let i = 0; i < members.length; i++) {
    const m = fold(members[i]);
    if (m === whole || space + m === whole || m === space + whole) {
      several = found !== undefined;
      found = members[i];
    } else if (beginsWord(members[i], whole)) group = true;
  }
  if (found !== undefined && !several) return memberOf(l, found);
  if (group && !several) return groupOf(l, members, k);
  return several || l.partial || !known ? toolFunction(name + "." + k) : undefined;
}

// Reports whether a name begins with one or more words that together equal whole.
function beginsWord(member, whole) {
  for (let i = 1; i < member.length; i++) {
    if (member[i] === "_" && fold(slice(member, 0, i)) === whole) return true;
  }
  return false;
}

// Returns the middle part of a path of three levels: github.issues.list for github.issues_list.
function groupOf(l, members, prefix) {
  const names = list();
  for (let i = 0; i < members.length; i++) if (beginsWord(members[i], fold(prefix))) push(names, members[i]);
  return objectOf(listing(l.name + "." + prefix, list(), none, (k, known) => memberByForm(l, names, prefix + "_" + k, known), true));
}

/**
 * Returns the namespace with that name or a similar spelling. Unknown names yield a namespace too:
 * the host decides what exists.
 */
export function namespaceOf(name) {
  const found = mapGet(namespaces, name) || mapGet(namespaces, spaceNamed(name));
  return (found !== undefined ? found : makeNamespace(name, list(), true))[OBJECT];
}
export const allTools = () => tools;

/** Returns the tool of a namespace, known or not. */
export function toolOf(space, member) {
  const f = namespaceOf(space)[member];
  return typeof f === "function" ? f : toolFunction(space + "." + member);
}

// Returns the name of the only namespace that name can mean, in any spelling.
function spaceNamed(name) {
  if (mapHas(namespaces, name)) return name;
  if (spaces === undefined) {
    spaces = new MapCtor();
    mapForEach(namespaces, (s, n) => { const f = fold(n); mapSet(spaces, f, mapHas(spaces, f) ? undefined : n); });
  }
  const whole = fold(name);
  return mapGet(spaces, whole) || (startsWith(whole, "mcp") ? mapGet(spaces, slice(whole, 3)) : endsWith(whole, "mcp") ? mapGet(spaces, slice(whole, 0, whole.length - 3)) : undefined);
}

// Resolves tools[k] if k is not a namespace: a tool or namespace in another spelling, or a function
// of the runtime.
function byForm(k) {
  if (k.length > maxName) return undefined;
  if (hasOwn(aliases, k)) return aliased(aliases[k]);
  const space = spaceNamed(k);
  if (space !== undefined) return mapGet(namespaces, space)[OBJECT];
  const parts = partsOf(k);
  for (let from = 0; from < parts.length; from++) {
    if (from > 0 && !setHas(roots, parts[from - 1])) break;
    for (let i = from + 1; i < parts.length; i++) {
      const ns = spaceNamed(joined(parts, from, i));
      if (ns === undefined) continue;
      const members = mapGet(namespaces, ns)[OBJECT], member = joined(parts, i, parts.length);
      if (!(member in members)) continue;
      const f = members[member];
      if (typeof f === "function") return f;
    }
  }
  return parts.length === 1 ? bareTool(k) || (setHas(runtime, k) && hasOwn(globalThis, k) ? globalThis[k] : k === "log" ? log : undefined) : undefined;
}

function partsOf(k) {
  const out = list();
  let part = "";
  for (let i = 0; i < k.length; i++) {
    const c = k[i], double = c === "_" && k[i + 1] === "_" && part !== "";
    if (double || c === "." || c === "/" || c === ":") { if (part !== "") push(out, part); part = ""; if (double) i++; } else part += c;
  }
  if (part !== "") push(out, part);
  return out;
}

function joined(parts, from, to) {
  let out = parts[from];
  for (let i = from + 1; i < to; i++) out += "_" + parts[i];
  return out;
}

// Returns the tool that a name without an upstream means, if any. If several match, calling the
// result fails with a list of them.
function bareTool(k) {
  const whole = fold(k);
  let found, count = 0;
  if (whole === "") return undefined;
  mapForEach(namespaces, (s, name) => {
    const space = fold(name), members = s[LISTING].names;
    for (let i = 0; i < members.length; i++) {
      const m = fold(members[i]);
      if (m === whole || space + m === whole || "mcp" + space + m === whole) { count++; found = name + "." + members[i]; }
    }
  });
  return count === 1 ? aliased(found) : count > 1 ? toolFunction(k) : undefined;
}

// Resolves an alias: the path of a tool, or a namespace.
function aliased(path) {
  const at = indexOf(path, ".");
  if (at < 0) return mapHas(namespaces, path) ? mapGet(namespaces, path)[OBJECT] : toolFunction(path);
  const s = mapGet(namespaces, slice(path, 0, at)), member = slice(path, at + 1);
  return s !== undefined ? s[OBJECT][member] || toolFunction(path) : toolFunction(path);
}

const roots = new SetCtor();
for (const n of ["tools", "servers", "mcp", "codemode", "api", "functions"]) setAdd(roots, n);
let aliases = none; // for this run
let spaces;                 // folded name to namespace; undefined until first used

// Sets the namespaces of a run. all has the members of each, complete names those with all their
// members. Reports whether the namespaces have the same names as in the run before.
function updateNamespaces(all, names, complete) {
  let whole, same = mapSize(namespaces) === names.length;
  for (let i = 0; same && i < names.length; i++) same = mapHas(namespaces, names[i]);
  const before = namespaces;
  if (!same) {
    if (mapSize(before) > 0) namespaces = new MapCtor();
    if (spaces !== undefined) spaces = undefined;
    relist(root, names);
  }
  if (complete !== undefined) {
    whole = new SetCtor();
    for (let i = 0; i < complete.length; i++) setAdd(whole, complete[i]);
  }
  for (let i = 0; i < names.length; i++) {
    const name = names[i], members = isArray(all[name]) ? all[name] : list(), partial = whole === undefined || !setHas(whole, name);
    const known = mapGet(before, name);
    if (known === undefined) { makeNamespace(name, members, partial); continue; }
    const l = known[LISTING];
    relist(l, members);
    if (l.partial !== partial) l.partial = partial;
    if (!same) mapSet(namespaces, name, known);
  }
  return same;
}

function lendAliases(before, goesOn) {
  const names = keys(aliases);
  for (let i = 0; i < names.length; i++) {
    const taken = mapHas(lent, names[i]) || setHas(rootNames, names[i]);
    if (!taken) lend(names[i], aliased(aliases[names[i]]), before, goesOn);
  }
}

/**
 * Defines the globals of a run from the host's message. goesOn tells whether the session ran
 * programs before, fresh whether no program has run in this guest.
 */
export function setNamespaces(run, goesOn, fresh) {
  const all = run.namespaces, names = all === undefined ? noNames : keys(all), hadAliases = aliases !== none;
  const same = updateNamespaces(all, names, run.whole) && !hadAliases && run.aliases === undefined && goesOn && hasRoots();
  aliases = run.aliases === undefined ? none : run.aliases;
  if (same) for (let i = 0; i < names.length; i++) lend(names[i], mapGet(namespaces, names[i])[OBJECT], lent, true);
  else lendAll(names, goesOn, fresh);
  if (goesOn) restore("callTool", callToolByPath);
  if (!fresh) restore("tools", tools);
}

// Reports whether the other global names of tools exist.
const hasRoots = () => "servers" in globalThis && "codemode" in globalThis && "mcp" in globalThis && "api" in globalThis;

// Defines the globals of a run, and deletes those that only the run before had.
function lendAll(names, goesOn, fresh) {
  const before = lent;
  if (!fresh) { lent = new MapCtor(); lendRoots(before, goesOn); }
  if (aliases !== none) lendAliases(before, goesOn);
  for (let i = 0; i < names.length; i++) lend(names[i], mapGet(namespaces, names[i])[OBJECT], before, goesOn);
  if (fresh) return;
  mapForEach(before, (value, name) => { // the upstream was removed
    if (mapHas(lent, name)) return;
    const own = getOwnPropertyDescriptor(globalThis, name);
    if (own !== undefined && own.value === value) deleteProperty(globalThis, name);
  });
}

const rootNames = new SetCtor(); // other global names of tools

// One object for all runs, so that the golden image already contains it as a global.
const root = listing("", noNames, namespaceOf, byForm, true);
const tools = objectOf(root);
for (const n of ["servers", "codemode", "mcp", "api"]) { setAdd(rootNames, n); global(n, tools); }
global("tools", tools);

// Accepts callTool("server.tool", {…}), callTool("server", "tool", {…}) and callTool({ name:
// "server.tool", arguments: {…} }).
const callToolByPath = (...args) => {
  const at = new ErrorCtor();
  let path = args[0], from = 1;
  if (path !== null && typeof path === "object" && args.length === 1) {
    const given = [];
    define(given, 0, path.arguments || path.args || path.params || path.input, true);
    const name = path.name || path.tool || path.toolName, server = path.server || path.serverName;
    return callTool(typeof server === "string" && typeof name === "string" ? server + "." + name : name, given, 0, at);
  }
  if (typeof path === "string" && args.length > 1 && typeof args[1] === "string" && indexOf(path, ".") < 0 && indexOf(path, "__") < 0) {
    const space = spaceNamed(path);
    if (space !== undefined || args.length > 2) { path = (space === undefined ? path : space) + "." + args[1]; from = 2; }
  }
  return callTool(path, args, from, at);
};
global("callTool", callToolByPath);
global("call_tool", callToolByPath);
global("callMCPTool", callToolByPath);

const one = (x) => { const l = []; define(l, 0, x, true); return l; };

// Accepts search("words", { limit }), or search({ query, limit }) like the tool itself.
function search(query, options) {
  if (query !== null && typeof query === "object") return callTool("biplane.search", one(query), 0, new ErrorCtor());
  const args = create(null);
  if (options !== null && typeof options === "object") {
    const own = keys(options);
    for (let i = 0; i < own.length; i++) define(args, own[i], options[own[i]], true);
  }
  define(args, "query", query === undefined ? "" : query, true);
  return callTool("biplane.search", one(args), 0, new ErrorCtor());
}
global("search", search);

// mcp.log("info", "…", fields)
const log = (level, ...rest) => { (rest.length > 0 && hasOwn(console, level) ? console[level] : console.log)(...(rest.length > 0 ? rest : [level])); };

// Members of tools besides namespaces. Other systems offer them there, or pass them to a program
// that is a function: async ({ codemode, console }) => … destructures it.
const runtime = new SetCtor();
for (const n of ["callTool", "call_tool", "callMCPTool", "search", "readResult", "emit", "fetch", "console", "tools", "codemode", "servers", "mcp", "api",
  "text", "image", "notify", "store", "load", "sleep", "exit", "final_answer"]) setAdd(runtime, n);

global("readResult", function readResult(handle, options) {
  const args = create(null);
  define(args, "handle", handle !== null && typeof handle === "object" ? handle.handle : handle, true);
  if (options !== null && typeof options === "object") {
    if (options.offset !== undefined) define(args, "offset", options.offset, true);
    if (options.limit !== undefined) define(args, "limit", options.limit, true);
  }
  return callTool("biplane.result", one(args), 0, new ErrorCtor());
});

global("emit", emit);

/**
 * Shows the agent an image, audio or other resource returned by a tool, or a file given by its
 * path.
 */
export function emit(x) {
  if (typeof x === "string" && x !== "" && !startsWith(x, "res_")) mustBeFile(x);
  if (send(x) > 0) return;
  throw new TypeErrorCtor("emit takes an image, audio or resource that a tool returned, or the path of a file, got " +
    (x === null ? "null" : isArray(x) ? "an array without one" : "a " + typeof x));
}

// Emits x. For an array, as tools return it, emits the resources and skips the text between them.
function send(x) {
  if (isArray(x)) {
    let sent = 0;
    for (let i = 0; i < x.length; i++) if (typeof x[i] !== "string" || startsWith(x[i], "res_")) sent += send(x[i]);
    return sent;
  }
  const handle = x !== null && typeof x === "object" ? x.handle : x;
  if (typeof handle !== "string" || handle === "") return 0;
  sendEmit(handle);
  return 1;
}
