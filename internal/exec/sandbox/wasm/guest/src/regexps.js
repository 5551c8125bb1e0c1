// Splits long texts at regular expressions, and replaces matches in them by a text. The engine tries
// a sticky match at each character of a text that it splits, and makes several objects for each
// match that it replaces. Here one search finds the next match. What can be observed is the same:
// whatever a program has changed, and whatever is rare, is left to the engine.

import {
  ArrayPrototype, ObjectPrototype, RegExpCtor, StringCtor, define, getOwnPropertyDescriptor, getPrototypeOf,
  indexOf, list, ownKeys, push, record, uncurry,
} from "./primordials.js";

const RegExpPrototype = RegExpCtor.prototype;
const minText = 256; // length from which on the checks pay

const splitNative = uncurry(RegExpPrototype[Symbol.split]);
const replaceNative = uncurry(RegExpPrototype[Symbol.replace]);
const sourceOf = uncurry(getOwnPropertyDescriptor(RegExpPrototype, "source").get);
const flagsOf = uncurry(getOwnPropertyDescriptor(RegExpPrototype, "flags").get);

// What the algorithms of the specification read from RegExp and its prototype, and what the functions
// below call directly, with the original values.
const parts = list();
for (const [object, name] of [
  [RegExpPrototype, "exec"], [RegExpPrototype, "constructor"], [RegExpPrototype, "flags"], [RegExpCtor, Symbol.species],
  [RegExpPrototype, Symbol.match],
  [RegExpPrototype, "hasIndices"], [RegExpPrototype, "global"], [RegExpPrototype, "ignoreCase"],
  [RegExpPrototype, "multiline"], [RegExpPrototype, "dotAll"], [RegExpPrototype, "unicode"],
  [RegExpPrototype, "unicodeSets"], [RegExpPrototype, "sticky"], [StringCtor.prototype, "slice"],
]) {
  const d = getOwnPropertyDescriptor(object, name);
  push(parts, record({ object, name, get: d.get, value: d.value }));
}

/** Tells whether rx is a regular expression of which a program has changed nothing. */
function isPlain(rx) {
  try { sourceOf(rx); } catch { return false; } // it is something else, perhaps a proxy
  if (rx === RegExpPrototype || getPrototypeOf(rx) !== RegExpPrototype || ownKeys(rx).length !== 1) return false;
  for (let i = 0; i < parts.length; i++) {
    const p = parts[i], d = getOwnPropertyDescriptor(p.object, p.name);
    if (d === undefined || d.get !== p.get || d.value !== p.value) return false;
  }
  // An index would be the first key. Then setting an element of an array may call a setter, and so it
  // may with another prototype.
  return getPrototypeOf(ArrayPrototype) === ObjectPrototype &&
    ownKeys(ArrayPrototype)[0] === firstOfArray && ownKeys(ObjectPrototype)[0] === firstOfObject;
}

const firstOfArray = ownKeys(ArrayPrototype)[0], firstOfObject = ownKeys(ObjectPrototype)[0];

const has = (text, part) => indexOf(text, part) >= 0;

/** RegExp.prototype[Symbol.split] for an unchanged regular expression and a text that isn't empty. */
function splitText(rx, flags, text) {
  let own = "g"; // the search does without the flags d and y
  for (let i = 0; i < flags.length; i++) if (flags[i] === "i" || flags[i] === "m" || flags[i] === "s") own += flags[i];
  const search = new RegExpCtor(sourceOf(rx), own), out = [];
  let from = 0, n = 0;
  for (;;) {
    const m = search.exec(text);
    if (m === null || m.index >= text.length) break;
    const end = search.lastIndex;
    if (end === from) { // nothing between two parts
      search.lastIndex = m.index + 1;
      continue;
    }
    out[n++] = text.slice(from, m.index);
    for (let i = 1; i < m.length; i++) out[n++] = m[i];
    from = end;
  }
  out[n] = text.slice(from);
  return out;
}

/** RegExp.prototype[Symbol.replace] for an unchanged global regular expression. */
function replaceText(rx, text, by) {
  let out = "", from = 0;
  rx.lastIndex = 0;
  for (;;) {
    const m = rx.exec(text);
    if (m === null) return out + text.slice(from);
    const end = rx.lastIndex;
    if (end === m.index) rx.lastIndex = end + 1;
    out += text.slice(from, m.index) + by;
    from = end;
  }
}

define(RegExpPrototype, Symbol.split, {
  [Symbol.split](string, limit) {
    if (limit === undefined && typeof string === "string" && string.length >= minText && isPlain(this)) {
      const flags = flagsOf(this);
      if (!has(flags, "u") && !has(flags, "v")) return splitText(this, flags, string);
    }
    return splitNative(this, string, limit);
  },
}[Symbol.split]);

define(RegExpPrototype, Symbol.replace, {
  [Symbol.replace](string, replacement) {
    if (typeof replacement === "string" && typeof string === "string" && string.length >= minText && isPlain(this)) {
      const flags = flagsOf(this);
      if (has(flags, "g") && !has(flags, "y") && !has(flags, "u") && !has(flags, "v") && !has(replacement, "$") &&
        getOwnPropertyDescriptor(this, "lastIndex").writable) {
        return replaceText(this, string, replacement);
      }
    }
    return replaceNative(this, string, replacement);
  },
}[Symbol.replace]);
