package wasm

const defaultPrelude = ""
