package config

// A UsageError is a mistake in how the program was called, or in its configuration.
type UsageError struct{ Err error }

// Error is that of Err.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e UsageError) Unwrap() error { return e.Err }
