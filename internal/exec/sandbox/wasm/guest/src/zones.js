// Time zones: their offsets from UTC over time, by the rules of the IANA database, and their names.

import { primaryZones, zoneIds } from "../../../../../../third_party/cldr/rules.js";
import { data as lineOf } from "./host.js";
import { RangeErrorCtor, StringCtor, create, exec, indexOf, lastIndexOf, padStart, regexpTest, slice } from "./primordials.js";
import { own, restOf, split, table } from "./locale.js";

const cache = create(null);
const base36 = (s) => { const negative = s[0] === "-"; let n = 0; for (let i = negative ? 1 : 0; i < s.length; i++) n = n * 36 + (s[i] <= "9" ? +s[i] : s.charCodeAt(i) - 87); return negative ? -n : n; };

/** The names that Intl.supportedValuesOf("timeZone") returns. */
export const zoneNames = () => split(zoneIds, " ");

function offsetZone(s) {
  const m = exec(/^([+-])(\d{2})(?::?(\d{2}))?$/, s);
  if (m === null || +m[2] > 23 || +(m[3] || 0) > 59) return undefined;
  const minutes = (m[1] === "-" ? -1 : 1) * (+m[2] * 60 + +(m[3] || 0));
  return { name: (minutes < 0 ? "-" : "+") + m[2] + ":" + (m[3] || "00"), fixed: minutes * 60 };
}

const utc = { name: "UTC", fixed: 0, cldr: "Etc/UTC" };

/** Resolves the time zone that a program named; UTC if it named none. */
export function zoneOf(value) {
  if (value === undefined) return utc;
  const s = StringCtor(value), offset = offsetZone(s);
  if (offset !== undefined) return offset;
  const line = regexpTest(/^[A-Za-z0-9_+\-/]+$/, s) ? lineOf("zones/" + s) : undefined;
  if (line === undefined) {
    throw new RangeErrorCtor(`Invalid time zone specified: ${s}; use a name of the IANA database such as "Europe/Berlin", "UTC" or an offset such as "+02:00"`);
  }
  return cache[slice(line, 0, indexOf(line, "\n"))] ??= load(line);
}

function load(line) {
  const at = indexOf(line, "\n");
  let name = slice(line, 0, at), rest = slice(line, at + 1);
  const asked = name;
  if (rest[0] === ">") { name = slice(rest, 1); rest = restOf("zones/" + name); }
  if (name === "Etc/UTC" || name === "Etc/GMT") return utc;
  const [cldr, country, meta, rule, kinds, times] = split(rest, "|");
  const z = { name: asked, cldr: cldr || name, country, meta: split(meta, ","), rule: ruleOf(rule), offsets: [], daylight: [], times: [], kinds: [] };
  for (let all = split(kinds, ","), i = 0; i < all.length; i++) {
    const dst = all[i][all[i].length - 1] === "!";
    z.offsets[i] = base36(dst ? slice(all[i], 0, all[i].length - 1) : all[i]);
    z.daylight[i] = dst;
  }
  if (times === "") return z;
  for (let all = split(times, ","), i = 0, t = 0; i < all.length; i++) {
    const dot = indexOf(all[i], ".");
    t += base36(slice(all[i], 0, dot));
    z.times[i] = t;
    z.kinds[i] = base36(slice(all[i], dot + 1));
  }
  return z;
}

// A rule in POSIX form: CET-1CEST,M3.5.0,M10.5.0/3.
function ruleOf(s) {
  const m = exec(/^(?:<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)(?:(?:<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)?,([^,]+),([^,]+))?$/, s);
  const std = -clock(m[1]);
  if (m[3] === undefined) return { std };
  return { std, dst: m[2] === undefined ? std + 3600 : -clock(m[2]), from: dateOf(m[3]), to: dateOf(m[4]) };
}

function clock(s) {
  const m = exec(/^([+-]?)(\d+)(?::(\d+))?(?::(\d+))?$/, s);
  return (m[1] === "-" ? -1 : 1) * (+m[2] * 3600 + +(m[3] || 0) * 60 + +(m[4] || 0));
}

function dateOf(s) {
  const m = exec(/^(?:M(\d+)\.(\d+)\.(\d+)|(J?)(\d+))(?:\/([+-]?[\d:]+))?$/, s);
  const at = m[6] === undefined ? 7200 : clock(m[6]);
  return m[1] === undefined ? { day: +m[5], julian: m[4] === "J", at } : { month: +m[1], week: +m[2], weekday: +m[3], at };
}

// Days from 1970 to the beginning of the year.
const yearDays = (y) => 365 * (y - 1970) + Math.floor((y - 1969) / 4) - Math.floor((y - 1901) / 100) + Math.floor((y - 1601) / 400);
const isLeap = (y) => (y % 4 === 0 && y % 100 !== 0) || y % 400 === 0;
const before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

// Returns when a rule's date falls in a year, in seconds of local time.
function moment(d, y) {
  let day;
  if (d.month === undefined) day = yearDays(y) + d.day - (d.julian ? 1 - (isLeap(y) && d.day >= 60 ? 1 : 0) : 0);
  else {
    const first = yearDays(y) + before[d.month - 1] + (d.month > 2 && isLeap(y) ? 1 : 0);
    const length = before[d.month] - before[d.month - 1] + (d.month === 2 && isLeap(y) ? 1 : 0);
    day = first + ((d.weekday - ((first + 4) % 7) + 7) % 7) + 7 * (d.week - 1);
    while (day >= first + length) day -= 7;
  }
  return day * 86400 + d.at;
}

/**
 * Returns the offset of a zone from UTC at ms, in seconds, and whether that is daylight saving
 * time.
 */
export function offsetAt(zone, ms) {
  if (zone.fixed !== undefined) return { offset: zone.fixed, daylight: false };
  const t = Math.floor(ms / 1000), n = zone.times.length;
  if (n === 0 || t < zone.times[0]) {
    if (n > 0 || zone.rule.dst === undefined) return n > 0 ? { offset: zone.offsets[0], daylight: zone.daylight[0] } : { offset: zone.offsets[0], daylight: false };
  }
  if (n > 0 && t < zone.times[n - 1]) {
    let low = 0, high = n - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (zone.times[mid] <= t) low = mid; else high = mid; }
    return { offset: zone.offsets[zone.kinds[low]], daylight: zone.daylight[zone.kinds[low]] };
  }
  const r = zone.rule;
  if (r.dst === undefined) return { offset: r.std, daylight: n > 0 && zone.offsets[zone.kinds[n - 1]] === r.std ? zone.daylight[zone.kinds[n - 1]] : false };
  const year = new Date((t + r.std) * 1000).getUTCFullYear(), from = moment(r.from, year) - r.std, to = moment(r.to, year) - r.dst;
  const inside = from < to ? t >= from && t < to : t >= from || t < to;
  const summer = r.dst > r.std; // Ireland's standard time is its summer time
  return inside ? { offset: r.dst, daylight: summer } : { offset: r.std, daylight: !summer };
}

function metazoneAt(zone, ms) {
  let out = "";
  const t = ms / 1000;
  if (zone.meta === undefined) return out;
  for (let i = 0; i < zone.meta.length; i++) {
    const space = indexOf(zone.meta[i], " ");
    if (space < 0) out = zone.meta[i];
    else if (base36(slice(zone.meta[i], 0, space)) <= t) out = slice(zone.meta[i], space + 1);
  }
  return out;
}

const two = (n) => padStart(StringCtor(n), 2, "0");

/** Formats an offset as the locale does: GMT+1 or GMT+01:00. */
export function gmtText(data, seconds, long, digits) {
  const z = table(data, "z");
  const abs = Math.abs(seconds), h = Math.floor(abs / 3600), m = Math.floor(abs / 60) % 60, s = abs % 60;
  const half = split(z.h, ";")[seconds < 0 ? 1 : 0], at = indexOf(half, "H"), colon = half[indexOf(half, "mm") - 1];
  const hours = long || half[at + 1] !== "H" ? (long ? two(h) : StringCtor(h)) : StringCtor(h);
  const minutes = long || m > 0 || s > 0 ? colon + two(m) : "", more = s > 0 ? colon + two(s) : "";
  const text = slice(half, 0, at) + digits(hours + minutes + more) + (minutes === "" ? "" : slice(half, indexOf(half, "mm") + 2));
  return split(z.g, "{0}")[0] + text + (split(z.g, "{0}")[1] || "");
}

// A zone whose clocks don't change near ms is named after its standard time.
function isSteady(zone, ms) {
  for (let d = -184; d <= 184; d += 46) if (offsetAt(zone, ms + d * 86400_000).daylight) return false;
  return true;
}

function cityOf(name) {
  let city = "";
  for (let i = lastIndexOf(name, "/") + 1; i < name.length; i++) city += name[i] === "_" ? " " : name[i];
  return city;
}

/** Returns the name of a zone at ms; style is one of Intl's. */
export function zoneText(zone, ms, style, data, digits) {
  const { offset, daylight } = offsetAt(zone, ms), long = style[0] === "l";
  if (style === "shortOffset" || style === "longOffset") return gmtText(data, offset, long, digits);
  const z = table(data, "z"), generic = indexOf(style, "Generic") > 0;
  let at = (long ? 0 : 3) + (daylight ? 2 : 1);
  if (zone.cldr === undefined) return gmtText(data, offset, long, digits);
  const exact = own(z.x, zone.cldr);
  const meta = own(z.m, metazoneAt(zone, ms));
  if (!generic) return (exact !== undefined && exact[at]) || (meta !== undefined && meta[at]) || gmtText(data, offset, long, digits);
  if (zone.fixed !== undefined) return gmtText(data, offset, long, digits);
  at = long ? 0 : 3;
  const name = (exact !== undefined && exact[at]) || (meta !== undefined && ((isSteady(zone, ms) && meta[at + 1]) || meta[at]));
  if (name) return name;
  const country = indexOf(primaryZones, " " + zone.cldr + " ") >= 0 ? own(table(data, "t").T, zone.country) : undefined;
  return split(z.rf, "{0}")[0] + (country ?? own(table(data, "y"), zone.cldr) ?? cityOf(zone.cldr)) + (split(z.rf, "{0}")[1] || "");
}
