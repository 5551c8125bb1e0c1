// Intl, which the engine lacks, with CLDR's data for the locales of locale.js, the Gregorian
// calendar and the time zones of the IANA database. Anything unsupported throws, because a wrong
// figure is worse than none.

import { unitNames } from "../../../../../../third_party/cldr/rules.js";
import {
  RangeErrorCtor, StringCtor, TypeErrorCtor, TypedArrayProto, define, global, setPrototypeOf, slice, toLowerCase, toUpperCase, typedArrayLength, uncurry,
} from "./primordials.js";
import { Collator, compareText } from "./collate.js";
import { DateTimeFormat, dateText } from "./dates.js";
import { DisplayNames, ListFormat, currencyList, makeRelativeTimeFormat } from "./lists.js";
import { canonicalLocales, parseTag, split } from "./locale.js";
import { NumberFormat, numberText, writtenBy } from "./numbers.js";
import { makePluralRules } from "./plurals.js";
import { zoneNames } from "./zones.js";

const PluralRules = makePluralRules(NumberFormat, writtenBy), RelativeTimeFormat = makeRelativeTimeFormat(NumberFormat, writtenBy);

const Intl = {};
const classes = { NumberFormat, DateTimeFormat, PluralRules, ListFormat, RelativeTimeFormat, DisplayNames, Collator };
for (const name of Object.keys(classes)) {
  const C = classes[name];
  define(C.prototype, Symbol.toStringTag, `Intl.${name}`);
  // These may be called without new.
  const free = name === "NumberFormat" || name === "DateTimeFormat" || name === "Collator";
  const callable = free ? function (...args) { return new C(...args); } : C;
  Object.defineProperty(callable, "name", { value: name, configurable: true });
  if (free) {
    callable.prototype = C.prototype;
    define(C.prototype, "constructor", callable);
    define(callable, "supportedLocalesOf", C.supportedLocalesOf);
  }
  define(Intl, name, callable);
}

// Unsupported members throw a helpful error rather than being undefined.
for (const [name, instead] of [["Segmenter", "split text with [...text] or a regular expression"], ["DurationFormat", "use Intl.NumberFormat with style unit, and Intl.ListFormat"], ["Locale", "give locales as text"]]) {
  define(Intl, name, class { constructor() { throw new RangeErrorCtor(`Intl.${name} is not supported here; ${instead}`); } });
  Object.defineProperty(Intl[name], "name", { value: name, configurable: true });
}

define(Intl, "getCanonicalLocales", (l) => setPrototypeOf(canonicalLocales(l), Array.prototype));
define(Intl, "supportedValuesOf", (key) => {
  switch (StringCtor(key)) {
    case "timeZone": return setPrototypeOf(zoneNames(), Array.prototype);
    case "currency": return setPrototypeOf(currencyList(), Array.prototype);
    case "unit": return setPrototypeOf(split(unitNames, " "), Array.prototype);
    case "calendar": return ["gregory"];
    case "numberingSystem": return ["arab", "deva", "latn"];
    case "collation": return [];
  }
  throw new RangeErrorCtor(`Invalid key : ${key}`);
});
define(Intl, Symbol.toStringTag, "Intl");
global("Intl", Intl);

// Turkish has two letters i, and Lithuanian keeps the dots of its letters; the engine handles
// neither.
function cased(s, locales, turn, turkish) {
  const names = canonicalLocales(locales), lang = names.length === 0 ? "en" : parseTag(names[0]).lang;
  if (lang === "lt") throw new RangeErrorCtor(`toLocale${turn === toUpperCase ? "Upper" : "Lower"}Case: locale ${names[0]} is not supported here`);
  if (lang !== "tr" && lang !== "az") return turn(s);
  return turn(turkish(s));
}

function turkishUpper(s) {
  let out = "";
  for (let i = 0; i < s.length; i++) out += s[i] === "i" ? "İ" : s[i];
  return out;
}

function turkishLower(s) {
  let out = "";
  for (let i = 0; i < s.length; i++) {
    if (s[i] === "İ") out += "i";
    else if (s[i] === "I") { if (s[i + 1] === "\u0307") { out += "i"; i++; } else out += "ı"; }
    else out += s[i];
  }
  return out;
}

// The engine's own method doesn't pass locales and options on to the elements. The length is read
// once, before any element can change it (ECMA-262, 23.1.3.32).
function listText(list, n, locales, options) {
  let out = "";
  for (let i = 0; i < n; i++) {
    const x = list[i];
    out += (i > 0 ? "," : "") + (x === undefined || x === null ? "" : StringCtor(x.toLocaleString(locales, options)));
  }
  return out;
}

function thisText(v, method) {
  if (v === undefined || v === null) throw new TypeErrorCtor("String.prototype." + method + " called on " + v);
  return StringCtor(v);
}

// Default values keep the parameters out of each method's length.
const methods = {
  Number: { toLocaleString(locales = undefined, options = undefined) { return numberText(Number(this), locales, options); } },
  BigInt: { toLocaleString(locales = undefined, options = undefined) { return numberText(BigInt(this), locales, options); } },
  Date: {
    toLocaleString(locales = undefined, options = undefined) { return dateText(this, locales, options, "any", "all"); },
    toLocaleDateString(locales = undefined, options = undefined) { return dateText(this, locales, options, "date", "date"); },
    toLocaleTimeString(locales = undefined, options = undefined) { return dateText(this, locales, options, "time", "time"); },
  },
  Array: { toLocaleString(locales = undefined, options = undefined) { return listText(this, this.length, locales, options); } },
  String: {
    localeCompare(that, locales = undefined, options = undefined) { return compareText(thisText(this, "localeCompare"), String(that), locales, options); },
    toLocaleUpperCase(locales = undefined) { return cased(thisText(this, "toLocaleUpperCase"), locales, toUpperCase, turkishUpper); },
    toLocaleLowerCase(locales = undefined) { return cased(thisText(this, "toLocaleLowerCase"), locales, toLowerCase, turkishLower); },
  },
};
for (const type of Object.keys(methods)) for (const name of Object.keys(methods[type])) define(globalThis[type].prototype, name, methods[type][name]);
const at = uncurry(TypedArrayProto.at);
define(TypedArrayProto, "toLocaleString", {
  toLocaleString(locales = undefined, options = undefined) {
    at(this, 0); // throws unless this is a typed array within its buffer
    return listText(this, typedArrayLength(this), locales, options);
  },
}.toLocaleString);
