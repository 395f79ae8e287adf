package planner

// A program is a body that repeats sections of actions. It runs all sections in each epoch, and the closing actions
// once at the end.
type program struct {
	epochs   int
	sections []section
	closing  []action
	draw     drawer

	epoch, section, time, at int
	calls                    uint64
}

// A section is a list of actions that is repeated.
type section struct {
	actions []action
	times   int
	whole   bool // all actions are computations without waits; they are merged into one
}

// next returns the next action, with a drawn duration.
func (p *program) next() action {
	for p.epoch < p.epochs {
		if p.section == len(p.sections) {
			p.section, p.epoch = 0, p.epoch+1
			continue
		}
		s := &p.sections[p.section]
		if p.time == s.times || len(s.actions) == 0 {
			p.time, p.section = 0, p.section+1
			continue
		}
		if s.whole {
			p.time = s.times
			return p.sum(s)
		}
		a := s.actions[p.at]
		if p.at++; p.at == len(s.actions) {
			p.at, p.time = 0, p.time+1
		}
		return p.drawn(a)
	}
	if p.at < len(p.closing) {
		p.at++
		return p.drawn(p.closing[p.at-1])
	}
	return action{}
}

// sum merges the computations of all repetitions of s into one action.
func (p *program) sum(s *section) action {
	total := action{kind: compute, what: opPlay}
	for range s.times {
		for _, a := range s.actions {
			total.busy += p.drawn(a).busy
			if !p.draw.noisy {
				total.busy += float64(s.times-1) * a.busy
			}
		}
		if !p.draw.noisy {
			break
		}
	}
	return total
}

// drawn returns the action a with a duration drawn from its spread.
func (p *program) drawn(a action) action { return p.draw.drawn(a, &p.calls) }

// A server answers the items of a queue in the order in which they arrive. The tag of an item selects its answer.
type server struct {
	engine  *engine
	in      int         // the queue
	answers [][2]action // by tag: the computation and the put of the answer
	left    int         // number of items still to come
	draw    drawer

	tag, at int
	calls   uint64
}

// next returns the next action.
func (s *server) next() action {
	s.at++
	switch s.at {
	case 1:
		if s.left == 0 {
			return action{}
		}
		s.left--
		return action{kind: get, queue: s.in}
	case 2:
		s.tag = s.engine.tagged(s.in)
		return s.draw.drawn(s.answers[s.tag][0], &s.calls)
	}
	s.at = 0
	return s.answers[s.tag][1]
}

// A drawer draws the durations of one process.
type drawer struct {
	noisy   bool
	seed    uint64
	process uint64
}

// drawn returns the action a with a duration drawn from its spread. It adds 1 to *calls for each draw.
func (d drawer) drawn(a action, calls *uint64) action {
	if a.kind == compute && d.noisy {
		*calls++
		f := d.factor(a.spread, *calls)
		a.busy, a.wait = a.busy*f, a.wait*f
	}
	return a
}

// factor draws the factor of the n-th call from the quantiles in spread.
func (d drawer) factor(spread []float64, n uint64) float64 {
	if len(spread) < 2 {
		return 1
	}
	u := mix(mix(mix(d.seed)^d.process) ^ n)
	x := float64(u>>11) / (1 << 53) * float64(len(spread)-1)
	i := int(x)
	return spread[i] + (x-float64(i))*(spread[i+1]-spread[i])
}

// mix is the finaliser of SplitMix64, Steele et al. 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
