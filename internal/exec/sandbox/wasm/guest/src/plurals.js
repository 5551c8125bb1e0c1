// Plural rules: Intl.PluralRules, and the plural forms of numbers, units and relative times.

import { cardinal, cardinalForms, ordinal, ordinalForms, pluralRanges } from "../../../../../../third_party/cldr/rules.js";
import { NumberCtor, RangeErrorCtor, indexOf, slice } from "./primordials.js";
import { baseOf, option, optionsOf, resolveLocale, split, supportedLocalesOf } from "./locale.js";

// All variants of Portuguese except Brazil's use Portugal's rules.
const rulesOf = (data) => (slice(data, 0, 3) === "pt-" ? "pt-PT" : baseOf(data));

/**
 * Returns the plural form of a number with the digits whole and fraction, and 10^exponent in
 * compact notation.
 */
export function pluralOf(data, whole, fraction, exponent = 0, rules = cardinal) {
  let end = fraction.length;
  while (end > 0 && fraction[end - 1] === "0") end--;
  const trimmed = slice(fraction, 0, end);
  if (exponent > 0) { // the rules apply to the value, not to its compact form
    let all = fraction;
    while (all.length < exponent) all += "0";
    whole += slice(all, 0, exponent);
    fraction = slice(all, exponent);
    return pluralBy(rules[rulesOf(data)], whole, fraction, trimmed.length > exponent ? slice(trimmed, exponent) : "", exponent);
  }
  return pluralBy(rules[rulesOf(data)], whole, fraction, trimmed, 0);
}

// For very long numbers the last digits suffice.
function pluralBy(rule, whole, fraction, trimmed, e) {
  const i = whole.length > 15 ? 1e15 + +slice(whole, whole.length - 15) : +whole;
  const n = trimmed === "" ? i : +(i + "." + trimmed);
  return rule(n, i, fraction.length, trimmed.length, +fraction || 0, +trimmed || 0, e);
}

/** Returns the plural form of a range. */
export function pluralOfRange(data, from, to) {
  const rules = pluralRanges[rulesOf(data)], at = indexOf(rules, ` ${from}-${to}-`);
  if (at < 0) return "other";
  const start = at + from.length + to.length + 3;
  return slice(rules, start, indexOf(rules, " ", start));
}

/** Intl.PluralRules; the given NumberFormat determines the digits of its numbers. */
export function makePluralRules(NumberFormat, written) {
  return class PluralRules {
    #locale; #type; #format;
    constructor(locales, options) {
      const who = "Intl.PluralRules", o = optionsOf(options);
      this.#locale = resolveLocale(locales, who);
      this.#type = option(o, "type", "string", "cardinal ordinal", "cardinal", who);
      this.#format = new NumberFormat(locales === undefined ? undefined : this.#locale.name, numberOptions(o));
    }
    #form(n) {
      const w = written(this.#format, n);
      if (w === undefined) return "other";
      return pluralOf(this.#locale.data, w.whole, w.fraction, w.exponent, this.#type === "ordinal" ? ordinal : cardinal);
    }
    select(n) { return this.#form(NumberCtor(n)); }
    selectRange(a, b) {
      if (a === undefined || b === undefined) throw new TypeError("selectRange needs two numbers");
      if (NumberCtor.isNaN(NumberCtor(a)) || NumberCtor.isNaN(NumberCtor(b))) throw new RangeErrorCtor("selectRange needs two numbers");
      return pluralOfRange(this.#locale.data, this.#form(NumberCtor(a)), this.#form(NumberCtor(b)));
    }
    resolvedOptions() {
      const { locale, numberingSystem, style, currency, useGrouping, signDisplay, notation, compactDisplay, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay, ...digits } = this.#format.resolvedOptions();
      const forms = this.#type === "ordinal" ? ordinalForms : cardinalForms;
      const pluralCategories = [], all = split(forms[rulesOf(this.#locale.data)], " ");
      for (let i = 0; i < order.length; i++) for (let k = 0; k < all.length; k++) if (all[k] === order[i]) pluralCategories[pluralCategories.length] = all[k];
      return { locale: this.#locale.name, type: this.#type, ...digits, pluralCategories, roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay };
    }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
  };
}
const order = ["few", "many", "one", "two", "zero", "other"];

const digitOptions = ["notation", "minimumIntegerDigits", "minimumFractionDigits", "maximumFractionDigits", "minimumSignificantDigits", "maximumSignificantDigits", "roundingIncrement", "roundingMode", "roundingPriority", "trailingZeroDisplay"];

function numberOptions(o) {
  const out = {};
  for (let i = 0; i < digitOptions.length; i++) if (o[digitOptions[i]] !== undefined) out[digitOptions[i]] = o[digitOptions[i]];
  return out;
}
