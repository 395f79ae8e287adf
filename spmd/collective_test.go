package spmd

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestCheckRefuses checks calls of member 1 of 2. Unless they say otherwise, their buffers have 8 bytes.
func TestCheckRefuses(t *testing.T) {
	data := make([]byte, 32)[:8]
	for _, c := range []struct {
		call Collective
		want string
	}{
		{Collective{Kind: 10, DType: tensor.F32}, "no such operation: Kind(10) of F32"},
		{Collective{Kind: Broadcast}, "no such operation: broadcast of"},
		{Collective{Kind: Broadcast, DType: tensor.F16}, "no such operation: broadcast of F16"},
		{Collective{Kind: AllReduce, DType: tensor.F32, Data: data[:7]}, "7 bytes at an address that is 0 mod 4"},
		{Collective{Kind: AllReduce, DType: tensor.F32, Data: data[1:5]}, "4 bytes at an address that is 1 mod 4"},
		{Collective{Kind: SendReceive, DType: tensor.F32, Data: data, Send: data[:3]}, "3 bytes at an address"},
		{Collective{Kind: AllReduce, DType: tensor.F32, Data: data, Op: 4}, "no such reduction: Op(4)"},
		{Collective{Kind: Broadcast, DType: tensor.F32, Data: data, Root: 2}, "root 2: expected a member from 0 to 1"},
		{Collective{Kind: Gather, DType: tensor.F32, Data: data, Root: -1}, "root -1: expected a member from 0 to 1"},
		{Collective{Kind: SendReceive, DType: tensor.F32, To: -1}, "to member -1, from member 0: expected members"},
		{Collective{Kind: SendReceive, DType: tensor.F32, From: 2}, "to member 0, from member 2: expected members"},
		{Collective{Kind: AllGather, DType: tensor.F32, Data: data, Counts: []int{}}, "0 counts for 2 members"},
		{Collective{Kind: AllGather, DType: tensor.F32, Data: data, Counts: []int{1, 2}},
			"counts add up to 3, the buffer has 2"},
		{Collective{Kind: ReduceScatter, DType: tensor.F32, Data: data, Counts: []int{3, -1}},
			"counts: -1 elements for member 1"},
		{Collective{Kind: Scatter, DType: tensor.F32, Data: data, Counts: []int{2, 1}},
			"counts add up to 1, the buffer has 2"}, // not the root: its block alone
		{Collective{Kind: Scatter, DType: tensor.F64, Data: data, Root: 1},
			"1 elements in even blocks for 2 members: pass the counts"},
		{Collective{Kind: AllToAll, DType: tensor.F64, Data: data}, "in place, blocks have one length: got 1 elements"},
		{Collective{Kind: AllToAll, DType: tensor.F32, Data: data, SendCounts: []int{1, 1}}, "in place, blocks have"},
		{Collective{Kind: AllToAll, DType: tensor.F32, Data: data, Send: data[:4]},
			"1 elements to send and 2 to receive in even blocks for 2 members"},
		{Collective{Kind: AllToAll, DType: tensor.F32, Data: data, Send: data, Counts: []int{1, 1}},
			"counts for one side only"},
		{Collective{Kind: AllToAll, DType: tensor.F32, Data: data, Send: data, Counts: []int{1, 1},
			SendCounts: []int{2}},
			"1 send counts for 2 members"},
		{Collective{Kind: AllToAll, DType: tensor.F32, Data: data, Send: data, Counts: []int{1, 1},
			SendCounts: []int{1, 0}}, "send counts add up to 1, the buffer has 2"},
	} {
		test.Fails(t, c.call.Check(2, 1), c.want, "%v", &c.call)
	}
}

func TestCheckAccepts(t *testing.T) {
	data := make([]byte, 24)
	for _, c := range []Collective{
		{},
		{Kind: Broadcast, DType: tensor.F32},
		{Kind: AllGather, DType: tensor.F64, Data: data},
		{Kind: ReduceScatter, DType: tensor.F64, Data: data, Counts: []int{3, 0}},
		{Kind: Gather, DType: tensor.F64, Data: data}, // not the root: its block alone
		{Kind: Gather, DType: tensor.F64, Data: data, Counts: []int{1, 3}},
		{Kind: Scatter, DType: tensor.U8, Data: data, Root: 1},
		{Kind: AllToAll, DType: tensor.F32, Data: data},
		{Kind: AllToAll, DType: tensor.F64, Data: data, Counts: []int{3, 0}, Send: data[:16], SendCounts: []int{1, 1}},
		{Kind: SendReceive, DType: tensor.I32, Data: data, Send: data[:4], To: 1, From: 1},
	} {
		test.Check(t, c.Check(2, 1), "%v", &c)
	}
}
