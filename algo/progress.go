package algo

// Progress is called with the state of long work: done of total units of the work called what. The
// goroutine that works calls it often. It must not wait, and should allocate nothing. A nil
// Progress ignores all calls.
type Progress func(what string, done, total int)

// Report calls p.
func (p Progress) Report(what string, done, total int) {
	if p != nil {
		p(what, done, total)
	}
}

// The names of work that algorithms report. The units of an update are micro-batches or texts,
// those of evaluations texts, those of validations transitions.
const (
	workUpdate     = "update"
	workEvaluation = "evaluation"
	workValidation = "validation"
)
