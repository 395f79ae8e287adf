package answer

import "embed"

// Source has the files of this package that declare keys of the configuration. The comments of the
// fields are the manual of these keys.
//
//go:embed config.go
var Source embed.FS
