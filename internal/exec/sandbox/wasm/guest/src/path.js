// The module node:path.

export { default } from "../../../../../../third_party/path-browserify/index.js";
