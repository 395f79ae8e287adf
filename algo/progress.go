package algo

// Progress is told how far long work has come: done of total, in the work what. It is called often, by
// the goroutine that works. It must not wait, and should allocate nothing. A nil Progress ignores all
// calls.
type Progress func(what string, done, total int)

// Report tells p.
func (p Progress) Report(what string, done, total int) {
	if p != nil {
		p(what, done, total)
	}
}

// The work that algorithms report. Units are micro-batches of an update, and texts or transitions.
const (
	workUpdate     = "update"
	workEvaluation = "evaluation"
	workValidation = "validation"
)
