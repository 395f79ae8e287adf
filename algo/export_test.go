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
