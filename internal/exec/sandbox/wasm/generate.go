package wasm

//go:generate go run github.com/biplane-dev/biplane/internal/lab/w2x -pkg qjs -keep _initialize,qjs_*,wasm_malloc,wasm_free -name js_free_value=39,js_malloc=63,js_new_object_from_shape=103,js_alloc_string=322,js_to_string=179,lre_exec=963 -sha256 d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9 -o ../../../../third_party/quickjs-wasi/qjs ../../../../third_party/quickjs-wasi/quickjs.wasm
