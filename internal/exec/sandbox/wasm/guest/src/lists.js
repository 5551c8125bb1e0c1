// Intl.ListFormat, Intl.RelativeTimeFormat and Intl.DisplayNames.

import { currencyCodes } from "../../../../../../third_party/cldr/rules.js";
import {
  NumberCtor, RangeErrorCtor, StringCtor, TypeErrorCtor, indexOf, regexpTest, slice, toLowerCase, toUpperCase,
} from "./primordials.js";
import { fill, numbering, option, optionsOf, own, parseTag, resolveLocale, split, supportedLocalesOf, table, textOf } from "./locale.js";
import { pluralOf } from "./plurals.js";

const widthOf = { __proto__: null, long: 0, short: 1, narrow: 2 };
const narrowish = "long short narrow";

// Spanish and Italian change "and" and "or" before the same sound.
function euphonic(data, pattern, next) {
  const s = toLowerCase(next);
  if (slice(data, 0, 2) === "es") {
    if (indexOf(pattern, " y {1}") >= 0 && regexpTest(/^(i|hi(?![ae]))/, s)) return split(pattern, " y {1}")[0] + " e {1}";
    if (indexOf(pattern, " o {1}") >= 0 && regexpTest(/^(o|ho|8|11(?!\d))/, s)) return split(pattern, " o {1}")[0] + " u {1}";
  }
  if (slice(data, 0, 2) === "he" && indexOf(pattern, " ו{1}") >= 0 && !regexpTest(/^[א-ת]/, s)) return split(pattern, " ו{1}")[0] + " ו-{1}";
  return pattern;
}

export class ListFormat {
  #locale; #type; #style; #patterns;
  constructor(locales, options) {
    const who = "Intl.ListFormat", o = optionsOf(options);
    this.#locale = resolveLocale(locales, who);
    this.#type = option(o, "type", "string", "conjunction disjunction unit", "conjunction", who);
    this.#style = option(o, "style", "string", narrowish, "long", who);
    this.#patterns = table(this.#locale.data, "l")[this.#type][widthOf[this.#style]];
  }
  format(items) { return textOf(this.formatToParts(items)); }
  formatToParts(items) {
    const all = [];
    if (items !== undefined) for (const x of items) {
      if (typeof x !== "string") throw new TypeErrorCtor("Iterable yielded a non-String value");
      all[all.length] = [{ type: "element", value: x }];
    }
    const n = all.length, [two, start, middle, end] = this.#patterns, data = this.#locale.data;
    if (n < 2) return n === 0 ? [] : all[0];
    const tail = (p) => euphonic(data, p, all[n - 1][0].value);
    if (n === 2) return fill(tail(two), all);
    let out = fill(tail(end), [all[n - 2], all[n - 1]]);
    for (let i = n - 3; i >= 0; i--) out = fill(i === 0 ? start : middle, [all[i], out]);
    return out;
  }
  resolvedOptions() { return { locale: this.#locale.name, type: this.#type, style: this.#style }; }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}

const units = " second minute hour day week month quarter year ";

/** Intl.RelativeTimeFormat; its numbers are formatted by the given NumberFormat. */
export function makeRelativeTimeFormat(NumberFormat, written) {
  return class RelativeTimeFormat {
    #locale; #numeric; #style; #numbering; #format;
    constructor(locales, options) {
      const who = "Intl.RelativeTimeFormat", o = optionsOf(options);
      this.#locale = resolveLocale(locales, who);
      this.#numbering = numbering(o, this.#locale, who);
      this.#style = option(o, "style", "string", narrowish, "long", who);
      this.#numeric = option(o, "numeric", "string", "always auto", "always", who);
      this.#format = new NumberFormat(this.#locale.name, { numberingSystem: this.#numbering });
    }
    #parts(value, unit) {
      const n = NumberCtor(value);
      let u = StringCtor(unit);
      if (indexOf(units, ` ${u} `) < 0 && u[u.length - 1] === "s") u = slice(u, 0, u.length - 1);
      if (indexOf(units, ` ${u} `) < 0) throw new RangeErrorCtor(`Invalid unit argument for format() '${unit}'`);
      if (!NumberCtor.isFinite(n)) throw new RangeErrorCtor("Invalid number value");
      const [words, past, future] = table(this.#locale.data, "r")[u][widthOf[this.#style]];
      const word = this.#numeric === "auto" ? own(words, Object.is(n, -0) ? "-0" : StringCtor(n)) ?? (n === 0 ? own(words, "0") : undefined) : undefined;
      if (word !== undefined) return [{ type: "literal", value: word }];
      const abs = Math.abs(n), w = written(this.#format, abs), form = pluralOf(this.#locale.data, w.whole, w.fraction);
      const forms = n < 0 || Object.is(n, -0) ? past : future, pattern = typeof forms === "string" ? forms : own(forms, form) ?? forms.other;
      const number = this.#format.formatToParts(abs);
      for (let i = 0; i < number.length; i++) number[i].unit = u;
      return fill(pattern, [number]);
    }
    format(value, unit) { return textOf(this.#parts(value, unit)); }
    formatToParts(value, unit) { return this.#parts(value, unit); }
    resolvedOptions() { return { locale: this.#locale.name, style: this.#style, numeric: this.#numeric, numberingSystem: this.#numbering }; }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
  };
}

export class DisplayNames {
  #locale; #type; #style; #fallback; #language;
  constructor(locales, options) {
    const who = "Intl.DisplayNames";
    if (options === undefined) throw new TypeErrorCtor(`${who}: the option type is missing, for example { type: "region" }`);
    const o = optionsOf(options);
    this.#locale = resolveLocale(locales, who);
    this.#style = option(o, "style", "string", narrowish, "long", who);
    this.#type = option(o, "type", "string", "language region script currency calendar dateTimeField", undefined, who);
    this.#fallback = option(o, "fallback", "string", "code none", "code", who);
    this.#language = option(o, "languageDisplay", "string", "dialect standard", "dialect", who);
    if (this.#type === undefined) throw new TypeErrorCtor(`${who}: the option type is missing, for example { type: "region" }`);
    if (this.#type === "calendar" || this.#type === "dateTimeField") throw new RangeErrorCtor(`${who}: type ${this.#type} is not supported here; use language, region, script or currency`);
  }
  #name(names, code) { return (this.#style !== "long" && own(names, code + "-alt-short")) || own(names, code); }
  #languageName(code) {
    const t = table(this.#locale.data, "t"), p = parseTag(code);
    let base = p.lang, rest = [];
    const tries = this.#language === "standard" ? [] : [[p.script, p.region], [p.script, ""], ["", p.region]];
    let name, left = [p.script, p.region];
    for (let i = 0; i < tries.length && name === undefined; i++) {
      const [s, r] = tries[i];
      if (s === "" && r === "") continue;
      name = this.#name(t.L, base + (s && "-" + s) + (r && "-" + r));
      if (name !== undefined) left = [s === "" ? p.script : "", r === "" ? p.region : ""];
    }
    if (name === undefined) name = this.#name(t.L, base);
    if (name === undefined) return undefined;
    if (left[0] !== "") rest.push(own(t.S, left[0]) ?? left[0]);
    if (left[1] !== "") rest.push(this.#name(t.T, left[1]) ?? left[1]);
    if (rest.length === 0) return name;
    let text = rest[0];
    for (let i = 1; i < rest.length; i++) text = textOf(fill(t.p[1], [[{ value: text }], [{ value: rest[i] }]]));
    return textOf(fill(t.p[0], [[{ value: name }], [{ value: text }]]));
  }
  of(code) {
    let c = StringCtor(code), name;
    const bad = () => new RangeErrorCtor(`Invalid argument to Intl.DisplayNames.prototype.of`);
    const t = table(this.#locale.data, "t");
    switch (this.#type) {
      case "region":
        if (!regexpTest(/^([A-Za-z]{2}|\d{3})$/, c)) throw bad();
        name = this.#name(t.T, c = toUpperCase(c));
        break;
      case "script":
        if (!regexpTest(/^[A-Za-z]{4}$/, c)) throw bad();
        c = toUpperCase(c[0]) + toLowerCase(slice(c, 1));
        name = own(t.S, c + "-alt-stand-alone") ?? own(t.S, c);
        break;
      case "currency": {
        if (!regexpTest(/^[A-Za-z]{3}$/, c)) throw bad();
        c = toUpperCase(c);
        const row = own(table(this.#locale.data, "c"), c);
        if (row !== undefined) name = this.#style === "long" ? row[2] : this.#style === "narrow" ? row[1] || row[0] : row[0];
        name = name || undefined;
        break;
      }
      default: name = this.#languageName(c);
    }
    return name ?? (this.#fallback === "code" ? c : undefined);
  }
  resolvedOptions() {
    const out = { locale: this.#locale.name, style: this.#style, type: this.#type, fallback: this.#fallback };
    if (this.#type === "language") out.languageDisplay = this.#language;
    return out;
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}

export const currencyList = () => split(currencyCodes, " ");
