package mujoco

// Instructions by their success: what is sometimes done teaches most. Each environment counts its
// own episodes, in physics.memo behind suiteLen. So the mix is saved with the environment, and does
// not depend on where other environments run.
const (
	tallySolved   = iota // whether the running episode was a success
	tallyEpisodes        // [instructions]: episodes so far, old ones count less and less
	tallyLen      = tallyEpisodes + 2*orderCount
	orderCount    = 12
)

const (
	mixForgets = 0.9 // what an episode counts after the next one with the same instruction
	mixLeast   = 0.2 // of the weight of an instruction that always succeeds, or never
)

// tally returns what an environment counts: whether the episode was a success, and of each
// instruction its episodes and successes.
func (t *suite) tally() (solved *float64, episodes, successes []float64) {
	m := t.memo[suiteLen:]
	return &m[tallySolved], m[tallyEpisodes:][:orderCount], m[tallyEpisodes+orderCount:][:orderCount]
}

// solved notes that the episode is a success.
func (t *suite) solved() {
	if t.mixes {
		solved, _, _ := t.tally()
		*solved = 1
	}
}

// tallyUp counts the episode that ends here, if one was begun.
func (t *suite) tallyUp() {
	if !t.mixes || t.memo[suiteClock] == 0 {
		return
	}
	solved, episodes, successes := t.tally()
	i := int(t.memo[suiteOrder])
	episodes[i] = mixForgets*episodes[i] + 1
	successes[i] = mixForgets*successes[i] + *solved
	*solved = 0
}

// chances returns the weights by which an instruction is drawn now.
func (t *suite) chances() []float64 {
	if !t.mixes {
		return t.weights
	}
	_, episodes, successes := t.tally()
	for i, w := range t.weights {
		p := (successes[i] + 1) / (episodes[i] + 2) // of a first guess of one half
		t.mixed[i] = w * (mixLeast + 4*p*(1-p))
	}
	return t.mixed[:]
}
