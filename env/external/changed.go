package external

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
)

// Changed describes how the observations and actions of a simulator differ from those that a run had, for example "the
// simulator shows 18 numbers, the run saw 17". The arguments are the greeting of the simulator that the run had and the
// greeting of the present one. Changed returns "" if they are equal, or if a greeting is invalid.
func Changed(then, now string) string {
	a, err := readGreeting([]byte(then))
	if err != nil {
		return ""
	}
	b, err := readGreeting([]byte(now))
	if err != nil {
		return ""
	}
	var all []string
	for _, f := range b.spec.Obs {
		switch i := slices.IndexFunc(a.spec.Obs, func(of env.Field) bool { return of.Name == f.Name }); {
		case i < 0:
			all = append(all, fmt.Sprintf("the simulator shows %s, which the run did not see", f.Name))
		case shown(f.Space) != shown(a.spec.Obs[i].Space):
			where := ""
			if len(b.spec.Obs) > 1 {
				where = " in " + f.Name
			}
			all = append(all, fmt.Sprintf("the simulator shows %s%s, the run saw %s", shown(f.Space), where,
				strings.TrimSuffix(shown(a.spec.Obs[i].Space), " numbers")))
		}
	}
	for _, f := range a.spec.Obs {
		if !slices.ContainsFunc(b.spec.Obs, func(now env.Field) bool { return now.Name == f.Name }) {
			all = append(all, fmt.Sprintf("the simulator does not show %s, which the run saw", f.Name))
		}
	}
	if x, y := b.spec.Action.String(), a.spec.Action.String(); x != y {
		all = append(all, fmt.Sprintf("the simulator takes %s, the run chose from %s", x, y))
	}
	return strings.Join(all, "; ")
}

// SameButExpert reports whether two greetings are equal, except that one may have an expert.
func SameButExpert(a, b string) bool {
	x, err := without([]byte(a), "expert")
	y, err2 := without([]byte(b), "expert")
	return err == nil && err2 == nil && x == y
}

// shown returns the size of an observation as text.
func shown(s env.Space) string {
	switch {
	case s.Kind == env.Box && len(s.Shape) == 1:
		return fmt.Sprintf("%d numbers", s.Shape[0])
	case s.Kind == env.Box:
		return fmt.Sprintf("an array of %v", s.Shape)
	}
	return s.String()
}
