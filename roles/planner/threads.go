package planner

// A Speedup has the speed-up of a call of Op with several threads: its time with one thread divided by its time with
// Threads threads.
type Speedup struct {
	Op      string  `json:"op"`
	Threads int     `json:"threads"`
	Factor  float64 `json:"factor"`
}

// speedup returns the speed-up of a call of op with n threads. It is at least 1.
func (p *Profile) speedup(op string, n int) float64 { return max(1, amdahl(p.Speedups, op, n)) }

// amdahl extrapolates the measured speed-up of op to n threads by Amdahl's law. All operations except OpGenerate use
// the measurement of OpUpdate. Without a measurement amdahl returns 0.
func amdahl(measured []Speedup, op string, n int) float64 {
	if op != OpGenerate {
		op = OpUpdate
	}
	for _, s := range measured {
		if s.Op != op || s.Threads < 2 || s.Factor <= 0 {
			continue
		}
		k := float64(s.Threads)
		serial := max(0, (1/s.Factor-1/k)/(1-1/k))
		return 1 / (serial + (1-serial)/float64(n))
	}
	return 0
}

// activeThreads returns the number of threads that compute on the fullest node while all members of g work.
func (g *group) activeThreads() int { return g.most * max(1, g.threads) }

// threaded returns copies of the choices in list with different numbers of threads: one thread per member, and enough
// threads to use all cores of a node. Numbers in s.Threads are fixed. Without a measured speed-up it returns list.
func (s *SearchSpace) threaded(m *Machine, p *Profile, list []choice) (all []choice) {
	if len(p.Speedups) == 0 {
		return list
	}
	options := func(component string, g *group) []int {
		switch n := s.Threads[component]; {
		case g == nil:
			return []int{1}
		case n > 0:
			return []int{n}
		case m.Cores < 2*g.most:
			return []int{1}
		}
		return []int{1, m.Cores / g.most}
	}
	for _, c := range list {
		for _, actor := range options("actor", c.actor) {
			for _, rollout := range options("rollout", c.rollout) {
				threads := map[string]int{"actor": actor}
				if c.rollout != nil {
					threads["rollout"] = rollout
				}
				x := c
				x.thread(threads)
				all = append(all, x)
			}
		}
	}
	return all
}

// thread sets the number of threads of each member. Inference and critic workers get as many threads as an actor.
func (c *choice) thread(threads map[string]int) {
	c.threads = threads
	of := [...]string{"actor", "", "rollout", "", "actor", "actor"}
	for i, at := range c.groups() {
		if n := threads[of[i]]; *at != nil && n > 1 {
			g := **at
			g.threads, *at = n, &g
		}
	}
}
