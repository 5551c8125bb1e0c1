// The module node:path.

export { default } from "node:path";
