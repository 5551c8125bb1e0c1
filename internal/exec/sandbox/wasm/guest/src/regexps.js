// Splits long texts at regular expressions, and finds or replaces all matches in them. The engine
// tries a sticky match at each character of a text that it splits, and makes several objects for
// each match. The host calls the engine's matcher, and creates only the result. What can be observed
// is the same: whatever a program has changed, and whatever is rare, is left to the engine.

import {
  RegExpCtor, define, getOwnPropertyDescriptor, getPrototypeOf, indexOf, list, ownKeys, push, record, uncurry,
} from "./primordials.js";
import { hostMatch, hostReplace, hostSplit } from "./host.js";

const RegExpPrototype = RegExpCtor.prototype;
const minText = 256; // length from which on the checks pay

const splitNative = uncurry(RegExpPrototype[Symbol.split]);
const matchNative = uncurry(RegExpPrototype[Symbol.match]);
const replaceNative = uncurry(RegExpPrototype[Symbol.replace]);
const sourceOf = uncurry(getOwnPropertyDescriptor(RegExpPrototype, "source").get);
const flagsOf = uncurry(getOwnPropertyDescriptor(RegExpPrototype, "flags").get);

const has = (text, part) => indexOf(text, part) >= 0;

/** Tells whether rx is global, neither sticky nor Unicode, and has a writable lastIndex. */
function isGlobal(rx, flags) {
  return has(flags, "g") && !has(flags, "y") && !has(flags, "u") && !has(flags, "v") &&
    getOwnPropertyDescriptor(rx, "lastIndex").writable;
}

const isLong = (string) => typeof string === "string" && string.length >= minText;

define(RegExpPrototype, Symbol.split, {
  [Symbol.split](string, limit) {
    if (limit === undefined && isLong(string) && isPlain(this)) {
      const flags = flagsOf(this);
      if (!has(flags, "y") && !has(flags, "u") && !has(flags, "v")) {
        const parts = hostSplit(this, string);
        if (parts !== undefined) return parts;
      }
    }
    return splitNative(this, string, limit);
  },
}[Symbol.split]);

define(RegExpPrototype, Symbol.match, {
  [Symbol.match](string) {
    if (isLong(string) && isPlain(this) && isGlobal(this, flagsOf(this))) {
      this.lastIndex = 0;
      const all = hostMatch(this, string);
      if (all !== undefined) return all;
    }
    return matchNative(this, string);
  },
}[Symbol.match]);

define(RegExpPrototype, Symbol.replace, {
  [Symbol.replace](string, replacement) {
    if (typeof replacement === "string" && isLong(string) && isPlain(this) && !has(replacement, "$") &&
      isGlobal(this, flagsOf(this))) {
      this.lastIndex = 0;
      const text = hostReplace(this, string, replacement);
      if (text !== undefined) return text;
    }
    return replaceNative(this, string, replacement);
  },
}[Symbol.replace]);

// What the algorithms of the specification read from RegExp and its prototype, with the original
// values.
const parts = list();
for (const [object, name] of [
  [RegExpPrototype, "exec"], [RegExpPrototype, "constructor"], [RegExpPrototype, "flags"], [RegExpCtor, Symbol.species],
  [RegExpPrototype, Symbol.match],
  [RegExpPrototype, "hasIndices"], [RegExpPrototype, "global"], [RegExpPrototype, "ignoreCase"],
  [RegExpPrototype, "multiline"], [RegExpPrototype, "dotAll"], [RegExpPrototype, "unicode"],
  [RegExpPrototype, "unicodeSets"], [RegExpPrototype, "sticky"],
]) {
  const d = getOwnPropertyDescriptor(object, name);
  push(parts, record({ object, name, get: d.get, value: d.value }));
}

/** Tells whether a program has changed neither the regular expression rx nor RegExp.prototype. */
function isPlain(rx) {
  try { sourceOf(rx); } catch { return false; } // it is something else, perhaps a proxy
  if (rx === RegExpPrototype || getPrototypeOf(rx) !== RegExpPrototype || ownKeys(rx).length !== 1) return false;
  for (let i = 0; i < parts.length; i++) {
    const p = parts[i], d = getOwnPropertyDescriptor(p.object, p.name);
    if (d === undefined || d.get !== p.get || d.value !== p.value) return false;
  }
  return true;
}
