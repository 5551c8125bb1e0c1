package wasm

//go:generate go run github.com/biplane-dev/biplane/internal/lab/w2x -pkg py -keep _initialize,bp_* -sha256 f69a5c617650d72a51795ffb0630fe73676c765b2a1e4d71a41a894cfc74e3f9 -o ../../../../third_party/cpython/py ../../../../third_party/cpython/python.wasm
//go:generate go test -run ^TestGolden$/^python$ . -args -update
