package config

import "math"

// Product returns the product of numbers ≥ 0, or the largest int if the product is larger.
func Product(factors ...int) int {
	p := 1
	for _, f := range factors {
		if f > 0 && p > math.MaxInt/f {
			return math.MaxInt
		}
		p *= f
	}
	return p
}

// LCM returns the least common multiple of a and b, both > 0.
func LCM(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return Product(a/x, b)
}
