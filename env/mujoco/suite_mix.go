package mujoco

// Indices into physics.memo after suiteLen, for weights that depend on success. Instructions that
// sometimes succeed teach most, so they get the highest weights. Each environment counts its own
// episodes, so the weights do not depend on the placement of the environments.
const (
	tallySolved   = iota // 1 if the current episode is a success
	tallyEpisodes        // [2,orderCount]: discounted numbers of episodes and of successes so far
	tallyLen      = tallyEpisodes + 2*orderCount
	orderCount    = 12
)

const (
	mixForgets = 0.9 // factor of an instruction's counts at each of its new episodes
	mixLeast   = 0.2 // factor of the weight of an instruction that always or never succeeds
)

// tally returns the counters of the environment: the success of the current episode, and the
// episodes and successes of each instruction.
func (t *suite) tally() (solved *float64, episodes, successes []float64) {
	m := t.memo[suiteLen:]
	return &m[tallySolved], m[tallyEpisodes:][:orderCount], m[tallyEpisodes+orderCount:][:orderCount]
}

// solved records that the current episode is a success.
func (t *suite) solved() {
	if t.mixes {
		solved, _, _ := t.tally()
		*solved = 1
	}
}

// tallyUp adds the previous episode, if there was one, to the counters.
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

// chances returns the current weights of the instructions.
func (t *suite) chances() []float64 {
	if !t.mixes {
		return t.weights
	}
	_, episodes, successes := t.tally()
	for i, w := range t.weights {
		p := (successes[i] + 1) / (episodes[i] + 2) // the prior is one success in two episodes
		t.mixed[i] = w * (mixLeast + 4*p*(1-p))
	}
	return t.mixed[:]
}
