//go:build !race

package emulate

const race = false
