package answer

import "embed"

// Source has the files of this package that declare configuration keys. The manual is made from the
// comments of their fields.
//
//go:embed config.go
var Source embed.FS
