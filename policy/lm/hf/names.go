package hf

import (
	"strings"

	"github.com/rlinf/rlinf/policy/lm"
)

// fileName returns the name that a tensor of package lm has in a family's checkpoints.
func fileName(f lm.Family, name string) string {
	if f != lm.Mixtral || !strings.Contains(name, ".mlp.") {
		return name
	}
	return mixtralNames.Replace(name)
}

var mixtralNames = strings.NewReplacer(".mlp.", ".block_sparse_moe.", ".gate_proj.", ".w1.", ".up_proj.", ".w3.",
	".down_proj.", ".w2.")

// ignored reports whether a file may have the named tensor although the model does not have this tensor.
func ignored(m *lm.Model, name string) bool {
	headless := m.Config.Tied || m.Headless()
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") || headless && name == "lm_head.weight"
}

// fileShape returns the shape of a tensor in a file.
func fileShape(t lm.Weight) []int {
	if t.Transposed {
		return []int{t.Shape[1], t.Shape[0]}
	}
	return t.Shape
}
