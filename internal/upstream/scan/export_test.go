package scan

// ScanWithin is ScanTools with a limit of the bytes that are matched. It also returns how many
// were.
var ScanWithin = scanTools
