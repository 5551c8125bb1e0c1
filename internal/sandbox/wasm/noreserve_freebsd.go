package wasm

// mapNoReserve is nothing: FreeBSD sets no memory aside for pages without access.
const mapNoReserve = 0
