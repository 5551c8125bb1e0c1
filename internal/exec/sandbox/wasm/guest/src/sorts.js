// Sorts long arrays by numbers. The engine would call the comparison for each two elements; the host
// reads each number once. Whatever is unusual is left to the engine.

import { ArrayPrototype, apply, define, exec, functionToString, slice, uncurry } from "./primordials.js";
import { hostSort } from "./host.js";

const sortNative = uncurry(ArrayPrototype.sort);
const maxSource = 120; // length of a comparison's source: it has two names and a field

// Comparisons that only subtract their parameters, or the same field or item of both, as functions
// and arrow functions.
const name = "([A-Za-z_$][\\w$]{0,30})", part = "(\\.[A-Za-z_$][\\w$]{0,30}|\\[(?:0|[1-9]\\d{0,3})\\])?";
const difference = `${name}${part}\\s*-\\s*${name}${part}`;
// No line may end after return: JavaScript would insert a semicolon.
const block = `\\{\\s*return[ \\t]+${difference};?\\s*\\}`;
const parameters = `\\(\\s*${name}\\s*,\\s*${name}\\s*\\)`;
const forms = [
  new RegExp(`^${parameters}\\s*=>\\s*${difference}$`),
  new RegExp(`^(?:function\\s*[\\w$]*\\s*)${parameters}\\s*${block}$`),
  new RegExp(`^${parameters}\\s*=>\\s*${block}$`),
];

/** Returns the key for hostSort that a comparison stands for, or undefined. */
function keyOf(compare) {
  const source = apply(functionToString, compare, []);
  if (source.length > maxSource) return undefined;
  for (let i = 0; i < forms.length; i++) {
    const m = exec(forms[i], source);
    if (m === null) continue;
    const first = m[1], second = m[2], left = m[3], right = m[5], of = m[4];
    if (first === second || of !== m[6]) return undefined;
    const field = of === undefined ? "" : of[0] === "." ? slice(of, 1) : of;
    if (left === first && right === second) return "+" + field;
    if (left === second && right === first) return "-" + field;
    return undefined;
  }
  return undefined;
}

define(ArrayPrototype, "sort", {
  sort(compare) {
    if (typeof compare === "function" && hostSort(this) !== undefined) {
      const key = keyOf(compare);
      if (key !== undefined && hostSort(this, key) !== undefined) return this;
    }
    return sortNative(this, compare);
  },
}.sort);
