package wasm

//go:generate go run github.com/biplane-dev/biplane/internal/w2x -pkg py -keep _initialize,bp_* -sha256 292bc9bf77fb97d52c868b76f0f40ce99786b816f3c52e816e25fe4f865b8744 -o ../../../third_party/cpython/py ../../../third_party/cpython/python.wasm
//go:generate go test -run ^TestGolden$/^python$ . -args -update
