package wasm

// wasmPage is the unit in which a WebAssembly memory grows, in bytes.
const wasmPage = 64 << 10

// reservation is the address space of each guest, in bytes. An address in the generated engine is a
// 32-bit number plus a 32-bit constant, so no load or store can leave the reservation. Accesses
// outside the memory in use fault.
const reservation = 8<<30 + wasmPage
