package roles

import (
	"testing"
)

// TestBenchHeedsMasks: actions that were drawn beforehand are changed to allowed ones.
func TestBenchHeedsMasks(t *testing.T) {
	p, err := newPlayer(Registries{Envs: withLadders(1, 5, 3)}, envConfig("Ladders-v0", 4), 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := p.step(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
}
