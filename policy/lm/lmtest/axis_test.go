package lmtest

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestRun: Run returns the error of a rank, even if other ranks wait for that rank.
func TestRun(t *testing.T) {
	for _, end := range []func() error{
		func() error { return errors.New("broken") },
		func() error { runtime.Goexit(); return nil }, // as t.Fatal does
	} {
		axes := NewAxes(3)
		err := Run(3, func(i int) error {
			if i == 1 {
				return end()
			}
			return axes[i].Sum([]float32{1})
		})
		if err == nil || !strings.HasPrefix(err.Error(), "rank 1: ") {
			t.Errorf("got %v", err)
		}
	}
	axes := NewAxes(3)
	test.Check(t, Run(3, func(i int) error { return axes[i].Sum([]float32{1}) }))
}
