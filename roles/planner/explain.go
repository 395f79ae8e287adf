package planner

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
)

// Explain writes the results of a search. A table has the best layouts with the times of their phases and their memory.
// Below are the bounds of the winner's phases, the Sensitive entries and the Sentences.
func (f *Found) Explain(out io.Writer, m *Machine, p *Profile) error {
	w := f.Winner()
	how := "ran in virtual time"
	if p.Work.Envs == 0 {
		how = "were compared" // only by the closed form
	}
	fmt.Fprintf(out, "%d layouts fit this job; the %d most promising %s\n\n", f.Looked, f.Ran, how)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "iteration\tsync\trollout\tadvantages\tupdate\tmemory\t \t layout\n")
	row := func(x *Prediction, mark string) {
		fmt.Fprintf(t, "%s\t", Seconds(x.Seconds))
		for _, ph := range x.Phases {
			fmt.Fprintf(t, "%s\t", Seconds(ph.Seconds))
		}
		fmt.Fprintf(t, "%s\t%s\t %s\n", figures.MiB(x.Memory), mark, x.Layout.String())
	}
	present := false
	for i := range f.Best {
		mark := ""
		if f.isPresent(f.Best[i]) {
			mark, present = "now", true
		}
		row(&f.Best[i], mark)
	}
	if f.Present != nil && !present {
		row(f.Present, "now")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(f.Best) > 1 && f.Best[1].Seconds < w.Seconds && Seconds(f.Best[1].Seconds) != Seconds(w.Seconds) {
		first := "simplest"
		if f.KeepsPresent() {
			first = "present one"
		}
		fmt.Fprintf(out, "Times within %.0f %% count as equal. Of these layouts the %s is first.\n", 100*Tie, first)
	}
	fmt.Fprintf(out, "\nWhat bounds the first one:\n")
	for _, ph := range w.Phases {
		if ph.Seconds > 0.005*w.Seconds {
			fmt.Fprintf(out, "  %s, %.0f %%: %s\n", ph.Name, 100*ph.Seconds/w.Seconds, ph.Bound)
		}
	}
	f.explainWrong(out)
	fmt.Fprintf(out, "\n%s\n", strings.Join(f.Sentences(p), " "))
	return nil
}

// explainWrong writes the factors in f.Sensitive.
func (f *Found) explainWrong(out io.Writer) {
	if len(f.Sensitive) == 0 {
		return
	}
	fmt.Fprintf(out, "\nHow wrong an entry must be to change the winner:\n")
	for _, s := range f.Sensitive {
		if s.Factor == 0 {
			fmt.Fprintf(out, "  %s: no factor from 1/4 to 4 changes it\n", s.Entry)
		} else {
			fmt.Fprintf(out, "  %s: × %g, then %s\n", s.Entry, s.Factor, s.Winner)
		}
	}
}

// Sentences describes the winner in three sentences: its layout, its time, and a comparison with another layout.
func (f *Found) Sentences(p *Profile) []string {
	w := f.Winner()
	longest := w.Longest()
	what := "Place"
	if f.KeepsPresent() {
		what = "Keep the present placement,"
	}
	list := []string{
		fmt.Sprintf("%s %s.", what, w.Layout.String()),
		fmt.Sprintf("An iteration takes %s; %.0f %% of it is %s, bound by %s.", Seconds(w.Seconds),
			100*longest.Seconds/w.Seconds, longest.Name, longest.Bound),
	}
	switch {
	case f.KeepsPresent():
		list = append(list, fmt.Sprintf("No other layout is faster by more than %.0f %%.", 100*Tie))
	case f.Present != nil:
		list = append(list, fmt.Sprintf("The present placement takes %s, %.2f times as long.",
			Seconds(f.Present.Seconds), f.Present.Seconds/w.Seconds))
	case len(f.Best) > 1 && f.Best[1].Seconds < w.Seconds:
		list = append(list, fmt.Sprintf("Another layout, %s, takes %s; within %.0f %% the simpler one wins.",
			f.Best[1].Layout.String(), Seconds(f.Best[1].Seconds), 100*Tie))
	case len(f.Best) > 1:
		list = append(list, fmt.Sprintf("The next best layout, %s, takes %s.", f.Best[1].Layout.String(),
			Seconds(f.Best[1].Seconds)))
	default:
		list = append(list, "No other layout fits the job.")
	}
	return list
}

// Seconds formats a number of seconds as a duration with about three digits.
func Seconds(s float64) string {
	d := time.Duration(s * 1e9)
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
