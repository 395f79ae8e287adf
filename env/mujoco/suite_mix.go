package mujoco

// The weights of instructions can depend on their success. Instructions that sometimes succeed
// teach most, so they get the highest weights. Each environment counts its own episodes, in
// physics.memo after suiteLen. So the mix is saved with the environment, and does not depend on the
// placement of other environments.
const (
	tallySolved   = iota // 1: the current episode was a success
	tallyEpisodes        // [orderCount]: discounted number of episodes so far; then the same for successes
	tallyLen      = tallyEpisodes + 2*orderCount
	orderCount    = 12
)

const (
	mixForgets = 0.9 // discount of old episodes for each new one with the same instruction
	mixLeast   = 0.2 // factor of the weight for an instruction that always or never succeeds
)

// tally returns the counters of an environment: success of the current episode, and the episodes
// and successes of each instruction.
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

// tallyUp counts the episode that ends now, if there is one.
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

// chances returns the current weights for drawing an instruction.
func (t *suite) chances() []float64 {
	if !t.mixes {
		return t.weights
	}
	_, episodes, successes := t.tally()
	for i, w := range t.weights {
		p := (successes[i] + 1) / (episodes[i] + 2) // with one success in two episodes as a prior
		t.mixed[i] = w * (mixLeast + 4*p*(1-p))
	}
	return t.mixed[:]
}
