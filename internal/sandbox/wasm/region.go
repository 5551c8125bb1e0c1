package wasm

// wasmPage is the unit in which a WebAssembly memory grows, in bytes.
const wasmPage = 64 << 10

// reservation is how much address space each guest gets, in bytes. An address in the generated engine is a 32-bit
// number plus a 32-bit constant, so that no load or store can leave it; whatever isn't in use faults.
const reservation = 8<<30 + wasmPage
