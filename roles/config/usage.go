package config

import "fmt"

// A UsageError is a mistake of the user on the command line, or in the configuration.
type UsageError struct{ Err error }

// Error returns the text of Err.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError whose text is formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
