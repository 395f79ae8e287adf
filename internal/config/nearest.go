package config

import "strings"

// Nearest returns the candidate that differs least from key, by Levenshtein distance, or "" when
// none is near enough to be a slip of the fingers. That is a third of the key's letters, and at least
// two, or one in a key of four letters or fewer.
func Nearest(key string, candidates []string) string {
	best, limit := "", max(2, len(key)/3)
	if len(key) <= 4 {
		limit = 1
	}
	for _, c := range candidates {
		if d := distance(key, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// Likeliest returns the dotted key that most likely was meant by key, which may lack the sections
// before it; "" where none is likely. That is a key which ends in it, else one that is spelt much
// like it, else one whose last name is.
func Likeliest(key string, candidates []string) string {
	if full := endingIn(key, candidates); full != "" {
		return full
	}
	i := strings.LastIndexByte(key, '.') + 1
	if i > 0 {
		return Nearest(key, candidates)
	}
	best, limit := "", max(1, len(key)/4)
	for _, c := range candidates {
		d := distance(key, c[strings.LastIndexByte(c, '.')+1:])
		if d < limit || d == limit && (best == "" || strings.Count(c, ".") < strings.Count(best, ".")) {
			best, limit = c, d
		}
	}
	return best
}

// endingIn returns the candidate with the fewest names of those that end in a dotted key; "" for
// none.
func endingIn(key string, candidates []string) string {
	best := ""
	for _, c := range candidates {
		if strings.HasSuffix(c, "."+key) && (best == "" || strings.Count(c, ".") < strings.Count(best, ".")) {
			best = c
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
