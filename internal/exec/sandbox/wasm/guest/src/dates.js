// Intl.DateTimeFormat for the Gregorian calendar.

import {
  DateCtor, NumberCtor, RangeErrorCtor, StringCtor, TypeErrorCtor, create, dateGetTime, indexOf, padEnd, padStart, repeat, slice,
} from "./primordials.js";
import { digitsIn, numbering, option, optionsOf, own, resolveLocale, split, supportedLocalesOf, table, textOf } from "./locale.js";
import { bestPattern, fieldOf, items, joinDateTime, rangePattern, skeletonText, splitRange } from "./patterns.js";
import { offsetAt, zoneOf, zoneText } from "./zones.js";

const who = "Intl.DateTimeFormat";
const styles = ["full", "long", "medium", "short"];
const words = "narrow short long", widths = "2-digit numeric";
const dateFields = ["weekday", "year", "month", "day"], timeFields = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];

// The options that are fields, in the order of ECMA-402, with their valid values and their letters
// in a skeleton.
const fieldOptions = [
  ["weekday", words, { narrow: "EEEEE", short: "EEE", long: "EEEE" }], ["era", words, { narrow: "GGGGG", short: "GGG", long: "GGGG" }],
  ["year", widths, { "2-digit": "yy", numeric: "y" }], ["month", "2-digit numeric narrow short long", { "2-digit": "MM", numeric: "M", narrow: "MMMMM", short: "MMM", long: "MMMM" }],
  ["day", widths, { "2-digit": "dd", numeric: "d" }], ["dayPeriod", words, { narrow: "BBBBB", short: "B", long: "BBBB" }], ["hour", widths],
  ["minute", widths, { "2-digit": "mm", numeric: "m" }], ["second", widths, { "2-digit": "ss", numeric: "s" }], ["fractionalSecondDigits", "1 2 3"],
  ["timeZoneName", "short long shortOffset longOffset shortGeneric longGeneric",
    { short: "z", long: "zzzz", shortOffset: "O", longOffset: "OOOO", shortGeneric: "v", longGeneric: "vvvv" }],
];

const letterOf = { __proto__: null, h11: "K", h12: "h", h23: "H", h24: "k" };
const cycleOf = { __proto__: null, K: "h11", h: "h12", H: "h23", k: "h24" };

function calendar(o, locale) {
  const c = option(o, "calendar", "string", undefined, undefined, who) ?? locale.keywords.ca ?? "gregory";
  if (c !== "gregory" && c !== "gregorian") throw new RangeErrorCtor(`${who}: calendar ${c} is not supported here; use "gregory"`);
}

// Resolves the requested hour cycle and the locale's own.
function hourCycle(o, locale, d) {
  const hour12 = option(o, "hour12", "boolean", undefined, undefined, who);
  let asked = option(o, "hourCycle", "string", "h11 h12 h23 h24", undefined, who);
  const usual = cycleOf[d.hc];
  if (hour12 !== undefined) {
    asked = hour12 ? (usual === "h11" ? usual : "h12") : usual === "h23" || usual === "h24" ? usual : "h23";
  } else if (asked === undefined && letterOf[locale.keywords.hc] !== undefined) asked = locale.keywords.hc;
  return asked ?? usual;
}

// Resolves the requested fields or the defaults, like CreateDateTimeFormat in ECMA-402.
function fieldsOf(o, required, defaults) {
  const f = {};
  let any = false;
  for (let i = 0; i < fieldOptions.length; i++) {
    const [name, allowed] = fieldOptions[i];
    const v = option(o, name, "string", name === "fractionalSecondDigits" ? undefined : allowed, undefined, who);
    if (v === undefined) continue;
    if (name === "fractionalSecondDigits" && !(Math.floor(NumberCtor(v)) >= 1 && NumberCtor(v) < 4)) throw new RangeErrorCtor("fractionalSecondDigits value is out of range.");
    f[name] = name === "fractionalSecondDigits" ? StringCtor(Math.floor(NumberCtor(v))) : v;
    any = true;
  }
  const has = (names) => { for (let i = 0; i < names.length; i++) if (f[names[i]] !== undefined) return true; return false; };
  return { f, any, need: !((required !== "time" && has(dateFields)) || (required !== "date" && has(timeFields))), defaults };
}

function withDefaults({ f, need, defaults }) {
  if (need && defaults !== "time") f.year = f.month = f.day = "numeric";
  if (need && defaults !== "date") f.hour = f.minute = f.second = "numeric";
  return f;
}

function skeletonOf(f, cycle) {
  let s = "";
  for (let i = 0; i < fieldOptions.length; i++) {
    const [name, , letters] = fieldOptions[i], v = f[name];
    if (v === undefined) continue;
    if (name === "hour") s += repeat(letterOf[cycle], v === "2-digit" ? 2 : 1);
    else s += name === "fractionalSecondDigits" ? repeat("S", +v) : letters[v];
  }
  return s;
}

// Returns the pattern with the hour fields of an hour cycle.
function withCycle(pattern, cycle) {
  let out = "", quoted = false;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === "'") quoted = !quoted;
    out += !quoted && cycleOf[c] !== undefined ? letterOf[cycle] : c;
  }
  return out;
}

function cycleIn(pattern) {
  for (let all = items(pattern), i = 0; i < all.length; i++) if (all[i].letter !== undefined && cycleOf[all[i].letter] !== undefined) return cycleOf[all[i].letter];
  return undefined;
}

function stylePattern(data, d, dateStyle, timeStyle, cycle, decimal) {
  const at = (s) => { for (let i = 0; i < 4; i++) if (styles[i] === s) return i; return -1; };
  const date = dateStyle === undefined ? undefined : d.df[at(dateStyle)], time = timeStyle === undefined ? undefined : d.tf[at(timeStyle)];
  const pattern = time === undefined ? date : date === undefined ? time : joinDateTime(data, at(dateStyle), date, time);
  const has = cycleIn(pattern);
  if (has === undefined || has === cycle) return pattern;
  let skeleton = "";
  for (let s = skeletonText(pattern), i = 0; i < s.length; i++) skeleton += cycleOf[s[i]] !== undefined ? letterOf[cycle] : s[i] === "a" || s[i] === "b" || s[i] === "B" ? "" : s[i];
  return withCycle(bestPattern(data, skeleton, decimal), cycle);
}

// required and defaults are those of ECMA-402: "date", "time" or "any"; "date", "time" or "all".
function resolve(locales, options, required, defaults) {
  const o = optionsOf(options), locale = resolveLocale(locales, who), data = locale.data, d = table(data, "d");
  const numberingSystem = numbering(o, locale, who), decimal = table(data, "n").s[numberingSystem][0];
  calendar(o, locale);
  const cycle = hourCycle(o, locale, d), zone = zoneOf(o.timeZone);
  const dateStyle = option(o, "dateStyle", "string", "full long medium short", undefined, who), timeStyle = option(o, "timeStyle", "string", "full long medium short", undefined, who);
  const asked = fieldsOf(o, required, defaults);
  let pattern;
  if (dateStyle !== undefined || timeStyle !== undefined) {
    if (asked.any) throw new TypeErrorCtor("dateStyle and timeStyle don't go with options for single fields such as month or hour");
    if (dateStyle !== undefined && required === "time") throw new TypeErrorCtor("Invalid option : dateStyle");
    if (timeStyle !== undefined && required === "date") throw new TypeErrorCtor("Invalid option : timeStyle");
    pattern = stylePattern(data, d, dateStyle, timeStyle, cycle, decimal);
  } else pattern = patternOf(data, skeletonOf(withDefaults(asked), cycle), cycle, decimal);
  return { locale, data, d, pattern, all: items(pattern), numberingSystem, cycle, zone, dateStyle, timeStyle };
}

const patterns = create(null);

function patternOf(data, skeleton, cycle, decimal) {
  const key = data + " " + decimal + skeleton;
  return patterns[key] ??= withCycle(bestPattern(data, skeleton, decimal), cycle);
}

// Returns the fields of a point in time in a time zone.
function fieldsAt(ms, zone) {
  const t = new DateCtor(ms + offsetAt(zone, ms).offset * 1000);
  return {
    at: ms, year: t.getUTCFullYear(), month: t.getUTCMonth(), day: t.getUTCDate(), weekday: t.getUTCDay(),
    hour: t.getUTCHours(), minute: t.getUTCMinutes(), second: t.getUTCSeconds(), ms: t.getUTCMilliseconds(),
  };
}

const types = ["era", "year", "quarter", "month", "week", "week", "weekday", "day", "day", "day", "dayPeriod", "hour", "minute", "second", "fractionalSecond", "timeZoneName"];
const wide = (n) => (n === 4 ? 0 : n === 5 ? 2 : 1);
const nameAt = (names, n, i) => split(names[n], "|")[i];
const zoneStyles = { __proto__: null, z: "short", zzzz: "long", O: "shortOffset", OOOO: "longOffset", v: "shortGeneric", vvvv: "longGeneric" };

function dayPeriod(t, r, n) {
  const names = r.d.p[wide(n)], clock = (s) => +slice(s, 0, 2);
  let name;
  for (let i = 0; i < r.d.pr.length; i++) {
    const [period, from, to] = split(r.d.pr[i], " ");
    if (period === "midnight") continue; // another letter covers midnight
    if (to === "@") {
      const exact = clock(from) % 24 === t.hour && (t.minute === 0 || indexOf(r.pattern, "m") < 0) && (t.second === 0 || indexOf(r.pattern, "s") < 0);
      if (exact && own(names, period) !== undefined) return names[period];
      continue;
    }
    const a = clock(from), b = clock(to);
    if (a < b ? t.hour >= a && t.hour < b : t.hour >= a || t.hour < b) name = own(names, period);
  }
  return name ?? names[t.hour < 12 ? "am" : "pm"];
}

function fieldText(letter, n, t, r) {
  const number = (v) => digitsIn(padStart(StringCtor(v), n, "0"), r.numberingSystem);
  switch (letter) {
    case "G": return nameAt(r.d.e, n === 4 ? 0 : n === 5 ? 2 : 1, t.year > 0 ? 1 : 0);
    case "y": { const y = t.year > 0 ? t.year : 1 - t.year; return number(n === 2 ? y % 100 : y); }
    case "M": return n < 3 ? number(t.month + 1) : nameAt(r.d.m, n === 4 ? 0 : n === 5 ? 2 : 1, t.month);
    case "L": return n < 3 ? number(t.month + 1) : nameAt(r.d.m, 3 + wide(n), t.month);
    case "d": return number(t.day);
    case "E": case "e": return nameAt(r.d.w, wide(n), t.weekday);
    case "c": return nameAt(r.d.w, 3 + wide(n), t.weekday);
    case "a": case "b": return r.d.p[wide(n)][t.hour < 12 ? "am" : "pm"];
    case "B": return dayPeriod(t, r, n);
    case "H": return number(t.hour);
    case "h": return number(t.hour % 12 || 12);
    case "K": return number(t.hour % 12);
    case "k": return number(t.hour || 24);
    case "m": return number(t.minute);
    case "s": return number(t.second);
    case "S": return digitsIn(padEnd(slice(padStart(StringCtor(t.ms), 3, "0"), 0, n), n, "0"), r.numberingSystem);
  }
  return zoneText(r.zone, t.at, zoneStyles[repeat(letter, n)] ?? "short", r.data, (s) => digitsIn(s, r.numberingSystem));
}

// Joins parts with plain spaces instead of narrow ones, as browsers and Node do.
function dateTextOf(parts) {
  const s = textOf(parts);
  let out = "";
  for (let i = 0; i < s.length; i++) out += s[i] === "\u202f" ? " " : s[i];
  return out;
}

function partsOf(all, from, to, t, r, source) {
  const out = [];
  for (let i = from; i < to; i++) {
    const it = all[i], p = it.text !== undefined ? { type: "literal", value: it.text } : { type: types[fieldOf(it.letter)], value: fieldText(it.letter, it.n, t, r) };
    if (source !== undefined) p.source = source;
    out[out.length] = p;
  }
  return out;
}

function checked(ms) {
  if (!(Math.abs(ms) <= 8.64e15)) throw new RangeErrorCtor("Invalid time value");
  return Math.trunc(ms);
}

const allParts = (ms, r, source) => partsOf(r.all, 0, r.all.length, fieldsAt(checked(ms), r.zone), r, source);

// Returns the largest field in which two dates differ, as range patterns name it; undefined if they
// format the same.
function difference(a, b, has, cycle) {
  const half = (t) => t.hour < 12;
  if ((a.year > 0) !== (b.year > 0)) return "G";
  if (a.year !== b.year) return "y";
  if (a.month !== b.month) return "M";
  if (a.day !== b.day) return "d";
  const twelve = cycle === "h12" || cycle === "h11";
  if (twelve && half(a) !== half(b)) return has("B") ? "B" : "a";
  if (a.hour !== b.hour) return twelve ? "h" : "H";
  if (a.minute !== b.minute) return "m";
  if (a.second !== b.second) return "s";
  return a.ms !== b.ms ? "S" : undefined;
}

function rangeParts(from, to, r) {
  const a = fieldsAt(checked(from), r.zone), b = fieldsAt(checked(to), r.zone), skeleton = skeletonText(r.pattern), has = (c) => indexOf(skeleton, c) >= 0;
  let date = "", clock = "";
  for (let i = 0; i < skeleton.length; i++) if (indexOf("GyMLdEce", skeleton[i]) >= 0) date += skeleton[i]; else clock += skeleton[i];
  const one = () => partsOf(r.all, 0, r.all.length, a, r, "shared");
  const by = difference(a, b, has, r.cycle), time = has("H") || has("h") || has("K") || has("k") || has("m") || has("s");
  const inDay = by === "a" || by === "B" || by === "h" || by === "H" || by === "m" || by === "s" || by === "S";
  if (by === undefined || ((date !== "" || inDay) && textOf(allParts(from, r)) === textOf(allParts(to, r)))) return one();
  const hasMonth = indexOf(date, "M") >= 0 || indexOf(date, "L") >= 0, hasDay = indexOf(date, "d") >= 0;
  if (!inDay && (date === "" || (indexOf(date, "y") < 0 && by === "y") || (!hasMonth && (by === "M" || by === "d" || hasDay)))) return rangeParts(from, to, wider(r, date, clock, by));
  let pattern;
  if (date === "" || clock === "") pattern = rangePattern(r.data, skeleton, by);
  else if (inDay) {
    const times = rangePattern(r.data, clock, by);
    if (times !== undefined) {
      const month = items(r.pattern).find((x) => x.letter === "M" || x.letter === "L")?.n, style = month === 4 ? (has("E") ? 0 : 1) : month === 3 ? 2 : 3;
      const [all, cut] = cutRange(items(withCycle(times, r.cycle)));
      return joinRange(a, b, r, all, cut, bestPattern(r.data, date, ","), split(r.d.dt[style], "{1}"));
    }
  }
  if (pattern !== undefined) {
    const [all, cut] = cutRange(items(time ? withCycle(pattern, r.cycle) : pattern));
    return sourced(all, cut, a, b, r);
  }
  const before = slice(r.d.fb, 0, indexOf(r.d.fb, "{0}")), after = slice(r.d.fb, indexOf(r.d.fb, "}") + 1, indexOf(r.d.fb, "{1}"));
  if (date !== "" && clock !== "") r = wider(r, date, clock, by);
  const out = allParts(from, r, "startRange");
  if (before !== "") out.unshift({ type: "literal", value: before, source: "shared" });
  out.push({ type: "literal", value: after, source: "shared" }, ...allParts(to, r, "endRange"));
  return out;
}

// Returns the format of a range that differs in a field larger than the requested ones: it includes
// those too.
function wider(r, date, clock, by) {
  const has = (c) => indexOf(date, c) >= 0;
  if (date === "") date = "yMd";
  else {
    if (!has("y") && by === "y") date = "y" + date;
    if (!has("M") && !has("L")) date += "M";
    if (!has("d") && by === "d") date += "d";
  }
  const decimal = table(r.data, "n").s[r.numberingSystem][0], pattern = withCycle(bestPattern(r.data, date + clock, decimal, true), r.cycle);
  return { ...r, pattern, all: items(pattern) };
}

const cutRange = (all) => [all, splitRange(all)];

// Marks the parts of a range as shared, start or end of the range.
function sourced(all, cut, a, b, r) {
  const first = [], second = [];
  for (let i = 0; i < all.length; i++) if (all[i].letter !== undefined) (i < cut ? first : second).push(i);
  const again = (i, list) => list.some((k) => fieldOf(all[k].letter) === fieldOf(all[i].letter));
  const from = first.find((i) => again(i, second)) ?? 0, to = first.findLast((i) => again(i, second)) ?? cut - 1;
  const last = second.findLast((i) => again(i, first)) ?? all.length - 1;
  const out = [];
  for (let i = 0; i < all.length; i++) {
    const source = i >= from && i <= to ? "startRange" : i >= cut && i <= last ? "endRange" : "shared";
    out.push(...partsOf(all, i, i + 1, i >= cut ? b : a, r, source));
  }
  return out;
}

function joinRange(a, b, r, all, cut, date, [left, right]) {
  const times = sourced(all, cut, a, b, r), days = partsOf(items(date), 0, items(date).length, a, r, "shared");
  const literal = (s) => { const t = items(s.replace("{0}", "\u0000")), text = t.map((x) => x.text ?? "").join(""); return split(text, "\u0000"); };
  const text = (value) => (value === "" ? [] : [{ type: "literal", value, source: "shared" }]);
  return indexOf(left, "{0}") >= 0 ? [...times, ...text(literal(left)[1]), ...days, ...text(right)] : [...text(left), ...days, ...text(literal(right)[0]), ...times];
}

const last = { key: undefined, r: undefined };

/** Implements the toLocale methods of Date. */
export function dateText(date, locales, options, required, defaults) {
  const ms = dateGetTime(date);
  if (NumberCtor.isNaN(ms)) return "Invalid Date";
  if (options !== undefined || (locales !== undefined && typeof locales !== "string")) return dateTextOf(allParts(ms, resolve(locales, options, required, defaults)));
  const key = required + defaults + locales;
  if (last.key !== key) { last.r = resolve(locales, undefined, required, defaults); last.key = key; }
  return dateTextOf(allParts(ms, last.r));
}

const time = (d) => (d === undefined ? DateCtor.now() : NumberCtor(d));

export class DateTimeFormat {
  #r; #format;
  constructor(locales, options) { this.#r = resolve(locales, options, "any", "date"); }
  get format() { return (this.#format ??= (d) => dateTextOf(allParts(time(d), this.#r))); }
  formatToParts(d) { return allParts(time(d), this.#r); }
  #range(a, b) {
    if (a === undefined || b === undefined) throw new TypeErrorCtor("formatRange needs two dates");
    return rangeParts(time(a), time(b), this.#r);
  }
  formatRange(a, b) { return textOf(this.#range(a, b)); }
  formatRangeToParts(a, b) { return this.#range(a, b); }
  resolvedOptions() {
    const r = this.#r, k = r.locale.keywords, out = { locale: r.locale.name, calendar: "gregory", numberingSystem: r.numberingSystem, timeZone: r.zone.name };
    if (k.nu === r.numberingSystem) out.locale += "-u-nu-" + k.nu;
    if (cycleIn(r.pattern) !== undefined) { out.hourCycle = r.cycle; out.hour12 = r.cycle === "h12" || r.cycle === "h11"; }
    if (r.dateStyle !== undefined || r.timeStyle !== undefined) {
      if (r.dateStyle !== undefined) out.dateStyle = r.dateStyle;
      if (r.timeStyle !== undefined) out.timeStyle = r.timeStyle;
      return out;
    }
    const found = {};
    for (let i = 0; i < r.all.length; i++) if (r.all[i].letter !== undefined) found[types[fieldOf(r.all[i].letter)]] = r.all[i];
    for (let i = 0; i < fieldOptions.length; i++) {
      const name = fieldOptions[i][0], it = found[name === "fractionalSecondDigits" ? "fractionalSecond" : name];
      if (it === undefined || (name === "dayPeriod" && it.letter !== "B")) continue;
      out[name] = name === "fractionalSecondDigits" ? it.n : name === "timeZoneName" ? zoneStyles[repeat(it.letter, it.n)]
        : it.n > 2 || name === "weekday" || name === "era" || name === "dayPeriod" ? (it.n === 4 ? "long" : it.n === 5 ? "narrow" : "short") : it.n === 2 ? "2-digit" : "numeric";
    }
    return out;
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
