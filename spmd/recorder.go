package spmd

// A Recorder records how one goroutine spends its time. The goroutine runs a worker or the main function of a rank. No
// other goroutine may use the recorder.
type Recorder interface {
	// Site returns the number that stands for a site in the other methods.
	Site(Site) int
	// Begin begins a span at a site. The span is nested in the current span.
	Begin(site int)
	// End ends the current span. The meaning of arg depends on the operation of the site: see SiteOp. For an OpGet, n
	// is the number of the item among the items of its producer, from 0. For other operations n is 0.
	End(arg, n int64)
	// Mark records an instant at a site. The meaning of arg is that of End.
	Mark(site int, arg int64)
	// Pass records a wait of zero duration at a site. The arguments arg and n are those of End.
	Pass(site int, arg, n int64)
	// Divide moves so many nanoseconds from the current span to another site. Only sums of times show them there,
	// because Divide records no span.
	Divide(site int, ns int64)
}

// A Site is a place at which a goroutine works or waits.
type Site struct {
	Op   SiteOp
	Name string // name of the channel, communicator, weights, call, or work
	Key  string // the channel's key; a key that distinguishes communicators of the same Name; the work of a Part
	Peer string // group at the other end; for an OpAwait, the group that was called
}

// A SiteOp is the operation at a Site.
type SiteOp uint8

// The operations. The text after each semicolon is the value of arg in Recorder.End, Mark and Pass.
const (
	OpWork    SiteOp = iota // a worker computes; 0
	OpCall                  // a worker runs a call; 0
	OpAwait                 // main waits for a call of this rank's workers; 0
	OpGet                   // Receiver.Get; the producer of the item, or -1 after an error
	OpRoom                  // Sender.Take; the consumer, or AnyMember
	OpPut                   // Sender.Put; the consumer, or AnyMember
	OpReceive               // Member.RecvFrom; the sender
	OpCollect               // an operation of a collectives.Group; 0
	OpPublish               // collectives.Weights.Publish; the version
	OpAdopt                 // collectives.WeightsReader.Adopt; the version
	OpVote                  // the loop waits for the votes of other ranks; 0
	OpSave                  // the loop saves a checkpoint; 0
)

// A Span records the time that one goroutine spends at a site. The zero Span records nothing.
type Span struct {
	r    Recorder
	site int
}

// NewSpan returns a Span that tells r about the time at a site. If r is nil, the Span records nothing.
func NewSpan(r Recorder, at Site) Span {
	if r == nil {
		return Span{}
	}
	return Span{r, r.Site(at)}
}

// Begin begins the span and returns it, so that the caller can defer its End.
func (s Span) Begin() Span {
	if s.r != nil {
		s.r.Begin(s.site)
	}
	return s
}

// End ends the span. Its arguments are those of Recorder.End.
func (s Span) End(arg, n int64) {
	if s.r != nil {
		s.r.End(arg, n)
	}
}

// Mark records an instant at the span's site; see Recorder.Mark.
func (s Span) Mark(arg int64) {
	if s.r != nil {
		s.r.Mark(s.site, arg)
	}
}

// Pass records a wait of zero duration.
func (s Span) Pass(arg, n int64) {
	if s.r != nil {
		s.r.Pass(s.site, arg, n)
	}
}

// Divide moves so many nanoseconds from the current span to the site of s; see Recorder.Divide.
func (s Span) Divide(ns int64) {
	if s.r != nil && ns > 0 {
		s.r.Divide(s.site, ns)
	}
}

// Record turns on recording. It calls newRecorder with the group "" to make main's recorder, and Launch calls
// newRecorder for each member on this rank. From now on the world also counts its messages: see Traffic. Call Record
// before Launch.
func (w *World) Record(newRecorder func(group string, member int) Recorder) {
	w.newRecorder = newRecorder
	if w.sent == nil {
		w.sent = make([]sent, w.Size())
	}
	w.recorder = newRecorder("", w.Rank())
}

// Recorder returns the recorder of this rank's main, or nil if nothing is recorded.
func (w *World) Recorder() Recorder { return w.recorder }

// Recorder returns the member's recorder, or nil if nothing is recorded.
func (m *Member) Recorder() Recorder { return m.recorder }

// Part returns a span for one part of a worker's work. The arguments are the name of the part, the name of the work,
// and the group that does the work. Divide on the span counts time of the work as time of the part.
func (m *Member) Part(name, of, peer string) Span {
	return NewSpan(m.recorder, Site{Op: OpWork, Name: name, Key: of, Peer: peer})
}

// Span returns a span that records work of this member's worker under a name.
func (m *Member) Span(name string) Span { return NewSpan(m.recorder, Site{Op: OpWork, Name: name}) }
