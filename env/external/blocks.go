package external

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// pageSize is the alignment of the reply block.
const pageSize = 4096

// blocks describe the layout of the arrays of n environments in a memory: the request block at byte
// 0, and the reply block at byte replyAt.
type blocks struct {
	request, reply *tensor.Layout
	replyAt        int
	finalAt        int // offset of the final observations in the reply block
}

func newBlocks(spec env.Spec, n int) blocks {
	fields := []tensor.Field{
		{Name: "reward", DType: tensor.F32, Shape: []int{n}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{n}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{n}},
	}
	if len(spec.Info) > 0 {
		fields = append(fields, tensor.Field{Name: "info", DType: tensor.F32, Shape: []int{n, len(spec.Info)}})
	}
	if spec.Intervene {
		fields = append(fields, tensor.Field{Name: "intervened", DType: tensor.U8, Shape: []int{n}},
			tensor.Field{Name: "taken", DType: spec.Action.DType, Shape: []int{n, spec.Action.Dim()}})
	}
	observations := func(prefix string) {
		for _, f := range spec.Obs {
			fields = append(fields, tensor.Field{Name: prefix + f.Name, DType: f.DType,
				Shape: append([]int{n}, f.Shape...)})
		}
	}
	observations("observation.")
	first := len(fields)
	observations("final_observation.")
	b := blocks{
		request: tensor.NewLayout(
			tensor.Field{Name: "action", DType: spec.Action.DType, Shape: []int{n, spec.Action.Dim()}},
			tensor.Field{Name: "seed", DType: tensor.I64, Shape: []int{n}},
			tensor.Field{Name: "mask", DType: tensor.U8, Shape: []int{n}},
		),
		reply: tensor.NewLayout(fields...),
	}
	b.finalAt = b.reply.Offset(first)
	b.replyAt = (b.request.Size() + pageSize - 1) / pageSize * pageSize
	return b
}

// size returns the size of both blocks in bytes.
func (b blocks) size() int { return b.replyAt + b.reply.Size() }
