package wasm

// mapNoReserve is 0: FreeBSD reserves no memory for inaccessible pages.
const mapNoReserve = 0
