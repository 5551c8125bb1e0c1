// The files of the sandbox, by Node's own modules.

import fs from "node:fs";

const { statSync } = fs, { readFile } = fs.promises;

/** Reads a text file asynchronously. */
export const readText = (path) => readFile(path, "utf8");

/** Throws unless path is a file. */
export function mustBeFile(path) {
  if (statSync(path).isDirectory()) throw new Error("EISDIR: illegal operation on a directory, read '" + path + "'");
}
