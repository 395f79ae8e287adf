package env

import "embed"

// Source embeds the files of this package that declare keys of the configuration. The comments of
// the fields document these keys.
//
//go:embed config.go external.go person.go video.go task.go record.go
var Source embed.FS
