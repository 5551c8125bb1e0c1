// What the bundled libraries look for and the engine lacks; taken away again by unshim.js. Must come first.
globalThis.Atomics = {};
