package trace

// offset returns how far clock b is ahead of clock a. On a busy machine a goroutine may rest between two readings, so
// it looks for two readings of a with little time between them, and for one of b there.
func offset(a, b func() int64) int64 {
	const tries, near = 1000, 500 // ns
	ahead, shortest := int64(0), int64(-1)
	for range tries {
		before, there, after := a(), b(), a()
		if took := after - before; shortest < 0 || took < shortest {
			ahead, shortest = there-before-took/2, took
		}
		if shortest <= near {
			break
		}
	}
	return ahead
}
