package trace

// offset returns how far clock b is ahead of clock a. It reads b between two readings of a. On a busy machine the
// goroutine may pause between readings, so offset tries again until the readings of a are close to each other.
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
