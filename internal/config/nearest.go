package config

import "strings"

// Nearest returns the candidate with the smallest Levenshtein distance from key, or "" if no candidate is close enough.
// The largest allowed distance is a third of the key's length, but at least 2. For a key of at most four letters it is
// 1.
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

// Likeliest returns the most likely candidate for a dotted key, or "". The first sections may be missing in key. A
// candidate that ends in key takes precedence. Otherwise, a key with a dot is compared with whole candidates. A key
// without a dot is compared with the last name of each candidate.
func Likeliest(key string, candidates []string) string {
	if full := endingIn(key, "", candidates); full != "" {
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

// endingIn returns the candidate that ends in the dotted name, or "". If there are several, it prefers those that begin
// with the most sections of key. Among these it returns the shortest.
func endingIn(name, key string, candidates []string) string {
	best, most := "", -1
	for _, c := range candidates {
		if !strings.HasSuffix(c, "."+name) {
			continue
		}
		n := sharedSections(key, c)
		if n > most || n == most && strings.Count(c, ".") < strings.Count(best, ".") {
			best, most = c, n
		}
	}
	return best
}

// sharedSections returns the number of leading sections that a and b have in common.
func sharedSections(a, b string) (n int) {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// distance returns the number of insertions, deletions, replacements and swaps of neighbouring letters that turn a into
// b (optimal string alignment).
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
