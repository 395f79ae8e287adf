package algo

// NewTeam returns replicas that are goroutines of one process, for the tests that use exported names.
func NewTeam(n int) []Replicas {
	t := newTeam(n)
	all := make([]Replicas, n)
	for i := range all {
		all[i] = &replica{team: t, member: i}
	}
	return all
}

// ShiftImages shifts the images of b as updates do.
func ShiftImages(s *Setup, b *Transitions, first int, update uint64) error {
	of, err := newShift(s.Seed, s.Policy)
	if err == nil {
		of.apply(b, first, update)
	}
	return err
}
