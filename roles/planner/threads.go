package planner

// A Speedup says how many times as fast a call of Op is with this many threads as with one.
type Speedup struct {
	Op      string  `json:"op"`
	Threads int     `json:"threads"`
	Factor  float64 `json:"factor"`
}

// speedup returns how many times as fast a call of op is with n threads as with one.
func (p *Profile) speedup(op string, n int) float64 { return max(1, amdahl(p.Speedups, op, n)) }

// amdahl returns how many times as fast a call of op is with n threads as with one, by Amdahl's law. The measured
// factor tells which share of the call only one thread works on. All operations except OpGenerate use the measurement
// of OpUpdate. Without a measurement amdahl returns 0.
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

// computing returns the number of computations on the fullest node while all members of g work.
func (g *group) computing() int { return g.most * max(1, g.threads) }

// threaded returns the choices of list with one thread for each member, and with enough threads to use all cores of a
// node. A fixed number of threads stays. Threads change nothing if no speed-up was measured.
func (s *Space) threaded(m *Machine, p *Profile, list []choice) (all []choice) {
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

// thread gives the members threads. Inference and critic workers have as many as actors.
func (c *choice) thread(threads map[string]int) {
	c.threads = threads
	of := [...]string{"actor", "", "rollout", "", "actor", "actor"}
	for i, at := range c.all() {
		if n := threads[of[i]]; *at != nil && n > 1 {
			g := **at
			g.threads, *at = n, &g
		}
	}
}
