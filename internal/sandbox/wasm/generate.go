package wasm

//go:generate go run github.com/biplane-dev/biplane/internal/w2x -pkg qjs -keep _initialize,qjs_*,wasm_malloc,wasm_free -o qjs ../../../third_party/quickjs-wasi/quickjs.wasm
