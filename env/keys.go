package env

import "strings"

// KeyErrors are mistakes in a section of the configuration that show only when the object is made that the section
// describes. An example is a joint in a task that the model does not have.
type KeyErrors []KeyError

// A KeyError is one of these mistakes.
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
