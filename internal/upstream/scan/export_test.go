package scan

// MaxMatched is the bound of CountMatched's second result.
const MaxMatched = maxMatched

// CountMatched is ScanTools, with the number of bytes that were matched against patterns.
var CountMatched = scanTools
