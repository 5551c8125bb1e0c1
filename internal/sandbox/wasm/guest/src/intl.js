// Intl for en-US, as far as programs use it to write numbers, dates and lists: the engine has none. Other locales are
// written as en-US; time zones other than UTC and fixed offsets are errors, because a wrong time is worse than none.

import { define, global } from "./primordials.js";
import { Collator, compareText } from "./collate.js";
import { DateTimeFormat, dateText } from "./dates.js";
import { NumberFormat, numberText } from "./numbers.js";

const locale = "en-US";

class PluralRules {
  #ordinal; #format;
  constructor(locales, options = {}) {
    this.#ordinal = options.type === "ordinal";
    this.#format = new NumberFormat(locales, options);
  }
  select(n) {
    n = Number(n);
    if (!this.#ordinal) return this.#format.format(Math.abs(n)) === "1" ? "one" : "other";
    const tens = Math.abs(n) % 100, ones = Math.abs(n) % 10;
    if (ones === 1 && tens !== 11) return "one";
    if (ones === 2 && tens !== 12) return "two";
    return ones === 3 && tens !== 13 ? "few" : "other";
  }
  resolvedOptions() { return { locale, type: this.#ordinal ? "ordinal" : "cardinal" }; }
  static supportedLocalesOf() { return [locale]; }
}

class ListFormat {
  #word; #style;
  constructor(locales, options = {}) {
    this.#style = options.style || "long";
    const and = this.#style === "long" ? "and" : "&";
    this.#word = options.type === "disjunction" ? "or" : options.type === "unit" ? "" : and;
  }
  format(items) { return this.formatToParts(items).map((p) => p.value).join(""); }
  formatToParts(items) {
    const all = [...items].map((value) => ({ type: "element", value: String(value) })), out = [], n = all.length;
    const narrow = this.#style === "narrow" && this.#word === "";
    const last = this.#word === "" ? (narrow ? " " : ", ") : n === 2 ? ` ${this.#word} ` : this.#style === "narrow" && this.#word === "&" ? ", " : `, ${this.#word} `;
    all.forEach((e, i) => {
      if (i > 0) out.push({ type: "literal", value: i === n - 1 ? last : narrow ? " " : ", " });
      out.push(e);
    });
    return out;
  }
  resolvedOptions() { return { locale, style: this.#style }; }
  static supportedLocalesOf() { return [locale]; }
}

const short = { year: "yr.", quarter: "qtr.", month: "mo.", week: "wk.", day: "day", hour: "hr.", minute: "min.", second: "sec." };
const words = {
  day: { "-1": "yesterday", 0: "today", 1: "tomorrow" }, second: { 0: "now" }, hour: { 0: "this hour" }, minute: { 0: "this minute" },
};
for (const u of ["year", "quarter", "month", "week"]) words[u] = { "-1": `last ${u}`, 0: `this ${u}`, 1: `next ${u}` };

class RelativeTimeFormat {
  #numeric; #style;
  constructor(locales, options = {}) {
    this.#numeric = options.numeric || "always";
    this.#style = options.style || "long";
  }
  format(value, unit) {
    const n = Number(value), u = String(unit).replace(/s$/, "");
    if (!(u in short)) throw new RangeError(`RelativeTimeFormat: unknown unit ${unit}`);
    const word = Object.is(n, -0) ? undefined : words[u][n];
    if (this.#numeric === "auto" && word !== undefined) return word;
    const abs = numberText(Math.abs(n), {}), one = abs === "1";
    let name = this.#style === "long" ? u : short[u];
    if (!one && (this.#style === "long" || name === "day" || name === "qtr.")) name = name === "qtr." ? "qtrs." : name + "s";
    return n < 0 || Object.is(n, -0) ? `${abs} ${name} ago` : `in ${abs} ${name}`;
  }
  resolvedOptions() { return { locale, numeric: this.#numeric, style: this.#style, numberingSystem: "latn" }; }
  static supportedLocalesOf() { return [locale]; }
}

const Intl = {};
const classes = { NumberFormat, DateTimeFormat, PluralRules, ListFormat, RelativeTimeFormat, Collator };
for (const name of Object.keys(classes)) {
  const C = classes[name];
  define(C.prototype, Symbol.toStringTag, `Intl.${name}`);
  // Intl.NumberFormat and Intl.DateTimeFormat may be called without new.
  const callable = function (...args) { return new C(...args); };
  Object.defineProperty(callable, "name", { value: name, configurable: true });
  callable.prototype = C.prototype;
  define(C.prototype, "constructor", callable);
  define(callable, "supportedLocalesOf", C.supportedLocalesOf);
  define(Intl, name, callable);
}
define(Intl, "getCanonicalLocales", (l) => (l === undefined ? [] : [].concat(l).map(String)));
define(Intl, Symbol.toStringTag, "Intl");
global("Intl", Intl);

const methods = {
  Number: { toLocaleString(locales, options) { return numberText(Number(this), options); } },
  BigInt: { toLocaleString(locales, options) { return numberText(BigInt(this), options); } },
  Date: {
    toLocaleString(locales, options) { return dateText(this, options, "any", "all"); },
    toLocaleDateString(locales, options) { return dateText(this, options, "date", "date"); },
    toLocaleTimeString(locales, options) { return dateText(this, options, "time", "time"); },
  },
  String: { localeCompare(that, locales, options) { return compareText(String(this), String(that), options); } },
};
for (const type of Object.keys(methods)) for (const name of Object.keys(methods[type])) define(globalThis[type].prototype, name, methods[type][name]);
