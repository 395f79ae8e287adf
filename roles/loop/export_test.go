package loop

// Record adds the reports of a step, for tests outside of the package.
func (l *Logbook) Record(step int64, reports ...*RankReport) error {
	var all [][]byte
	for _, r := range reports {
		all = append(all, r.append(nil))
	}
	return l.record(step, all)
}

// Sync is sync, for tests outside of the package.
func (l *Logbook) Sync() error { return l.sync() }
