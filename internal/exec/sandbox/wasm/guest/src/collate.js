// Locale-aware string comparison: by letter, then accent, then case. With the numeric option,
// digits compare as numbers.

import { RangeErrorCtor } from "./primordials.js";
import { baseOf, option, optionsOf, resolveLocale, split, supportedLocalesOf } from "./locale.js";

// The sort order of ASCII: white space, punctuation and symbols, digits, letters.
const order = " _-,;:!?./`^~'\"()[]{}@$*\\&#%+<=>|0123456789abcdefghijklmnopqrstuvwxyz";
const rank = [];
for (let i = 0; i < 128; i++) {
  const at = order.indexOf(String.fromCharCode(i).toLowerCase());
  rank[i] = at < 0 ? 0 : at + 1;
}
Object.setPrototypeOf(rank, null);

const marks = /[\u0300-\u036f]/g;
const plain = /^[\x00-\x7f]*$/;

// Letters of the language's own script sort before Latin ones.
const scripts = { __proto__: null, ru: [0x400, 0x52f], uk: [0x400, 0x52f], el: [0x370, 0x3ff], he: [0x590, 0x5ff], ar: [0x600, 0x6ff], hi: [0x900, 0x97f], ko: [0xac00, 0xd7ff] };
const letterA = rank[97];

function weight(c, own) {
  if (c < 128) return rank[c];
  return own !== undefined && c >= own[0] && c <= own[1] ? letterA - 1 + (c + 1) / 0x10000 : c + 128;
}

const isDigit = (c) => c >= 48 && c <= 57;

// Compares letters only, ignoring accents and case.
function primary(a, b, numeric, own) {
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    const c = a.charCodeAt(i), d = b.charCodeAt(j);
    if (numeric && isDigit(c) && isDigit(d)) {
      let x = i, y = j;
      while (x < a.length && isDigit(a.charCodeAt(x))) x++;
      while (y < b.length && isDigit(b.charCodeAt(y))) y++;
      const m = a.slice(i, x).replace(/^0+(?=\d)/, ""), n = b.slice(j, y).replace(/^0+(?=\d)/, "");
      if (m.length !== n.length) return m.length < n.length ? -1 : 1;
      if (m !== n) return m < n ? -1 : 1;
      i = x; j = y;
      continue;
    }
    if (c !== d) {
      const p = weight(c, own), q = weight(d, own);
      if (p !== q) return p < q ? -1 : 1;
    }
    i++; j++;
  }
  return a.length - i === b.length - j ? 0 : a.length - i < b.length - j ? -1 : 1;
}

const sign = (a, b) => (a === b ? 0 : a < b ? -1 : 1);

// Distinct letters that sort after another: "ñ>n" sorts first after n. Accented letters are in
// decomposed form.
const everywhere = "ł>l đ>d ı>i і>и ї>и й>и є>е";
const alphabets = {
  __proto__: null, cs: "č>c ch>h ř>r š>s ž>z", da: "æ>z ä>z ø>z ö>z å>z aa>z", no: "æ>z ä>z ø>z ö>z å>z aa>z", sv: "å>z ä>z æ>z ö>z ø>z", fi: "å>z ä>z æ>z ö>z ø>z",
  es: "ñ>n", pl: "ą>a ć>c ę>e ł>l ń>n ó>o ś>s ź>z ż>z", ro: "ă>a â>a î>i ș>s ş>s ț>t ţ>t", tr: "ç>c ğ>g ı>h ö>o ş>s ü>u",
  uk: "ґ>г є>е і>и ї>и й>и", hu: "cs>c dzs>d dz>d gy>g ly>l ny>n ö>o ő>o sz>s ty>t ü>u ű>u zs>z", vi: "ă>a â>a đ>d ê>e ô>o ơ>o ư>u",
};
// In these, the two letters of a pair differ only in accent.
const same = { __proto__: null, "ä>z": "æ>z", "ö>z": "ø>z", "aa>z": "å>z", "ş>s": "ș>s", "ţ>t": "ț>t", "ő>o": "ö>o", "ű>u": "ü>u" };
const sameEverywhere = { __proto__: null, "ї>и": "і>и" };
const spelled = [["ß", "ss"], ["æ", "ae"], ["œ", "oe"], ["ø", "o"], ["ς", "σ"], ["ґ", "г"]];

const rules = Object.create(null);

function rulesOf(base) {
  if (rules[base] !== undefined) return rules[base];
  const out = [], count = Object.create(null), place = Object.create(null);
  for (const rule of split(`${alphabets[base] ?? ""} ${everywhere}`.trim(), " ")) {
    if (place[rule] !== undefined) continue;
    const [letter, after] = split(rule, ">"), of = base === "sv" || base === "fi" ? { "æ>z": "ä>z", "ø>z": "ö>z" }[rule] : base === "tr" ? undefined : same[rule] ?? (base === "uk" ? undefined : sameEverywhere[rule]);
    const at = of !== undefined && place[of] !== undefined ? place[of] : (count[after] = (count[after] ?? 0) + 1);
    place[rule] = at;
    out.push([letter.normalize("NFD"), after + String.fromCharCode(0xfff0 + at)]);
  }
  for (const [from, to] of spelled) out.push([from, to]);
  out.sort((x, y) => y[0].length - x[0].length); // longest first, so that they are matched whole
  return (rules[base] = out);
}

// Returns the text in the form in which letters are compared: decomposed, without accents, with
// distinct letters marked.
function lettersOf(s, base) {
  s = s.normalize("NFD");
  if (base === "tr") s = s.replaceAll("I\u0307", "i").replaceAll("I", "ı");
  s = s.toLowerCase();
  for (const [from, to] of rulesOf(base)) if (s.includes(from)) s = s.split(from).join(to);
  return s.replace(marks, "");
}

function compare(a, b, c) {
  if (a === b) return 0;
  const { sensitivity, numeric, ignorePunctuation, caseFirst, base } = c;
  if (ignorePunctuation) { a = a.replace(/[\s\p{P}]/gu, ""); b = b.replace(/[\s\p{P}]/gu, ""); }
  let x = a, y = b;
  const simple = plain.test(a) && plain.test(b) && alphabets[base] === undefined;
  if (!simple) { x = lettersOf(a, base); y = lettersOf(b, base); }
  let r = primary(simple ? x.toLowerCase() : x, simple ? y.toLowerCase() : y, numeric, c.own);
  if (r !== 0 || sensitivity === "base") return r;
  if (!simple && sensitivity !== "case") {
    const p = a.normalize("NFD").toLowerCase(), q = b.normalize("NFD").toLowerCase();
    r = c.backwards ? sign([...p].reverse().join(""), [...q].reverse().join("")) : sign(p, q);
    if (r !== 0) return r;
  }
  if (sensitivity === "accent") return 0;
  if (!simple) { x = a.normalize("NFD").replace(marks, ""); y = b.normalize("NFD").replace(marks, ""); }
  for (let i = 0; i < x.length && i < y.length; i++) { // lower case first
    if (x[i] !== y[i]) {
      const lower = x[i] === x[i].toLowerCase();
      if (lower !== (y[i] === y[i].toLowerCase())) return lower !== (caseFirst === "upper") ? -1 : 1;
    }
  }
  return 0;
}

const who = "Intl.Collator";

function resolve(locales, options) {
  const o = optionsOf(options), locale = resolveLocale(locales, who), base = baseOf(locale.data), k = locale.keywords;
  if (base === "ja" || base === "zh" || base === "zh-Hant") throw new RangeErrorCtor(`${who}: sorting by locale ${locale.name} is not supported here: its characters are sorted by their sounds or strokes`);
  const collation = option(o, "collation", "string", undefined, k.co, who);
  if (collation !== undefined && collation !== "default" && collation !== "standard") throw new RangeErrorCtor(`${who}: collation ${collation} is not supported here`);
  const usage = option(o, "usage", "string", "sort search", "sort", who);
  const numeric = option(o, "numeric", "boolean", undefined, k.kn === "" || k.kn === "true", who);
  const caseFirst = option(o, "caseFirst", "string", "upper lower false", k.kf ?? (base === "da" ? "upper" : "false"), who);
  const sensitivity = option(o, "sensitivity", "string", "base accent case variant", "variant", who);
  const ignorePunctuation = option(o, "ignorePunctuation", "boolean", undefined, false, who);
  return { locale: locale.name, usage, sensitivity, ignorePunctuation, collation: "default", numeric, caseFirst, base, own: scripts[base], backwards: locale.data === "fr-CA" };
}

const standard = resolve();

/** Returns -1, 0 or 1, like String.prototype.localeCompare. */
export const compareText = (a, b, locales, options) => compare(a, b, locales === undefined && options === undefined ? standard : resolve(locales, options));

export class Collator {
  #c; #compare;
  constructor(locales, options) { this.#c = resolve(locales, options); }
  get compare() { return (this.#compare ??= (a, b) => compare(String(a), String(b), this.#c)); }
  resolvedOptions() { const { base, own, backwards, ...shown } = this.#c; return shown; }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
