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

// GCD returns the greatest common divisor of a and b, both ≥ 0.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// LCM returns the least common multiple of a and b, both > 0.
func LCM(a, b int) int { return Product(a/GCD(a, b), b) }
