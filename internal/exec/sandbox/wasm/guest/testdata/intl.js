// What Intl writes, for many locales, options and values. TestIntl runs it in the guest and compares the results with those
// of Node in intl.json.gz, which come of
//
//	node intl.js | gzip -9n > intl.json.gz
//
// with the Node that internal/lab/peertest/package.json names: it has full ICU. Its value is {locale: {case: result}}.
const locales = ("en en-US en-GB en-AU en-CA en-IN de de-AT de-CH fr fr-CA fr-CH es es-MX es-AR it pt-BR pt pt-PT nl nl-BE pl sv da nb fi cs hu ro el tr ru uk " +
  "ja zh-CN zh-TW zh-HK ko hi ar ar-EG he id vi").split(" ");

const numbers = [0, -0, 1, -1.5, 12.345, 1234.5, -9876543.215, 0.000123, 123456789, NaN, -Infinity, 12345678901234567890n, "98765432109876543210.987"];
const numberOptions = [
  undefined, { minimumFractionDigits: 2 }, { maximumFractionDigits: 0 }, { maximumSignificantDigits: 3 }, { minimumIntegerDigits: 4, useGrouping: false },
  { useGrouping: "always" }, { useGrouping: "min2" }, { signDisplay: "always" }, { signDisplay: "exceptZero" }, { signDisplay: "negative", maximumFractionDigits: 0 },
  { style: "percent" }, { style: "percent", minimumFractionDigits: 1, signDisplay: "always" }, { notation: "scientific" }, { notation: "engineering", maximumFractionDigits: 1 },
  { notation: "compact" }, { notation: "compact", compactDisplay: "long" }, { notation: "compact", maximumFractionDigits: 2 }, { roundingMode: "floor", maximumFractionDigits: 1 },
  { roundingMode: "halfEven", maximumFractionDigits: 2 }, { roundingIncrement: 5, maximumFractionDigits: 2, minimumFractionDigits: 2 }, { trailingZeroDisplay: "stripIfInteger", minimumFractionDigits: 2 },
  { maximumSignificantDigits: 2, maximumFractionDigits: 1, roundingPriority: "morePrecision" }, { maximumSignificantDigits: 2, maximumFractionDigits: 1, roundingPriority: "lessPrecision" },
];
const amounts = [0, 1, -1234.5, 2.5, 1234567.891, 5];
const moneyOptions = [
  { currency: "USD" }, { currency: "EUR" }, { currency: "GBP" }, { currency: "JPY" }, { currency: "CHF" }, { currency: "INR" }, { currency: "BRL" }, { currency: "PLN" }, { currency: "TRY" }, { currency: "KWD" },
  { currency: "XYZ" }, { currency: "EUR", currencyDisplay: "name" }, { currency: "USD", currencyDisplay: "code" }, { currency: "CAD", currencyDisplay: "narrowSymbol" }, { currency: "USD", currencyDisplay: "name", minimumFractionDigits: 0 },
  { currency: "USD", currencySign: "accounting" }, { currency: "EUR", currencySign: "accounting", signDisplay: "always" }, { currency: "EUR", notation: "compact" }, { currency: "USD", notation: "compact", compactDisplay: "long" },
  { currency: "SEK", signDisplay: "always" }, { currency: "UAH", maximumFractionDigits: 0 }, { currency: "CNY", currencyDisplay: "narrowSymbol" },
];
const units = ["kilometer", "celsius", "percent", "byte", "megabyte", "kilogram", "liter", "mile", "kilometer-per-hour", "second", "minute", "hour", "day", "week", "month", "year", "meter-per-second", "liter-per-kilometer", "megabyte-per-second", "acre", "inch", "byte-per-day"];
const zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo", "America/Sao_Paulo", "Australia/Lord_Howe", "Europe/Dublin", "Africa/Casablanca", "Pacific/Apia", "America/Los_Angeles", "Asia/Kathmandu", "Europe/London", "Pacific/Honolulu", "+05:30"];
const moments = [Date.UTC(2024, 1, 29, 13, 5, 9, 7), Date.UTC(2025, 6, 4, 0, 0, 0), Date.UTC(1999, 11, 31, 23, 59, 59, 999)];
const dateOptions = [
  undefined, { dateStyle: "full" }, { dateStyle: "long" }, { dateStyle: "medium" }, { dateStyle: "short" }, { timeStyle: "full" }, { timeStyle: "long" }, { timeStyle: "medium" }, { timeStyle: "short" },
  { dateStyle: "full", timeStyle: "long" }, { dateStyle: "long", timeStyle: "short" }, { dateStyle: "medium", timeStyle: "medium" }, { dateStyle: "short", timeStyle: "short" }, { timeStyle: "short", hour12: true }, { timeStyle: "short", hour12: false },
  { year: "numeric" }, { month: "long" }, { month: "short" }, { month: "narrow" }, { month: "numeric" }, { month: "2-digit" }, { day: "numeric" }, { day: "2-digit" }, { weekday: "long" }, { weekday: "short" }, { weekday: "narrow" },
  { year: "numeric", month: "2-digit", day: "2-digit" }, { year: "numeric", month: "long" }, { year: "numeric", month: "short" }, { year: "numeric", month: "numeric" }, { year: "2-digit", month: "2-digit" }, { month: "long", day: "numeric" }, { month: "short", day: "numeric" }, { month: "numeric", day: "numeric" }, { month: "2-digit", day: "2-digit" },
  { year: "numeric", month: "long", day: "numeric" }, { year: "numeric", month: "short", day: "numeric" }, { weekday: "long", year: "numeric", month: "long", day: "numeric" }, { weekday: "short", month: "short", day: "numeric" }, { weekday: "short", year: "numeric", month: "numeric", day: "numeric" },
  { weekday: "long", day: "numeric" }, { weekday: "long", month: "long" }, { year: "2-digit", month: "numeric", day: "numeric" }, { month: "long", day: "2-digit" },
  { hour: "numeric" }, { hour: "2-digit" }, { hour: "numeric", minute: "2-digit" }, { hour: "2-digit", minute: "2-digit" }, { hour: "numeric", minute: "2-digit", second: "2-digit" }, { hour: "numeric", minute: "numeric", hour12: true }, { hour: "numeric", minute: "2-digit", hour12: false }, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  { minute: "2-digit", second: "2-digit" }, { minute: "numeric" }, { second: "2-digit" }, { hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 }, { second: "numeric", fractionalSecondDigits: 2 }, { hour: "numeric", dayPeriod: "long" }, { hour: "numeric", minute: "2-digit", dayPeriod: "short", hour12: true },
  { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "2-digit" }, { year: "numeric", month: "long", day: "numeric", hour: "numeric", minute: "2-digit" }, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" }, { weekday: "long", hour: "numeric" }, { weekday: "short", hour: "2-digit", minute: "2-digit" }, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" },
  { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }, { weekday: "long", year: "numeric", month: "long", day: "numeric", hour: "2-digit", minute: "2-digit" }, { year: "numeric", era: "short" }, { year: "numeric", month: "long", day: "numeric", era: "long" },
  { hour: "numeric", minute: "2-digit", timeZoneName: "short" }, { hour: "numeric", timeZoneName: "long" }, { year: "numeric", month: "numeric", day: "numeric", timeZoneName: "short" }, { timeZoneName: "short" },
];
const ranges = [[Date.UTC(2024, 0, 5, 9, 30), Date.UTC(2024, 0, 5, 17, 45)], [Date.UTC(2024, 0, 5), Date.UTC(2024, 0, 12)], [Date.UTC(2024, 0, 5), Date.UTC(2024, 3, 7)], [Date.UTC(2023, 10, 5), Date.UTC(2024, 3, 7)], [Date.UTC(2024, 0, 5, 9, 30), Date.UTC(2024, 0, 5, 10, 15)], [0, 0]];
const rangeOptions = [undefined, { dateStyle: "long" }, { dateStyle: "medium" }, { dateStyle: "short" }, { year: "numeric", month: "short", day: "numeric" }, { month: "long", day: "numeric" }, { year: "numeric", month: "long" }, { weekday: "short", month: "short", day: "numeric" }, { timeStyle: "short" }, { hour: "numeric", minute: "2-digit" }, { dateStyle: "medium", timeStyle: "short" }, { year: "numeric" }];
const words = ["zebra", "Äpfel", "apfel", "Zoë", "zoe", "ñandú", "nube", "öl", "ol", "łódź", "lodz", "Ödön", "çay", "cay", "ılık", "ince", "épée", "epee", "straße", "strasse", "chata", "cihla", "hora", "åre", "are", "jabłko", "Яблоко", "ёлка", "ель", "йод", "иод", "ґанок", "гора", "їжак", "іній", "א", "ب", "अ", "가", "나", "a b", "a-b", "ab", "A", "a", "10", "9", "2"];

function cases(locale) {
  const out = {};
  const put = (name, f) => {
    let v;
    try { v = f(); } catch (e) { v = "threw " + e.name; }
    out[name] = v;
  };
  const show = (x) => (Array.isArray(x) ? x.map((p) => `${p.type}${p.source ? "@" + p.source[0] : ""}:${p.value}`).join("|") : x);
  const key = (o) => (o === undefined ? "" : JSON.stringify(o));
  for (const o of numberOptions) put("number " + key(o), () => { const f = new Intl.NumberFormat(locale, o); return numbers.map((n) => f.format(n)); });
  for (const o of moneyOptions) put("money " + key(o), () => { const f = new Intl.NumberFormat(locale, { style: "currency", ...o }); return amounts.map((n) => f.format(n)); });
  for (const unit of units) put("unit " + unit, () => ["short", "long", "narrow"].flatMap((unitDisplay) => { const f = new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay }); return [0, 1, -2, 5, 1.5, 12345].map((n) => f.format(n)); }));
  for (const o of [undefined, { style: "percent" }, { style: "currency", currency: "USD" }, { style: "currency", currency: "EUR", currencyDisplay: "name" }, { notation: "compact" }, { notation: "scientific" }, { style: "unit", unit: "kilometer" }]) {
    put("number parts " + key(o), () => { const f = new Intl.NumberFormat(locale, o); return [-1234567.5, 1, 23456].map((n) => show(f.formatToParts(n))); });
    put("number range " + key(o), () => { const f = new Intl.NumberFormat(locale, o); return [[1, 2], [1234, 56789], [3, 3]].map(([a, b]) => f.formatRange(a, b)); });
  }
  for (const o of dateOptions) put("date " + key(o), () => { const f = new Intl.DateTimeFormat(locale, { ...o, timeZone: "UTC" }); return moments.map((m) => f.format(m)); });
  for (const o of [undefined, { dateStyle: "full", timeStyle: "full" }, { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 2, timeZoneName: "short" }]) put("date parts " + key(o), () => show(new Intl.DateTimeFormat(locale, { ...o, timeZone: "Europe/Berlin" }).formatToParts(moments[0])));
  for (const o of rangeOptions) put("date range " + key(o), () => { const f = new Intl.DateTimeFormat(locale, { ...o, timeZone: "UTC" }); return ranges.map(([a, b]) => f.formatRange(a, b)); });
  put("date range parts", () => show(new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" }).formatRangeToParts(...ranges[2])));
  for (const timeZone of zones) put("zone " + timeZone, () => ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"].flatMap((timeZoneName) => {
    const f = new Intl.DateTimeFormat(locale, { timeZone, timeZoneName, year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "2-digit" });
    return moments.map((m) => f.format(m));
  }));
  put("toLocale", () => [(1234.5).toLocaleString(locale), 1234567n.toLocaleString(locale), new Date(moments[0]).toLocaleString(locale, { timeZone: "UTC" }), new Date(moments[0]).toLocaleDateString(locale, { timeZone: "UTC" }), new Date(moments[0]).toLocaleTimeString(locale, { timeZone: "UTC" }), [1.5, 2000].toLocaleString(locale), "iİıI straße".toLocaleUpperCase(locale), "IİıI".toLocaleLowerCase(locale)]);
  for (const type of ["cardinal", "ordinal"]) put("plural " + type, () => { const p = new Intl.PluralRules(locale, { type }); return [0, 1, 2, 3, 4, 5, 11, 12, 21, 22, 101, 1000000, 1.5, 0.5, -1].map((n) => p.select(n)); });
  put("plural categories", () => new Intl.PluralRules(locale).resolvedOptions().pluralCategories.toSorted());
  put("plural ranges", () => { const p = new Intl.PluralRules(locale); return [[0, 1], [1, 2], [2, 5], [1, 21]].map(([a, b]) => p.selectRange(a, b)); });
  for (const style of ["long", "short", "narrow"]) {
    for (const numeric of ["always", "auto"]) put(`relative ${style} ${numeric}`, () => { const f = new Intl.RelativeTimeFormat(locale, { style, numeric }); return ["year", "quarter", "month", "weeks", "day", "hour", "minute", "second"].flatMap((u) => [-2, -1, 0, 1, 5, -1234.5].map((n) => f.format(n, u))); });
    for (const type of ["conjunction", "disjunction", "unit"]) put(`list ${style} ${type}`, () => { const f = new Intl.ListFormat(locale, { style, type }); return [[], ["x"], ["x", "y"], ["x", "y", "z"], ["p", "q", "r", "iglesia"]].map((l) => f.format(l)); });
  }
  for (const type of ["region", "language", "script", "currency"]) put("names " + type, () => { const n = new Intl.DisplayNames(locale, { type }), codes = { region: ["DE", "US", "CN", "BR", "419", "ZZ"], language: ["de", "en-US", "pt-BR", "zh-Hant", "fr-CH", "uk"], script: ["Latn", "Cyrl", "Hant"], currency: ["USD", "EUR", "JPY", "CHF", "XYZ"] }; return codes[type].map((c) => n.of(c)); });
  for (const o of [undefined, { style: "currency", currency: "EUR" }, { notation: "compact" }, { style: "unit", unit: "day" }]) put("resolved number " + key(o), () => key(new Intl.NumberFormat(locale, o).resolvedOptions()));
  for (const o of [undefined, { dateStyle: "full", timeStyle: "short" }, { weekday: "long", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short" }]) put("resolved date " + key(o), () => key(new Intl.DateTimeFormat(locale, { ...o, timeZone: "Europe/Berlin" }).resolvedOptions()));
  put("sort", () => words.toSorted(new Intl.Collator(locale).compare).join(" "));
  put("sort numeric", () => words.toSorted((a, b) => a.localeCompare(b, locale, { numeric: true, sensitivity: "base" })).slice(0, 8).join(" "));
  return out;
}

// Offsets of every zone over the years, as a digest: what is compared is where zones differ.
function offsets(zones) {
  const out = {};
  for (const timeZone of zones) {
    const f = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset", year: "numeric" });
    let last = "", text = "";
    for (let t = 0; t < 4e9; t += 31e5 * 6) {
      const p = f.formatToParts(t * 1000), o = p[p.length - 1].value.slice(3);
      if (o !== last) text += `${t}${o} `;
      last = o;
    }
    out[timeZone] = text;
  }
  return out;
}

if (globalThis.process?.versions?.icu !== undefined) {
  const rows = [];
  for (const l of locales) for (const [k, v] of Object.entries(cases(l))) rows.push(JSON.stringify([l, k, v]));
  for (const [k, v] of Object.entries(offsets(Intl.supportedValuesOf("timeZone")))) rows.push(JSON.stringify(["offsets", k, v]));
  console.log(rows.join("\n"));
}
