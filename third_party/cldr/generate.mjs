// This program makes the data of locales and time zones for the embedded JavaScript engine:
//
//	node generate.mjs PACKAGES TIMEZONES
//
// PACKAGES holds the unpacked npm packages that ORIGIN.md names, each in a folder of its name. TIMEZONES is the folder
// timezones of third_party/cpython/lib.zip. It writes beside itself:
//
//	<language>.txt  a line for each section of a language: its letter, a space, JSON
//	regions.txt     a line for each other locale: its name, and JSON with what differs from its parent's in each section
//	rules.js        plural rules, as functions, and the other data that locales share
//	zones.txt       the time zones
//
// The engine asks for a line when a program first needs it, so that programs which don't need it pay nothing.

import fs from "node:fs";
import path from "node:path";

const [packages, timezones] = process.argv.slice(2);
const here = import.meta.dirname;
const json = (p) => JSON.parse(fs.readFileSync(path.join(packages, p), "utf8"));
const core = (name) => json(`cldr-core/supplemental/${name}.json`).supplemental;

const languages = "ar cs da de el en es fi fr he hi hu id it ja ko nl no pl pt ro ru sv tr uk vi zh zh-Hant".split(" ");
const aliases = { no: ["nb"] };

const sanctioned = ("acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch kilobit " +
  "kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond minute month " +
  "nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year").split(" ");
const systems = ["latn", "arab", "deva"];
const plural = ["zero", "one", "two", "few", "many", "other"];
const timeData = core("timeData").timeData;
const likely = core("likelySubtags").likelySubtags;
const dayPeriodRules = core("dayPeriods").dayPeriodRuleSet;

// The currencies in use.
const current = new Set();
for (const list of Object.values(core("currencyData").currencyData.region)) for (const c of list) {
  const [code, v] = Object.entries(c)[0];
  if (v._to === undefined && v._tender !== "false") current.add(code);
}

// Plural forms: text when all are the same, otherwise an object.
function forms(o, prefix) {
  const out = {};
  for (const c of plural) if (o[prefix + c] !== undefined) out[c] = o[prefix + c];
  for (const c of ["0", "1"]) if (o[prefix + c] !== undefined) out["=" + c] = o[prefix + c];
  for (const c of Object.keys(out)) if (c !== "other" && out[c] === out.other) delete out[c];
  return Object.keys(out).length === 1 && out.other !== undefined ? out.other : out;
}

function compact(o) {
  if (o === undefined) return undefined;
  const out = {};
  for (let p = 3; o["1" + "0".repeat(p) + "-count-other"] !== undefined; p++) out[p] = forms(o, "1" + "0".repeat(p) + "-count-");
  return out;
}

function numbers(loc) {
  const n = json(`cldr-numbers-full/main/${loc}/numbers.json`).main[loc].numbers;
  const out = { ns: n.defaultNumberingSystem, g: Number(n.minimumGroupingDigits), s: {}, f: {} };
  for (const ns of systems) {
    const s = n["symbols-numberSystem-" + ns];
    if (s === undefined) continue;
    out.s[ns] = [s.decimal, s.group, s.percentSign, s.plusSign, s.minusSign, s.exponential, s.infinity, s.nan, s.approximatelySign, s.currencyDecimal ?? s.decimal, s.currencyGroup ?? s.group];
    const d = n["decimalFormats-numberSystem-" + ns], c = n["currencyFormats-numberSystem-" + ns], m = n["miscPatterns-numberSystem-" + ns];
    out.f[ns] = {
      d: d.standard, p: n["percentFormats-numberSystem-" + ns].standard, e: n["scientificFormats-numberSystem-" + ns].standard,
      c: c.standard, a: c.accounting, ca: c["standard-alphaNextToNumber"], aa: c["accounting-alphaNextToNumber"], r: m.range, ap: m.approximately, u: forms(c, "unitPattern-count-"),
      ks: compact(d.short.decimalFormat), kl: compact(d.long.decimalFormat), kc: compact((c.short ?? n["currencyFormats-numberSystem-latn"].short)?.standard), kca: compact(c.short?.["standard-alphaNextToNumber"]?.["1000-count-other"] && c.short["standard-alphaNextToNumber"]),
    };
  }
  return out;
}

function currencies(loc) {
  const all = json(`cldr-numbers-full/main/${loc}/currencies.json`).main[loc].numbers.currencies, out = {};
  for (const code of current) {
    if (all[code] === undefined) continue;
    const c = all[code], names = forms(c, "displayName-count-");
    out[code] = [c.symbol ?? 0, c["symbol-alt-narrow"] ?? 0, c.displayName, names.other === undefined && typeof names !== "string" ? 0 : names === c.displayName ? 0 : names];
    while (out[code].at(-1) === 0) out[code].pop();
  }
  return out;
}

function units(loc) {
  const u = json(`cldr-units-full/main/${loc}/units.json`).main[loc].units, out = {};
  const known = (name) => sanctioned.includes(name) || (name.includes("-per-") && name.split("-per-").every((x) => sanctioned.includes(x)));
  for (const key of Object.keys(u.long)) {
    const name = key.slice(key.indexOf("-") + 1);
    if (!known(name)) continue;
    out[name] = ["long", "short", "narrow"].map((w) => {
      const f = forms(u[w][key], "unitPattern-count-"), per = u[w][key].perUnitPattern;
      return per === undefined ? f : typeof f === "string" ? { other: f, per } : { ...f, per };
    });
  }
  out.per = ["long", "short", "narrow"].map((w) => u[w].per.compoundUnitPattern);
  return out;
}

const text = (p) => (typeof p === "object" ? p._value : p);
const four = (o) => ["full", "long", "medium", "short"].map((k) => text(o[k]));
const monthKeys = Array.from({ length: 12 }, (_, i) => String(i + 1));
const dayKeys = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const joined = (o, keys) => keys.map((k) => o[k]).join("|");

function region(loc) {
  const full = likely[loc] ?? likely[loc.split("-")[0]];
  return loc.split("-").find((s, i) => i > 0 && /^([A-Z]{2}|\d{3})$/.test(s)) ?? full.split("-").at(-1);
}

function hours(loc) {
  const lang = loc.split("-")[0], r = region(loc);
  const t = timeData[`${lang}-${r}`] ?? timeData[`${lang}_${r}`] ?? timeData[r] ?? timeData["001"];
  return t._preferred;
}

function dates(loc) {
  const g = json(`cldr-dates-full/main/${loc}/ca-gregorian.json`).main[loc].dates.calendars.gregorian;
  const fields = json(`cldr-dates-full/main/${loc}/dateFields.json`).main[loc].dates.fields;
  const widths = ["wide", "abbreviated", "narrow"];
  const av = {}, iv = {}, all = g.dateTimeFormats.availableFormats;
  for (const k of Object.keys(all)) if (!/[QwWU]|-/.test(k)) av[k] = text(all[k]);
  const ivs = g.dateTimeFormats.intervalFormats;
  for (const k of Object.keys(ivs)) if (typeof ivs[k] === "object" && !/[QwW]|-/.test(k)) iv[k] = Object.fromEntries(Object.entries(ivs[k]).filter(([f]) => !f.includes("-")));
  const periods = (o) => { const out = {}; for (const k of Object.keys(o)) if (!k.includes("-alt")) out[k] = o[k]; return out; };
  const era = (o) => [o[0], o[1]].join("|");
  const rules = dayPeriodRules[loc.split("-")[0]] ?? {};
  return {
    m: ["format", "stand-alone"].flatMap((f) => widths.map((w) => joined(g.months[f][w], monthKeys))),
    w: ["format", "stand-alone"].flatMap((f) => widths.map((w) => joined(g.days[f][w], dayKeys))),
    p: widths.map((w) => periods(g.dayPeriods.format[w])),
    pr: Object.keys(rules).map((k) => [k, rules[k]._at ?? rules[k]._from, rules[k]._at === undefined ? rules[k]._before : "@"].join(" ")),
    e: [era(g.eras.eraNames), era(g.eras.eraAbbr), era(g.eras.eraNarrow)],
    df: four(g.dateFormats), tf: four(g.timeFormats), dt: four(g.dateTimeFormats), at: four(g["dateTimeFormats-atTime"].standard ?? g["dateTimeFormats-atTime"]),
    av, iv, fb: ivs.intervalFormatFallback, hc: hours(loc),
    ap: ["Era", "Year", "Quarter", "Month", "Week", "Week", "Day-Of-Week", "Day", "Day", "Day", "Day", "Hour", "Minute", "Second", "Second", "Timezone"].map((k) => g.dateTimeFormats.appendItems[k]),
    fn: ["era", "year", "quarter", "month", "week", "weekOfMonth", "weekday", "dayOfYear", "weekdayOfMonth", "day", "dayperiod", "hour", "minute", "second", "second", "zone"].map((k) => fields[k]?.displayName ?? ""),
  };
}

function relative(loc) {
  const fields = json(`cldr-dates-full/main/${loc}/dateFields.json`).main[loc].dates.fields, out = {};
  for (const u of ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]) {
    out[u] = ["", "-short", "-narrow"].map((w) => {
      const f = fields[u + w], words = {};
      for (const k of Object.keys(f)) if (k.startsWith("relative-type-")) words[k.slice(14)] = f[k];
      return [words, forms(f["relativeTime-type-past"], "relativeTimePattern-count-"), forms(f["relativeTime-type-future"], "relativeTimePattern-count-")];
    });
  }
  return out;
}

function leaves(o, at, out) {
  for (const k of Object.keys(o)) {
    if (typeof o[k] !== "object") continue;
    if (o[k]._type === "zone") out[at + k] = o[k];
    else leaves(o[k], at + k + "/", out);
  }
  return out;
}

const six = (o) => {
  const out = [o.long?.generic, o.long?.standard, o.long?.daylight, o.short?.generic, o.short?.standard, o.short?.daylight].map((x) => x ?? 0);
  while (out.at(-1) === 0) out.pop();
  return out;
};

function zoneNames(loc) {
  const z = json(`cldr-dates-full/main/${loc}/timeZoneNames.json`).main[loc].dates.timeZoneNames;
  const m = {}, x = {}, c = {}, all = leaves(z.zone, "", {});
  for (const k of Object.keys(z.metazone)) if (six(z.metazone[k]).length > 0) m[k] = six(z.metazone[k]);
  for (const k of Object.keys(all)) {
    if (six(all[k]).length > 0) x[k] = six(all[k]);
    const city = all[k].exemplarCity;
    if (city !== undefined && city !== k.slice(k.lastIndexOf("/") + 1).replaceAll("_", " ")) c[k] = city;
  }
  return [{ g: z.gmtFormat, h: z.hourFormat, rf: z.regionFormat, m, x }, c];
}

function lists(loc) {
  const l = json(`cldr-misc-full/main/${loc}/listPatterns.json`).main[loc].listPatterns, out = {};
  for (const [type, name] of [["conjunction", "standard"], ["disjunction", "or"], ["unit", "unit"]]) {
    out[type] = ["", "-short", "-narrow"].map((w) => { const p = l[`listPattern-type-${name}${w}`]; return [p["2"], p.start, p.middle, p.end]; });
  }
  return out;
}

const extra = "ast ceb chr fil gsw haw hsb kok mni sah sat yue zgh mul und zxx".split(" ");
const usual = "Adlm Arab Armn Beng Bopo Brai Cans Cher Cyrl Deva Ethi Geor Grek Gujr Guru Hang Hani Hans Hant Hebr Hira Jpan Kana Khmr Knda Kore Laoo Latn Mlym Mong Mymr Orya Sinh Taml Telu Tfng Thaa Thai Tibt Zyyy Zzzz".split(" ");

function names(loc) {
  const at = (f) => json(`cldr-localenames-full/main/${loc}/${f}.json`).main[loc].localeDisplayNames;
  const keep = (o) => Object.fromEntries(Object.entries(o).filter(([k, v]) => !/-alt-(?!short)/.test(k) && v !== k));
  const p = at("localeDisplayNames").localeDisplayPattern;
  const languages = Object.fromEntries(Object.entries(keep(at("languages").languages)).filter(([k]) => /^[a-z]{2}\b/.test(k) || extra.includes(k)));
  const scripts = Object.fromEntries(Object.entries(keep(at("scripts").scripts)).filter(([k]) => usual.includes(k.slice(0, 4))));
  return { T: keep(at("territories").territories), L: languages, S: scripts, p: [p.localePattern, p.localeSeparator] };
}

function sections(loc) {
  const [z, y] = zoneNames(loc);
  return { n: numbers(loc), c: currencies(loc), u: units(loc), d: dates(loc), r: relative(loc), z, y, l: lists(loc), t: names(loc) };
}

// What turns a into b: objects are merged, null removes, everything else replaces.
function difference(a, b) {
  const out = {};
  for (const k of Object.keys(b)) {
    if (JSON.stringify(a[k]) === JSON.stringify(b[k])) continue;
    const plain = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
    out[k] = plain(a[k]) && plain(b[k]) ? difference(a[k], b[k]) : b[k];
  }
  for (const k of Object.keys(a)) if (b[k] === undefined && a[k] !== undefined) out[k] = null;
  return out;
}

const lines = (rows) => rows.map(([head, o]) => `${head} ${JSON.stringify(o)}\n`).join("");

const bases = Object.fromEntries(languages.map((l) => [l, sections(l)]));
for (const l of languages) fs.writeFileSync(path.join(here, l + ".txt"), lines(Object.entries(bases[l])));

// Locales with what differs from their parent's, as CLDR has parents.
const parents = core("parentLocales").parentLocales.parentLocale, full = { ...bases }, others = [];
const available = new Set(fs.readdirSync(path.join(packages, "cldr-dates-full/main")));

function parent(loc) {
  if (/^zh-(TW|HK|MO)/.test(loc)) return "zh-Hant";
  for (const l of Object.keys(aliases)) if (aliases[l].includes(loc)) return l;
  const p = parents[loc];
  if (p !== undefined && p !== "und") return p;
  const up = loc.slice(0, loc.lastIndexOf("-"));
  return loc.includes("-") ? (available.has(up) ? up : parent(up)) : undefined;
}

function add(loc) {
  if (full[loc] !== undefined) return true;
  const p = parent(loc);
  if (p === undefined || !add(p)) return false;
  full[loc] = sections(loc);
  others.push([loc, p, difference(full[p], full[loc])]);
  return true;
}

for (const loc of available) {
  const [lang, ...more] = loc.split("-"), script = more.find((s) => s.length === 4);
  if (languages.includes(lang) || Object.values(aliases).flat().includes(lang)) if (script === undefined || script === "Hans" || script === "Hant") if (!loc.includes("polyton")) add(loc);
}
fs.writeFileSync(path.join(here, "regions.txt"), lines(others.map(([loc, , o]) => [loc, o])));

// The rules of plurals as JavaScript.
function condition(rule) {
  return rule.split("@")[0].trim().split(" or ").map((o) => o.split(" and ").map((a) => {
    const m = /^([nivwftec])(?: % (\d+))? (!?=) (.+)$/.exec(a.trim()), x = m[2] === undefined ? m[1] : `${m[1]} % ${m[2]}`;
    const alts = m[4].split(",").map((r) => {
      const [lo, hi] = r.split("..");
      if (hi === undefined) return `${x} === ${lo}`;
      return /^[nft]/.test(x) && m[1] === "n" ? `(n % 1 === 0 && ${x} >= ${lo} && ${x} <= ${hi})` : `(${x} >= ${lo} && ${x} <= ${hi})`;
    });
    const any = alts.length > 1 ? `(${alts.join(" || ")})` : alts[0];
    return m[3] === "!=" ? `!(${any})` : any;
  }).join(" && ")).join(" || ");
}

const ruled = [...languages, "pt-PT"];

function pluralFunctions(name, key) {
  const rules = core(name)[key], out = [], functions = new Map();
  const where = {};
  for (const l of ruled) {
    const r = rules[l] ?? rules[l.split("-")[0]];
    let body = "";
    for (const c of plural) if (c !== "other" && r["pluralRule-count-" + c] !== undefined) body += `${condition(r["pluralRule-count-" + c])} ? "${c}" : `;
    const code = `(n, i, v, w, f, t, e) => ${body}"other"`;
    if (!functions.has(code)) { functions.set(code, `${key.slice(13, 17)}${functions.size}`); out.push(`const ${functions.get(code)} = ${code};`); }
    where[l] = { f: functions.get(code), c: plural.filter((c) => r["pluralRule-count-" + c] !== undefined) };
  }
  return [out.join("\n"), `{ __proto__: null, ${ruled.map((l) => `"${l}": ${where[l].f}`).join(", ")} }`, where];
}

const [c1, c2, where] = pluralFunctions("plurals", "plurals-type-cardinal"), [o1, o2, whereOrd] = pluralFunctions("ordinals", "plurals-type-ordinal");
const ranges = core("pluralRanges").plurals, rangeText = {};
for (const l of ruled) {
  const r = ranges[l] ?? (l === "pt-PT" ? {} : ranges[l.split("-")[0]]) ?? {};
  rangeText[l] = " " + Object.entries(r).map(([k, v]) => k.replace(/pluralRange-start-(\w+)-end-(\w+)/, `$1-$2-${v}`)).join(" ") + " ";
}
const fractions = core("currencyData").currencyData.fractions;
const digits = Object.entries(fractions).filter(([k, v]) => k !== "DEFAULT" && v._digits !== "2").map(([k, v]) => k + v._digits).join(" ");
const parts = (w) => `{ __proto__: null, ${ruled.map((l) => `"${l}": "${w[l].c.join(" ")}"`).join(", ")} }`;

// Time zones. A line has: the name; the name that CLDR has for it, and its country; the rule for the future as POSIX writes it;
// its types as seconds.daylight in base 36, with commas; when which begins, as seconds after the one before in base 36, with the type.
const bcp = json("cldr-bcp47/bcp47/timezone.json").keyword.u.tz;
const cldrOf = {}, countryOf = {}, ianaOf = {};
for (const [id, v] of Object.entries(bcp)) {
  if (id.startsWith("_") || v._alias === undefined) continue;
  const all = v._alias.split(" ");
  for (const a of all) { cldrOf[a] = all[0]; countryOf[a] = all[0].includes("/") && !all[0].startsWith("Etc/") ? id.slice(0, 2).toUpperCase() : "001"; }
  ianaOf[all[0]] = v._iana ?? all[0];
}

// From these on the database says that winter is the exception; CLDR's names, and everybody else, say summer is.
const negative = { "Europe/Dublin": [57722400, Infinity], "Africa/Windhoek": [764200800, 1508810400], "Africa/Casablanca": [1540692000, Infinity], "Africa/El_Aaiun": [1540692000, Infinity] };

function readZone(file, name) {
  const b = fs.readFileSync(file), cut = (at) => ({ isut: b.readUInt32BE(at + 20), isstd: b.readUInt32BE(at + 24), leap: b.readUInt32BE(at + 28), time: b.readUInt32BE(at + 32), type: b.readUInt32BE(at + 36), char: b.readUInt32BE(at + 40) });
  if (b.toString("latin1", 0, 4) !== "TZif") return undefined;
  const h1 = cut(0), second = 44 + h1.time * 5 + h1.type * 6 + h1.char + h1.leap * 8 + h1.isstd + h1.isut, h = cut(second);
  let at = second + 44;
  const times = [], types = [], kinds = [];
  for (let i = 0; i < h.time; i++, at += 8) times.push(Number(b.readBigInt64BE(at)));
  for (let i = 0; i < h.time; i++, at++) types.push(b[at]);
  for (let i = 0; i < h.type; i++, at += 6) kinds.push([b.readInt32BE(at), b[at + 4]]);
  const footer = b.toString("latin1", b.lastIndexOf("\n", b.length - 2) + 1, b.length - 1);
  const list = [], index = (off, dst) => { const k = off.toString(36) + (dst ? "!" : ""); const i = list.indexOf(k); return i < 0 ? list.push(k) - 1 : i; };
  const flip = negative[cldrOf[name] ?? name];
  index(...kinds[0]);
  let last = 0, out = [];
  for (let i = 0; i < times.length; i++) {
    if (times[i] < -5e9) continue;
    let [off, dst] = kinds[types[i]];
    if (flip !== undefined && times[i] >= flip[0] && times[i] < flip[1]) dst = dst ? 0 : 1;
    out.push((times[i] - last).toString(36) + "." + index(off, dst).toString(36));
    last = times[i];
  }
  return `${footer}|${list.join(",")}|${out.join(",")}`;
}

const meta = leavesOf(core("metaZones").metaZones.metazoneInfo.timezone, "", {});
function leavesOf(o, at, out) {
  for (const k of Object.keys(o)) if (Array.isArray(o[k])) out[at + k] = o[k]; else leavesOf(o[k], at + k + "/", out);
  return out;
}
const seconds = (s) => (s === undefined ? "" : (Date.parse(s.replace(" ", "T") + ":00Z") / 1000).toString(36));

const zoneLines = new Map();
(function walk(dir, at) {
  for (const f of fs.readdirSync(dir, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = at + f.name;
    if (f.isDirectory()) { if (!["posix", "right"].includes(f.name)) walk(path.join(dir, f.name), name + "/"); continue; }
    if (!/^[A-Z]/.test(f.name) || name === "Factory" || at === "SystemV/") continue;
    const z = readZone(path.join(dir, f.name), name);
    if (z !== undefined) zoneLines.set(name, z);
  }
})(timezones, "");
const seen = new Map(), rows = [];
const first = (n) => ((ianaOf[cldrOf[n]] ?? cldrOf[n]) === n && n.includes("/") ? 0 : n === "UTC" ? 1 : 2);
for (const [name, z] of [...zoneLines].sort((a, b) => first(a[0]) - first(b[0]) || (a[0] < b[0] ? -1 : 1))) {
  const cldr = cldrOf[name] ?? name, country = countryOf[name] ?? "", first = seen.get(z + cldr);
  const m = (meta[cldr] ?? []).flatMap(({ usesMetazone: u }, i, all) => [[seconds(u._from), u._mzone].filter((x) => x !== "").join(" "), ...(u._to !== undefined && all[i + 1]?.usesMetazone._from !== u._to ? [seconds(u._to) + " "] : [])]).join(",");
  if (first === undefined) seen.set(z + cldr, name);
  rows.push(first === undefined ? `${name} ${cldr === name ? "" : cldr}|${country}|${m}|${z}` : `${name} >${first}`);
}
fs.writeFileSync(path.join(here, "zones.txt"), rows.join("\n") + "\n");

// Names that supportedValuesOf lists: one for each place, by the name that the database prefers.
const preferred = [...zoneLines.keys()].filter((n) => n === "UTC" || (cldrOf[n] !== undefined && (ianaOf[cldrOf[n]] ?? n) === n && n.includes("/") && !n.startsWith("Etc/") && countryOf[n] !== "001"));
const perCountry = {};
for (const n of new Set(Object.values(cldrOf))) { const c = countryOf[n]; if (c !== "001") (perCountry[c] ??= []).push(n); }
const primary = { ...core("primaryZones").primaryZones };
for (const c of Object.keys(perCountry)) if (perCountry[c].length === 1) primary[c] = perCountry[c][0];

fs.writeFileSync(path.join(here, "rules.js"), `// Code generated by generate.mjs of CLDR; DO NOT EDIT.
${c1}
${o1}
export const cardinal = ${c2};
export const ordinal = ${o2};
export const cardinalForms = ${parts(where)};
export const ordinalForms = ${parts(whereOrd)};
export const pluralRanges = ${JSON.stringify({ __proto__: null, ...rangeText })};
export const currencyDigits = ${JSON.stringify(" " + digits + " ")};
export const currencyCodes = ${JSON.stringify([...current].sort().join(" "))};
export const unitNames = ${JSON.stringify(sanctioned.join(" "))};
export const zoneIds = ${JSON.stringify(preferred.sort().join(" "))};
export const primaryZones = ${JSON.stringify(" " + Object.values(primary).sort().join(" ") + " ")};
export const defaultContent = ${JSON.stringify(" " + json("cldr-core/defaultContent.json").defaultContent.filter((l) => languages.includes(l.split("-")[0]) || l.startsWith("nb")).join(" ") + " ")};
export const regions = ${JSON.stringify(" " + others.map(([loc, p]) => `${loc}:${p}`).join(" ") + " ")};
export const bases = ${JSON.stringify(languages.join(" "))};
`);
