package config

// Nearest returns the candidate that differs least from key, by Levenshtein distance, or "" when
// none is near enough to be a slip of the fingers: more than a third of the key's length, and more
// than two letters.
func Nearest(key string, candidates []string) string {
	best, limit := "", max(2, len(key)/3)
	if len(key) <= 2 {
		limit = 1
	}
	for _, c := range candidates {
		if d := distance(key, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour that
// turns a into b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
