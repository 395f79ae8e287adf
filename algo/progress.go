package algo

// A Progress function gets reports of long work: done of total units. The parameter what is the
// name of the work. The goroutine that works calls it often, so it must not wait, and should allocate
// nothing. A nil Progress ignores all calls.
type Progress func(what string, done, total int)

// Report calls p, unless p is nil.
func (p Progress) Report(what string, done, total int) {
	if p != nil {
		p(what, done, total)
	}
}

// The names of work that algorithms report. An update is counted in micro-batches or texts, an
// evaluation in texts, a validation in transitions.
const (
	workUpdate     = "update"
	workEvaluation = "evaluation"
	workValidation = "validation"
)
