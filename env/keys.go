package env

import "strings"

// KeyErrors are mistakes in keys of a section that only the making of its part shows, such as a joint in a task that
// the model does not have.
type KeyErrors []KeyError

// A KeyError is one mistake.
type KeyError struct {
	Key    string // relative to the section, such as task.observations.0
	Reason string // what does not fit
}

func (e KeyErrors) Error() string {
	texts := make([]string, len(e))
	for i, k := range e {
		texts[i] = k.Key + ": " + k.Reason
	}
	return strings.Join(texts, "; ")
}
