package entry

// allowedHere lists additional allowed calls of this architecture.
var allowedHere []uintptr
