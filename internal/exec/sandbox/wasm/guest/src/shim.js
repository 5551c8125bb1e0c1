// Globals that the bundled libraries expect and the engine lacks. unshim.js deletes them again.
// Must be imported first.
globalThis.Atomics = {};
