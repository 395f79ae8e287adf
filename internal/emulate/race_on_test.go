//go:build race

package emulate

const race = true
