// Finds the locale's pattern for the fields of a date, like ICU's date time pattern generator. A
// skeleton lists fields without order or text, such as yMMMd.

import { StringCtor, create, indexOf, keys, padStart, repeat, slice } from "./primordials.js";
import { table } from "./locale.js";

const era = 0, year = 1, month = 3, weekday = 6, dayperiod = 10, hour = 11, minute = 12, second = 13, fraction = 14, zone = 15;
const fields = 16, dateMask = (1 << dayperiod) - 1;
const numeric = 0x100, narrow = -0x101, short = -0x103, long = -0x104, delta = 0x10;

// For each letter: its field, and numbers to compare its numeric and textual widths by.
const letters = {
  __proto__: null, G: [era, 0, 0], y: [year, 0], Y: [year, delta], Q: [2, 0, 0], q: [2, delta, -delta], M: [month, 0, 0], L: [month, delta, -delta],
  w: [4, 0], W: [5, 0], E: [weekday, 0, 0], c: [weekday, 2 * delta, -2 * delta], e: [weekday, delta, -delta], d: [9, 0], D: [7, 0], F: [8, 0],
  a: [dayperiod, 0, 0], b: [dayperiod, 0, -delta], B: [dayperiod, 0, -3 * delta], H: [hour, 10 * delta], k: [hour, 11 * delta], h: [hour, 0], K: [hour, delta],
  m: [minute, 0], s: [second, 0], S: [fraction, 0], v: [zone, 0, -2 * delta], z: [zone, 0, 0], O: [zone, 0, -delta], V: [zone, 0, -delta], Z: [zone, 0, -delta],
};

const isWordOnly = (c) => c === "G" || c === "E" || c === "a" || c === "b" || c === "B" || c === "v" || c === "z" || c === "O" || c === "V" || c === "Z";

function typeOf(c, n) {
  const l = letters[c];
  if (l[2] === undefined || (!isWordOnly(c) && n < 3)) return numeric + l[1] + n;
  return (n === 4 ? long : n === 5 ? narrow : short) + l[2];
}

const baseLength = (c, n) => (typeOf(c, n) > 0 || isWordOnly(c) && n < 4 ? 1 : n < 4 ? 3 : n);

/** Parses a pattern into its fields and texts, in order. Each item has letter and n, or text. */
export function items(pattern) {
  const out = [];
  let text = "", quoted = false;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === "'") {
      if (pattern[i + 1] === "'") { text += "'"; i++; } else quoted = !quoted;
    } else if (!quoted && letters[c] !== undefined) {
      let n = 1;
      while (pattern[i + 1] === c) { n++; i++; }
      if (text !== "") out[out.length] = { text };
      text = "";
      out[out.length] = { letter: c, n };
    } else text += c;
  }
  if (text !== "") out[out.length] = { text };
  return out;
}

const quote = (text) => {
  let out = "", letter = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i], is = (c >= "a" && c <= "z") || (c >= "A" && c <= "Z");
    letter = letter || is;
    out += c === "'" ? "''" : c;
  }
  return letter ? "'" + out + "'" : out;
};

const textOf = (all) => { let s = ""; for (let i = 0; i < all.length; i++) s += all[i].text !== undefined ? quote(all[i].text) : repeat(all[i].letter, all[i].n); return s; };

// Parses a skeleton: for each field its letter, its width, and the number to compare it by.
function skeletonOf(pattern) {
  const s = { letter: [], n: [], type: [], mask: 0, key: "", base: "" };
  for (let i = 0; i < fields; i++) { s.letter[i] = ""; s.n[i] = 0; s.type[i] = 0; }
  for (let all = items(pattern), i = 0; i < all.length; i++) if (all[i].letter !== undefined) put(s, all[i].letter, all[i].n);
  if (s.type[minute] !== 0 && s.type[fraction] !== 0 && s.type[second] === 0) put(s, "s", 1);
  if (s.type[hour] !== 0) {
    if (s.letter[hour] === "h" || s.letter[hour] === "K") { if (s.type[dayperiod] === 0) put(s, "a", 1); }
    else { s.letter[dayperiod] = ""; s.n[dayperiod] = s.type[dayperiod] = 0; }
  }
  for (let i = 0; i < fields; i++) if (s.type[i] !== 0) {
    s.mask |= 1 << i;
    s.key += repeat(s.letter[i], s.n[i]);
    s.base += repeat(s.letter[i], baseLength(s.letter[i], s.n[i]));
  }
  return s;
}

function put(s, letter, n) {
  const f = letters[letter][0];
  s.letter[f] = letter; s.n[f] = n; s.type[f] = typeOf(letter, n);
}

const canonical = ["G", "y", "Q", "M", "w", "W", "E", "d", "D", "F", "a", "H", "m", "s", "S", "v"];

// Returns all patterns of a locale in ICU's order of comparison: by first letter, then by position
// in the data.
function load(data) {
  const d = table(data, "d"), all = [], byKey = create(null), byBase = create(null);
  const add = (pattern, skeleton, override) => {
    const s = skeletonOf(skeleton === undefined ? pattern : skeleton), given = skeleton !== undefined;
    const sameBase = byBase[s.base], same = byKey[s.key];
    if (sameBase !== undefined && (!sameBase.given || (given && !override)) && !override) return;
    if (same !== undefined && (!override || (given && same.given))) return;
    const e = { s, pattern, given };
    if (same !== undefined) { same.pattern = pattern; same.given = given; same.s = s; return; }
    byKey[s.key] = e;
    byBase[s.base] ??= e;
    all[all.length] = e;
  };
  for (let i = 0; i < canonical.length; i++) add(canonical[i], undefined, false);
  for (let i = 0; i < 4; i++) { add(d.df[i], undefined, false); add(d.tf[i], undefined, false); }
  for (let names = keys(d.av), i = 0; i < names.length; i++) add(d.av[names[i]], names[i], true);
  const sorted = [];
  for (let c = 65; c < 123; c++) for (let i = 0; i < all.length; i++) if (all[i].s.base.charCodeAt(0) === c) sorted[sorted.length] = all[i];
  return sorted;
}

const loaded = create(null);

// Returns the pattern nearest to a skeleton in the fields of include, and the fields that it lacks.
function nearest(data, want, include) {
  const all = loaded[data] ??= load(data);
  let best, distance = Infinity, missing = 0;
  for (let i = 0; i < all.length; i++) {
    const s = all[i].s;
    let d = 0, lacks = 0;
    for (let f = 0; f < fields; f++) {
      const mine = include & (1 << f) ? want.type[f] : 0, other = s.type[f];
      if (mine === other) continue;
      if (mine === 0) d += 0x10000;
      else if (other === 0) { d += 0x1000; lacks |= 1 << f; }
      else d += Math.abs(mine - other);
    }
    if (d < distance || (d === distance && lacks > missing)) { best = all[i]; distance = d; missing = lacks; if (d === 0) break; }
  }
  return { best, missing, distance };
}

// Adjusts a pattern to the requested widths.
function adjust(entry, want, fix, decimal) {
  const all = items(entry.pattern), given = entry.given ? entry.s : undefined;
  for (let i = 0; i < all.length; i++) {
    const it = all[i];
    if (it.letter === undefined) continue;
    const f = letters[it.letter][0];
    if (fix && f === second) {
      it.letter2 = true;
      continue;
    }
    if (want.type[f] === 0) continue;
    const asked = want.letter[f];
    let n = asked === "E" && want.n[f] < 3 ? 3 : want.n[f], to = n;
    if (f === minute || f === second || (f === hour && want.loose)) to = it.n;
    else if (given !== undefined && asked !== "c" && asked !== "e") {
      const isNumber = typeOf(it.letter, it.n) > 0, wasNumber = given.type[f] > 0;
      if (given.n[f] === n || (isNumber && !wasNumber && given.type[f] !== 0) || (wasNumber && !isNumber)) to = it.n;
    }
    let c = f !== hour && f !== month && f !== weekday && (f !== year || asked === "Y") ? asked : it.letter;
    if (c === "E" && to < 3) c = "e";
    it.letter = c;
    it.n = to;
  }
  if (!fix) return textOf(all);
  const out = [];
  for (let i = 0; i < all.length; i++) {
    out[out.length] = all[i];
    if (all[i].letter2) { out[out.length] = { text: decimal }; out[out.length] = { letter: "S", n: want.n[fraction] }; }
  }
  return textOf(out);
}

function topField(mask) { let i = 0; while (mask > 1) { mask >>>= 1; i++; } return i; }

function appended(data, want, include, decimal) {
  if (include === 0) return "";
  let { best, missing } = nearest(data, want, include), result = adjust(best, want, false, decimal), last = -1;
  const d = table(data, "d");
  while (missing !== 0 && missing !== last) {
    if ((missing & (1 << second | 1 << fraction)) === 1 << fraction && (include & 1 << second) !== 0) {
      result = adjust({ pattern: result, given: false, s: best.s }, want, true, decimal);
      missing &= ~(1 << fraction);
      continue;
    }
    last = missing;
    const more = nearest(data, want, missing), text = adjust(more.best, want, false, decimal), found = missing & ~more.missing;
    if (found !== 0) {
      const top = topField(found), a = d.ap[top];
      result = fillText(a, result, text, "'" + d.fn[top] + "'");
    }
    missing = more.missing;
  }
  return result;
}

function fillText(pattern, ...values) {
  let out = "";
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] === "{" && pattern[i + 2] === "}") { out += values[+pattern[i + 1]]; i += 2; } else out += pattern[i];
  }
  return out;
}

/** Joins a time pattern and a date pattern; style is 0 for full to 3 for short. */
export const joinDateTime = (data, style, date, time) => fillText(table(data, "d").at[style], time, date);

/**
 * Returns the locale's pattern for the fields of a skeleton. With loose, hours keep the locale's
 * width.
 */
export function bestPattern(data, skeleton, decimal, loose) {
  const want = skeletonOf(skeleton);
  want.loose = loose;
  const { best, missing, distance } = nearest(data, want, -1);
  if (missing === 0 && distance < 0x1000) return adjust(best, want, false, decimal);
  const date = appended(data, want, want.mask & dateMask, decimal), time = appended(data, want, want.mask & ~dateMask, decimal);
  if (date === "") return time;
  if (time === "") return date;
  const n = want.n[month], style = n === 4 ? (want.n[weekday] > 0 ? 0 : 1) : n === 3 ? 2 : 3;
  return joinDateTime(data, style, date, time);
}

/** Returns the skeleton of a pattern. */
export function skeletonText(pattern) {
  const s = skeletonOf(pattern);
  return s.key;
}

// Maps the differing field of a range to its letter in the tables.
const differs = { __proto__: null, G: era, y: year, M: month, d: 9, a: dayperiod, B: dayperiod, H: hour, h: hour, m: minute };

/**
 * Returns the pattern of a range whose largest differing field is by; undefined if the locale has
 * none.
 */
export function rangePattern(data, skeleton, by) {
  const d = table(data, "d"), want = skeletonOf(skeleton);
  let best, distance = Infinity;
  for (let names = keys(d.iv), i = 0; i < names.length; i++) {
    const s = skeletonOf(names[i]);
    if (s.mask !== want.mask) continue;
    let far = 0;
    for (let f = 0; f < fields; f++) if (want.type[f] !== 0) far += want.type[f] > 0 === s.type[f] > 0 ? Math.abs(want.type[f] - s.type[f]) : 0x1000;
    if (far < distance) { distance = far; best = names[i]; }
  }
  if (best === undefined || distance >= 0x1000) return undefined;
  const pattern = d.iv[best][by];
  return pattern === undefined ? undefined : adjust({ pattern, given: true, s: skeletonOf(best) }, want, false, "");
}

/** Returns where the second date of a range pattern begins: at the first repeated field. */
export function splitRange(all) {
  const seen = create(null);
  for (let i = 0; i < all.length; i++) {
    if (all[i].letter === undefined) continue;
    const f = letters[all[i].letter][0];
    if (seen[f]) return i;
    seen[f] = true;
  }
  return all.length;
}

export const fieldOf = (letter) => letters[letter][0];
