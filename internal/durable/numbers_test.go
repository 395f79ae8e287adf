package durable

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestWholeNumbers: only whole numbers change. Texts, other numbers and what is no JSON stay as they are.
func TestWholeNumbers(t *testing.T) {
	for _, c := range [][2]string{
		{`{"cores": 4.0, "memory":1E3,"copy": -1.50e1}`, `{"cores": 4, "memory":1000,"copy": -15}`},
		{`[1.5, 1e-3, 0.0, 7, -0.5]`, `[1.5, 1e-3, 0, 7, -0.5]`},
		{`[9007199254740992.0, 1e999, 1e300]`, `[9007199254740992.0, 1e999, 1e300]`},
		{`{"4.0": "a \" 4.0 \\", "b": 4.0}`, `{"4.0": "a \" 4.0 \\", "b": 4}`},
		{`1.2.3 -`, `1.2.3 -`}, {`"4.0`, `"4.0`}, {`"\`, `"\`}, {`4.`, `4.`}, {`.0`, `.0`}, {`01.0`, `01.0`}, {``, ``},
	} {
		test.Equal(t, string(WholeNumbers([]byte(c[0]))), c[1], "%s", c[0])
	}
}
