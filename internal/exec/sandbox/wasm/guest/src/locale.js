// The supported locales, how requested locales resolve to them, and access to the CLDR data, which
// the host sends on demand.

import { bases, defaultContent, regions } from "../../../../../../third_party/cldr/rules.js";
import { data as lineOf } from "./host.js";
import {
  JSONParse, RangeErrorCtor, StringCtor, TypeErrorCtor, create, hasOwn, indexOf, isArray, keys, lastIndexOf, list, push, setPrototypeOf, slice, split as splitList, toLowerCase, toUpperCase,
} from "./primordials.js";

const tables = create(null), ArrayPrototype = Array.prototype;

/** Splits s at sep into an array. */
export const split = (s, sep) => setPrototypeOf(splitList(s, sep), ArrayPrototype);

/** Returns the own property k of o, or undefined. */
export const own = (o, k) => (hasOwn(o, k) ? o[k] : undefined);

function merged(a, b) {
  if (b === undefined) return a;
  const out = create(null);
  for (let names = keys(a), i = 0; i < names.length; i++) out[names[i]] = a[names[i]];
  for (let names = keys(b), i = 0; i < names.length; i++) {
    const k = names[i], plain = (x) => typeof x === "object" && x !== null && !isArray(x);
    if (b[k] === null) delete out[k];
    else out[k] = plain(b[k]) && hasOwn(a, k) && plain(a[k]) ? merged(a[k], b[k]) : b[k];
  }
  return out;
}

/** Returns a line of data without its first word. */
export const restOf = (key) => { const line = lineOf(key); return slice(line, indexOf(line, "\n") + 1); };

const isBase = (data) => indexOf(" " + bases + " ", " " + data + " ") >= 0;

function parentOf(data) {
  const from = indexOf(regions, " " + data + ":") + data.length + 2;
  return slice(regions, from, indexOf(regions, " ", from));
}

/**
 * Returns a section of a locale's data: n numbers, c currencies, u units, d dates, r relative time,
 * z time zone names, l lists, t display names.
 */
export function table(data, letter) {
  const key = letter + data;
  return tables[key] ??= isBase(data) ? JSONParse(restOf(data + "/" + letter))
    : merged(table(parentOf(data), letter), own(JSONParse(restOf("regions/" + data)), letter));
}

/** Returns the language's own locale, which holds the plural rules and alphabet of a locale. */
export function baseOf(data) {
  while (!isBase(data)) data = parentOf(data);
  return data;
}

const isAlpha = (s) => { for (let i = 0; i < s.length; i++) { const c = toLowerCase(s[i]); if (c < "a" || c > "z") return false; } return true; };
const isDigits = (s) => { for (let i = 0; i < s.length; i++) if (s[i] < "0" || s[i] > "9") return false; return true; };
const isAlnum = (s) => { for (let i = 0; i < s.length; i++) if (!isAlpha(s[i]) && !isDigits(s[i])) return false; return s.length > 0; };
const bad = (tag) => new RangeErrorCtor(`Incorrect locale information provided: ${tag}`);
const oldNames = { __proto__: null, iw: "he", in: "id", mo: "ro", ji: "yi" };

/** Parses a BCP 47 tag. extensions holds those of -u-, by key. */
export function parseTag(tag) {
  const s = split(StringCtor(tag), "-"), out = { lang: toLowerCase(s[0]), script: "", region: "", variants: "", rest: "", keywords: create(null) };
  let i = 1;
  if (!isAlpha(out.lang) || out.lang.length < 2 || out.lang.length === 4 || out.lang.length > 8) throw bad(tag);
  for (let k = 0; k < s.length; k++) if (!isAlnum(s[k]) || s[k].length > 8) throw bad(tag);
  out.lang = oldNames[out.lang] || out.lang;
  if (i < s.length && s[i].length === 4 && isAlpha(s[i])) { out.script = toUpperCase(s[i][0]) + toLowerCase(slice(s[i], 1)); i++; }
  if (i < s.length && ((s[i].length === 2 && isAlpha(s[i])) || (s[i].length === 3 && isDigits(s[i])))) out.region = toUpperCase(s[i++]);
  while (i < s.length && (s[i].length > 4 || (s[i].length === 4 && isDigits(s[i][0])))) out.variants += "-" + toLowerCase(s[i++]);
  while (i < s.length) {
    const single = toLowerCase(s[i++]);
    if (single.length !== 1 || i >= s.length) throw bad(tag);
    let key = "", n = 0, ext = "-" + single;
    for (; i < s.length && (single === "x" || s[i].length > 1); i++, n++) {
      const part = toLowerCase(s[i]);
      ext += "-" + part;
      if (single !== "u") continue;
      if (part.length === 2) { key = part; if (out.keywords[key] === undefined) out.keywords[key] = ""; }
      else if (key !== "") out.keywords[key] += (out.keywords[key] === "" ? "" : "-") + part;
    }
    if (n === 0) throw bad(tag);
    out.rest += ext;
  }
  return out;
}

const join = (p) => p.lang + (p.script && "-" + p.script) + (p.region && "-" + p.region);

/** Returns the canonical locale names, like Intl.getCanonicalLocales. */
export function canonicalLocales(locales) {
  const out = list();
  if (locales === undefined) return out;
  if (locales === null) throw new TypeErrorCtor("locales must be a text or a list of texts, not null");
  const all = typeof locales === "string" || (typeof locales === "object" && typeof locales.baseName === "string") ? [locales] : locales;
  for (let i = 0; i < all.length; i++) {
    if (typeof all[i] !== "string" && (typeof all[i] !== "object" || all[i] === null)) throw new TypeErrorCtor("Incorrect locale information provided");
    const p = parseTag(all[i]), name = join(p) + p.variants + p.rest;
    let seen = false;
    for (let k = 0; k < out.length; k++) seen = seen || out[k] === name;
    if (!seen) push(out, name);
  }
  return out;
}

const known = (name) => isBase(name) || indexOf(regions, " " + name + ":") >= 0;
const traditional = { __proto__: null, TW: true, HK: true, MO: true };

// Returns the name of the data for a parsed tag and the name to report; undefined if there is no
// data.
function find(p) {
  let { lang, script, region } = p;
  if (lang === "zh") {
    const given = script;
    if (script === "") script = traditional[region] ? "Hant" : "";
    if (script !== "" && script !== "Hans" && script !== "Hant") return undefined;
    if (script === "Hant") {
      const full = "zh-Hant-" + region;
      return { data: known(full) ? full : "zh-Hant", name: region === "" || known(full) || region === "TW" ? join(p) : given === "" ? "zh" : "zh-Hant" };
    }
    const full = "zh-Hans-" + region;
    return { data: known(full) ? full : "zh", name: region === "" || region === "CN" || known(full) ? join(p) : given === "" ? "zh" : "zh-Hans" };
  }
  // every other language here has a single known script
  if (script !== "" && script !== (own(scripts, lang) || "Latn")) return undefined;
  for (let name = lang + (region && "-" + region); ; name = slice(name, 0, lastIndexOf(name, "-"))) {
    if (known(name)) return { data: name, name };
    if (indexOf(defaultContent, " " + name + " ") >= 0) return { data: slice(name, 0, lastIndexOf(name, "-")), name };
    if (lastIndexOf(name, "-") < 0) return undefined;
  }
}
const scripts = { ar: "Arab", el: "Grek", he: "Hebr", hi: "Deva", ja: "Jpan", ko: "Kore", ru: "Cyrl", uk: "Cyrl" };

const none = create(null);
const standard = { name: "en-US", data: "en", keywords: none };

/**
 * Resolves the locale for who, a name for errors: the first requested locale that is supported, or
 * en-US if none was requested.
 */
export function resolveLocale(locales, who) {
  if (locales === undefined) return standard;
  const names = canonicalLocales(locales);
  if (names.length === 0) return standard;
  for (let i = 0; i < names.length; i++) {
    const p = parseTag(names[i]), found = find(p);
    if (found !== undefined) return { name: found.name, data: found.data, keywords: p.keywords };
  }
  let asked = "";
  for (let i = 0; i < names.length; i++) asked += (i > 0 ? ", " : "") + names[i];
  throw new RangeErrorCtor(`${who}: locale ${asked} is not supported here; use one of ${supported}, alone or with a region, for example "en-GB"`);
}
const supported = (() => { let s = ""; const all = split(bases, " "); for (let i = 0; i < all.length; i++) s += (i > 0 ? ", " : "") + all[i]; return s; })();

/** Returns the supported ones of locales, like the supportedLocalesOf methods. */
export function supportedLocalesOf(locales) {
  const names = canonicalLocales(locales), out = [];
  for (let i = 0; i < names.length; i++) if (find(parseTag(names[i])) !== undefined) out[out.length] = names[i];
  return out;
}

/**
 * Reads an option of a type, "string" or "boolean". allowed lists the valid values, separated by
 * spaces.
 */
export function option(o, name, kind, allowed, fallback, who) {
  let v = o[name];
  if (v === undefined) return fallback;
  if (kind === "boolean") return !!v;
  v = StringCtor(v);
  if (allowed !== undefined && (v === "" || indexOf(v, " ") >= 0 || indexOf(" " + allowed + " ", " " + v + " ") < 0)) {
    throw new RangeErrorCtor(`Value ${v} out of range for ${who} options property ${name}`);
  }
  return v;
}

/** Returns the options as an object. */
export function optionsOf(options) {
  if (options === undefined) return none;
  if (options === null) throw new TypeErrorCtor("options must be an object, not null");
  return Object(options);
}

/** Resolves the numbering system: from an option, the locale's name, or the locale's default. */
export function numbering(o, locale, who) {
  const n = table(locale.data, "n"), asked = option(o, "numberingSystem", "string", undefined, undefined, who);
  if (asked !== undefined && !hasOwn(n.s, asked)) {
    throw new RangeErrorCtor(`${who}: numbering system ${asked} is not supported here for ${locale.name}; use ${keys(n.s).join(" or ")}`);
  }
  const named = locale.keywords.nu;
  if (asked !== undefined) return asked;
  if (named !== undefined && named !== "") {
    if (!hasOwn(n.s, named)) throw new RangeErrorCtor(`${who}: numbering system ${named} is not supported here for ${locale.name}; use ${keys(n.s).join(" or ")}`);
    return named;
  }
  return n.ns === "arab" || hasOwn(n.s, n.ns) ? n.ns : "latn";
}

const zeros = { __proto__: null, arab: 0x660, deva: 0x966 };

/** Converts the digits of s to the numbering system. */
export function digitsIn(s, system) {
  const zero = zeros[system];
  if (zero === undefined) return s;
  let out = "";
  for (let i = 0; i < s.length; i++) out += s[i] >= "0" && s[i] <= "9" ? StringCtor.fromCharCode(zero + +s[i]) : s[i];
  return out;
}

/** Joins the text of parts. */
export function textOf(parts) {
  let s = "";
  for (let i = 0; i < parts.length; i++) s += parts[i].value;
  return s;
}

/**
 * Replaces {0}, {1} and {2} in a pattern with lists of parts. Quotes escape; the rest is literal.
 */
export function fill(pattern, values, literal = "literal") {
  const out = [];
  let text = "";
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] === "{" && pattern[i + 2] === "}") {
      if (text !== "") out[out.length] = { type: literal, value: text };
      text = "";
      const v = values[+pattern[i + 1]];
      for (let k = 0; k < v.length; k++) out[out.length] = v[k];
      i += 2;
    } else text += pattern[i];
  }
  if (text !== "") out[out.length] = { type: literal, value: text };
  return out;
}

