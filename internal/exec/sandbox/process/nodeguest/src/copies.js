// The program's files: copies of the host's files in the sandbox's own file system. They are copied
// there before a program runs, and changes are copied back when it has ended without an error. In a
// session they stay there, so only what has changed is copied.

import fs from "node:fs";
import { ask } from "./link.js";

const { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } = fs;
const { parse, stringify } = JSON, bufferFrom = Buffer.from;
const roots = ["workspace", "skills"]; // folders below the root, here and at the host
const most = 10_000;                   // files and folders

const known = new Map();     // what is equal here and at the host: path to mark, "" for a folder
const hostMarks = new Map(); // marks of the host's files
let loaded = false, absent = false;

class NoHost extends Error {}

// Performs an operation of the host's file system.
async function operate(op, path, fields) {
  const text = await ask(stringify({ file: { id: 0, op, path, ...fields } }));
  if (text === undefined) throw new NoHost();
  const { error, value } = parse(text).answer;
  if (!error) return value;
  const e = new Error(error.message || error.code);
  e.code = error.code;
  throw e;
}

async function listHost(dir) {
  try {
    return await operate("list", dir, { flag: "l" });
  } catch (e) {
    if (e.code === "EACCES" || e.code === "EPERM" || e.code === "ENOENT") return []; // the program may not read it
    throw e;
  }
}

// Returns the host's files and folders, folders before their content.
async function survey() {
  const found = new Map(), todo = [...roots];
  for (let i = 0; i < todo.length; i++) {
    if (i >= roots.length) found.set(todo[i], "");
    for (const item of await listHost(todo[i])) {
      const path = todo[i] + "/" + item.name;
      if (item.dir) todo.push(path);
      else found.set(path, item.mtime + " " + item.size);
    }
  }
  return found;
}

const markOf = (path) => { const s = lstatSync(path, { bigint: true }); return s.mtimeNs + " " + s.size; };

// Returns the program's files and folders, folders before their content.
function walk() {
  const found = new Map(), todo = [...roots];
  for (let i = 0; i < todo.length; i++) {
    for (const e of readdirSync("/" + todo[i], { withFileTypes: true })) {
      const path = todo[i] + "/" + e.name;
      if (e.isDirectory()) {
        found.set(path, "");
        todo.push(path);
      } else if (e.isFile()) found.set(path, markOf("/" + path)); // the host has only files and folders
      if (found.size > most) throw new Error("the program left more than " + most + " files in ./workspace");
    }
  }
  return found;
}

function remove(path) {
  known.delete(path);
  rmSync("/" + path, { recursive: true, force: true });
}

const deepestFirst = (paths) => [...paths].sort().reverse();

/**
 * Copies the host's files that differ from those here, and removes what the host doesn't have. In a
 * session, that undoes what a failed program did.
 */
export async function loadFiles() {
  let there;
  try { there = await survey(); } catch (e) {
    if (!(e instanceof NoHost)) throw e;
    absent = true;
    return;
  }
  const here = loaded ? walk() : new Map();
  loaded = true;
  for (const path of deepestFirst(here.keys())) {
    if (!there.has(path) || (here.get(path) === "") !== (there.get(path) === "")) remove(path);
  }
  for (const path of [...known.keys()]) if (!there.has(path)) known.delete(path);
  for (const [path, mark] of there) {
    if (mark === "") {
      if (!here.has(path)) remove(path);
      mkdirSync("/" + path, { recursive: true });
      known.set(path, "");
      continue;
    }
    if (hostMarks.get(path) === mark && here.has(path) && known.get(path) === here.get(path)) continue;
    if (!here.has(path)) remove(path); // a link, for example
    let data;
    try { data = await operate("read", path, { base64: true }); } catch (e) {
      if (e.code !== "EACCES" && e.code !== "EPERM") throw e;
      remove(path); // the program may not read it
      continue;
    }
    writeFileSync("/" + path, bufferFrom(data, "base64"));
    known.set(path, markOf("/" + path));
    hostMarks.set(path, mark);
  }
}

/** Copies changed files to the host, and removes what the program removed. */
export async function storeFiles() {
  if (absent) return;
  const found = walk();
  let changed = false;
  for (const path of deepestFirst(known.keys())) {
    if (found.has(path)) continue;
    await operate("rm", path, { recursive: true, force: true });
    known.delete(path);
    changed = true;
  }
  for (const [path, mark] of found) {
    const before = known.get(path);
    if (before === mark) continue;
    changed = true;
    if (before !== undefined && (before === "" || mark === "")) await operate("rm", path, { recursive: true, force: true });
    if (mark === "") await operate("mkdir", path, { recursive: true });
    else await operate("write", path, { data: readFileSync("/" + path).toString("base64"), base64: true, flag: "w" });
    known.set(path, mark);
  }
  if (changed) for (const [path, mark] of await survey()) hostMarks.set(path, mark);
}
