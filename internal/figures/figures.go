// Package figures answers: how does a text show measured numbers?
package figures

import (
	"fmt"
	"slices"
)

// Count returns a number with its noun: "1 rank", "2 ranks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// MiB returns n bytes in mebibytes: "1.5 MiB".
func MiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Percent returns a fraction in per cent: 0.62 as "62 %".
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// Seconds returns a time of s seconds with three digits and a unit: "1.5 ms".
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}

// Median sorts x and returns its median, or 0 if x is empty.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
